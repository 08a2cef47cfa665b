#include "apps/unstructured/mesh.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>

namespace braid::apps::unstructured {

namespace {

// The most that a node is away from its point of the lattice, in each direction.
constexpr double kJitter = 0.3;

// A box of points, numbered in x, then y, then z. It is about a cube; the last layer need not be full.
class Lattice {
 public:
  explicit Lattice(std::size_t points)
      : points_(points),
        side_(std::max<std::size_t>(
            1, static_cast<std::size_t>(std::lround(std::cbrt(static_cast<double>(points)))))) {}

  std::size_t points() const { return points_; }
  std::array<std::size_t, 3> place(std::size_t point) const {
    return {point % side_, point / side_ % side_, point / (side_ * side_)};
  }
  // A lattice neighbour of a lower number; `point` is not 0.
  std::size_t lower_neighbour(std::size_t point) const {
    const auto [x, y, z] = place(point);
    return x > 0 ? point - 1 : y > 0 ? point - side_ : point - side_ * side_;
  }
  // Calls found(other) for all points of a higher number that are at most `reach` away in each direction.
  template <class Found>
  void each_higher_point(std::size_t point, std::size_t reach, Found&& found) const {
    const auto [x, y, z] = place(point);
    for (std::size_t c = z; c <= z + reach; ++c) {
      for (std::size_t b = y - std::min(y, reach); b <= std::min(y + reach, side_ - 1); ++b) {
        for (std::size_t a = x - std::min(x, reach); a <= std::min(x + reach, side_ - 1); ++a) {
          const std::size_t other = (c * side_ + b) * side_ + a;
          if (other > point && other < points_) found(other);
        }
      }
    }
  }

 private:
  std::size_t points_, side_;
};

std::vector<Vector> draw_places(const Lattice& lattice, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Vector> places(lattice.points());
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (std::size_t x = 0; x < 3; ++x) {
      // In [-1, 1): the standard's distributions differ between libraries.
      const double jitter = static_cast<double>(random() >> 11) * 0x1.0p-52 - 1.0;
      places[i][x] = static_cast<double>(lattice.place(i)[x]) + kJitter * jitter;
    }
  }
  return places;
}

Edge edge_between(const std::vector<Vector>& places, std::size_t a, std::size_t b) {
  Edge edge{static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), {}, 0};
  double square = 0;
  for (std::size_t x = 0; x < 3; ++x) {
    edge.direction[x] = places[b][x] - places[a][x];
    square += edge.direction[x] * edge.direction[x];
  }
  edge.length = std::sqrt(square);
  for (double& x : edge.direction) x /= edge.length;
  return edge;
}

// Every pair of nodes whose lattice points are near enough that there are `edges` of them, once: first those of a
// spanning tree, then the others by length.
std::vector<Edge> candidates(const Lattice& lattice, const std::vector<Vector>& places, std::size_t edges) {
  std::vector<Edge> tree, others;
  for (std::size_t reach = 1; tree.size() + others.size() < edges || reach == 1; ++reach) {
    tree.clear();
    others.clear();
    for (std::size_t a = 0; a < lattice.points(); ++a) {
      lattice.each_higher_point(a, reach, [&](std::size_t b) {
        (lattice.lower_neighbour(b) == a ? tree : others).push_back(edge_between(places, a, b));
      });
    }
  }
  std::sort(others.begin(), others.end(), [](const Edge& one, const Edge& other) {
    return std::tie(one.length, one.a, one.b) < std::tie(other.length, other.a, other.b);
  });
  tree.insert(tree.end(), others.begin(), others.end());
  return tree;
}

}  // namespace

std::size_t fewest_edges(std::size_t nodes) {
  return nodes - 1;
}

std::size_t most_edges(std::size_t nodes) {
  return nodes * (nodes - 1) / 2;
}

Mesh draw_mesh(std::size_t nodes, std::size_t edges, std::uint64_t seed) {
  const Lattice lattice(nodes);
  Mesh mesh;
  mesh.places = draw_places(lattice, seed);
  mesh.edges = candidates(lattice, mesh.places, edges);
  mesh.edges.resize(edges);
  std::sort(mesh.edges.begin(), mesh.edges.end(), [](const Edge& one, const Edge& other) {
    return std::tie(one.a, one.b) < std::tie(other.a, other.b);
  });
  mesh.degree.assign(nodes, 0);
  for (const Edge& edge : mesh.edges) {
    ++mesh.degree[edge.a];
    ++mesh.degree[edge.b];
  }
  return mesh;
}

}  // namespace braid::apps::unstructured
