// A mesh of nodes in space and edges between near ones, drawn from a seed. Knows nothing of shared memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid::apps::unstructured {

using Vector = std::array<double, 3>;

struct Edge {
  std::uint32_t a, b;  // mesh nodes, a < b
  Vector direction;    // from a to b, of length 1
  double length;
};

struct Mesh {
  // All edges, in the order of their nodes: no two join the same nodes, and every node can be reached from every
  // other.
  std::vector<Edge> edges;
  std::vector<Vector> places;         // of the nodes
  std::vector<std::uint32_t> degree;  // edges of each node
};

// The numbers of edges that a mesh of so many nodes can have.
std::size_t fewest_edges(std::size_t nodes);
std::size_t most_edges(std::size_t nodes);

// Nodes lie near the points of a cubic lattice, a unit apart, and are numbered in its order: neighbours in number are neighbours
// in space, as a partitioner would have it. Of all pairs the shortest are edges, and those that keep the mesh in
// one piece. `edges` is in [fewest_edges(nodes), most_edges(nodes)].
Mesh draw_mesh(std::size_t nodes, std::size_t edges, std::uint64_t seed);

}  // namespace braid::apps::unstructured
