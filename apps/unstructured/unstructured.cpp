// An explicit solver on an unstructured mesh: quantities diffuse along the edges of a mesh of nodes. Each
// iteration sweeps over the edges for the gradients at the nodes, over the nodes, over the edges for the fluxes between
// the nodes, and over the nodes again. Compute nodes have a share of the edges and one of the mesh nodes. What
// a sweep finds for the ends of its edges a compute node adds up by itself first, then adds to the sums in shared memory: under
// the lock of a group of mesh nodes where other compute nodes have edges to the same group, else without.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/common/sum.h"
#include "apps/unstructured/mesh.h"
#include "dsm/api.h"

namespace {

using braid::apps::Sum;
using braid::apps::unstructured::Edge;
using braid::apps::unstructured::Mesh;
using braid::apps::unstructured::Vector;
using braid::dsm::Node;
using braid::dsm::Range;

constexpr std::size_t kQuantities = 4;

// Mesh nodes that share a lock. One lock for each mesh node would be taken as often as there are mesh nodes at
// the edges' ends; larger groups make compute nodes wait that add to different mesh nodes.
constexpr std::size_t kGroupNodes = 16;
constexpr std::size_t kGroupLocks = 4000;  // group g has lock g % kGroupLocks

// The part of the flux along the gradients that is taken back: less smears out steep places less.
constexpr double kGradientPart = 0.5;

using Values = std::array<double, kQuantities>;
using Gradient = std::array<Vector, kQuantities>;
using GradientSum = std::array<std::array<Sum, 3>, kQuantities>;
using FluxSum = std::array<Sum, kQuantities>;

std::size_t groups(std::size_t nodes) {
  return (nodes + kGroupNodes - 1) / kGroupNodes;
}

void add_to(GradientSum& sum, const GradientSum& found) {
  for (std::size_t q = 0; q < kQuantities; ++q)
    for (std::size_t x = 0; x < 3; ++x) sum[q][x].add(found[q][x]);
}
void add_to(FluxSum& sum, const FluxSum& found) {
  for (std::size_t q = 0; q < kQuantities; ++q) sum[q].add(found[q]);
}

// The mesh and what is known at its nodes, in shared memory or in private. Between iterations all sums are 0.
struct Fields {
  std::size_t nodes, edges;
  double step;  // of time
  Edge* edge;
  std::uint32_t* degree;
  Values* values;
  Gradient* gradients;
  GradientSum* gradient_sums;
  FluxSum* flux_sums;
};

// Explicit steps are stable if none takes from a node more than it has.
double stable_step(const Mesh& mesh) {
  std::vector<double> outflow(mesh.places.size());
  for (const Edge& edge : mesh.edges) {
    outflow[edge.a] += 1 / edge.length;
    outflow[edge.b] += 1 / edge.length;
  }
  return 0.5 / std::max(1.0, *std::max_element(outflow.begin(), outflow.end()));
}

// Waves of different lengths.
Values initial(const Vector& place) {
  Values values{};
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const double wave_number = 0.4 * static_cast<double>(q + 1);
    values[q] = std::sin(wave_number * place[0]) * std::cos(wave_number * place[1]) +
                0.5 * std::sin(wave_number * place[2]);
  }
  return values;
}

void fill_edges(const Mesh& mesh, Range edges, const Fields& fields) {
  for (const std::size_t e : edges) fields.edge[e] = mesh.edges[e];
}
void fill_nodes(const Mesh& mesh, Range nodes, const Fields& fields) {
  for (const std::size_t i : nodes) {
    fields.degree[i] = mesh.degree[i];
    fields.values[i] = initial(mesh.places[i]);
    fields.gradient_sums[i] = {};
    fields.flux_sums[i] = {};
  }
}

// Contributions of one compute node to mesh nodes that it has not added to the sums yet.
template <class Found>
class Accumulator {
 public:
  explicit Accumulator(std::size_t nodes) : found_(nodes) {}
  Found& at(std::size_t node) { return found_[node]; }
  // Adds what was found for the group's nodes to `sums`, and forgets it.
  void move_group_to(std::size_t group, Found* sums) {
    const std::size_t end = std::min(found_.size(), (group + 1) * kGroupNodes);
    for (std::size_t i = group * kGroupNodes; i < end; ++i) {
      add_to(sums[i], found_[i]);
      found_[i] = {};
    }
  }

 private:
  std::vector<Found> found_;
};

// How a compute node shares the work with the others. In the sequential run there are none; ...
class Alone {
 public:
  explicit Alone(const Fields& fields) : fields_(fields) {}
  Range edges() const { return {0, fields_.edges}; }
  Range nodes() const { return {0, fields_.nodes}; }
  void barrier() {}
  template <class Add>
  void each_group(Add&& add) const {
    for (std::size_t group = 0; group < groups(fields_.nodes); ++group) add(group);
  }
  Sum total(const Sum& mine) { return mine; }

 private:
  const Fields& fields_;
};

// ... in the parallel one a node has a share of the edges and one of the mesh nodes.
class Together {
 public:
  // `users`: in shared memory, of each group, zero before the first call: the compute nodes that have edges
  // to it. A barrier.
  Together(const Fields& fields, std::uint32_t* users, Node& node) : fields_(fields), node_(node) {
    std::vector<std::uint8_t> used(groups(fields.nodes));
    for (const std::size_t e : edges())
      used[fields.edge[e].a / kGroupNodes] = used[fields.edge[e].b / kGroupNodes] = 1;
    for (std::size_t group = 0; group < used.size(); ++group) {
      if (used[group] == 0) continue;
      const braid::dsm::LockGuard guard(node, lock_of(group));
      ++users[group];
    }
    node.barrier();
    for (std::size_t group = 0; group < used.size(); ++group)
      if (used[group] != 0) mine_.push_back({group, users[group] > 1});
  }

  Range edges() const { return node_.share(fields_.edges); }
  Range nodes() const { return node_.share(fields_.nodes); }
  void barrier() { node_.barrier(); }
  template <class Add>
  void each_group(Add&& add) {
    for (const auto& [group, shared] : mine_) {
      if (!shared) {
        add(group);
        continue;
      }
      const braid::dsm::LockGuard guard(node_, lock_of(group));
      add(group);
    }
  }
  Sum total(const Sum& mine) { return Sum::of_grid_points(node_.reduce(mine.grid_points())); }

 private:
  struct Group {
    std::size_t group;
    bool shared;  // other compute nodes add to it too
  };
  static unsigned lock_of(std::size_t group) { return static_cast<unsigned>(group % kGroupLocks); }

  const Fields& fields_;
  Node& node_;
  std::vector<Group> mine_;
};

void find_gradients(const Fields& fields, Range edges, Accumulator<GradientSum>& found) {
  for (const std::size_t e : edges) {
    const Edge& edge = fields.edge[e];
    const Values &at_a = fields.values[edge.a], &at_b = fields.values[edge.b];
    for (std::size_t q = 0; q < kQuantities; ++q) {
      const double slope = (at_b[q] - at_a[q]) / edge.length;
      for (std::size_t x = 0; x < 3; ++x) {
        const Sum part = Sum::of(slope * edge.direction[x]);  // the same seen from either end
        found.at(edge.a)[q][x].add(part);
        found.at(edge.b)[q][x].add(part);
      }
    }
  }
}

// The mean over a node's edges of the slope along them: a third of the gradient, for directions in space are three.
void set_gradients(const Fields& fields, Range nodes) {
  for (const std::size_t i : nodes) {
    const double scale = 3.0 / fields.degree[i];
    for (std::size_t q = 0; q < kQuantities; ++q)
      for (std::size_t x = 0; x < 3; ++x)
        fields.gradients[i][q][x] = scale * fields.gradient_sums[i][q][x].value();
    fields.gradient_sums[i] = {};
  }
}

// The flow from b to a is added to a and taken from b, so that nothing is lost.
void find_fluxes(const Fields& fields, Range edges, Accumulator<FluxSum>& found) {
  for (const std::size_t e : edges) {
    const Edge& edge = fields.edge[e];
    const Values &at_a = fields.values[edge.a], &at_b = fields.values[edge.b];
    const Gradient &of_a = fields.gradients[edge.a], &of_b = fields.gradients[edge.b];
    for (std::size_t q = 0; q < kQuantities; ++q) {
      double along = 0;
      for (std::size_t x = 0; x < 3; ++x) along += (of_a[q][x] + of_b[q][x]) * 0.5 * edge.direction[x];
      const Sum flux = Sum::of((at_b[q] - at_a[q]) / edge.length - kGradientPart * along);
      found.at(edge.a)[q].add(flux);
      found.at(edge.b)[q].subtract(flux);
    }
  }
}

// Returns the sum of the squares of all changes.
Sum change_values(const Fields& fields, Range nodes) {
  Sum squares;
  for (const std::size_t i : nodes) {
    for (std::size_t q = 0; q < kQuantities; ++q) {
      const double change = fields.step * fields.flux_sums[i][q].value();
      fields.values[i][q] += change;
      squares.add(change * change);
    }
    fields.flux_sums[i] = {};
  }
  return squares;
}

// Returns the root of the mean square change in each iteration.
template <class Others>
std::vector<double> solve(const Fields& fields, int iterations, Others others) {
  Accumulator<GradientSum> gradients(fields.nodes);
  Accumulator<FluxSum> fluxes(fields.nodes);
  std::vector<double> changes;
  for (int k = 0; k < iterations; ++k) {
    find_gradients(fields, others.edges(), gradients);
    others.each_group([&](std::size_t group) { gradients.move_group_to(group, fields.gradient_sums); });
    others.barrier();
    set_gradients(fields, others.nodes());
    others.barrier();
    find_fluxes(fields, others.edges(), fluxes);
    others.each_group([&](std::size_t group) { fluxes.move_group_to(group, fields.flux_sums); });
    others.barrier();
    const double squares = others.total(change_values(fields, others.nodes())).value();
    changes.push_back(std::sqrt(squares / static_cast<double>(fields.nodes * kQuantities)));
  }
  return changes;
}

// Fields in private memory.
class PrivateFields {
 public:
  explicit PrivateFields(const Mesh& mesh)
      : edges_(mesh.edges.size()),
        degree_(mesh.places.size()),
        values_(mesh.places.size()),
        gradients_(mesh.places.size()),
        gradient_sums_(mesh.places.size()),
        flux_sums_(mesh.places.size()),
        fields_{mesh.places.size(), mesh.edges.size(),     stable_step(mesh),
                edges_.data(),      degree_.data(),        values_.data(),
                gradients_.data(),  gradient_sums_.data(), flux_sums_.data()} {
    fill_edges(mesh, {0, fields_.edges}, fields_);
    fill_nodes(mesh, {0, fields_.nodes}, fields_);
  }
  const Fields& fields() const { return fields_; }

 private:
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> degree_;
  std::vector<Values> values_;
  std::vector<Gradient> gradients_;
  std::vector<GradientSum> gradient_sums_;
  std::vector<FluxSum> flux_sums_;
  Fields fields_;
};

// Whether values and changes are, bit by bit, those of a sequential run in private memory.
bool matches_sequential(const Mesh& mesh, const Fields& result, std::span<const double> changes) {
  const PrivateFields expected(mesh);
  const std::vector<double> expected_changes =
      solve(expected.fields(), static_cast<int>(changes.size()), Alone(expected.fields()));
  for (std::size_t k = 0; k < changes.size(); ++k) {
    if (braid::apps::same_bits(changes[k], expected_changes[k])) continue;
    std::printf("WRONG: the change in iteration %zu is %.17g, should be %.17g\n", k + 1, changes[k],
                expected_changes[k]);
    return false;
  }
  for (std::size_t i = 0; i < result.nodes; ++i) {
    for (std::size_t q = 0; q < kQuantities; ++q) {
      const double value = result.values[i][q], should = expected.fields().values[i][q];
      if (braid::apps::same_bits(value, should)) continue;
      std::printf("WRONG: quantity %zu of node %zu is %.17g, should be %.17g\n", q, i, value, should);
      return false;
    }
  }
  return true;
}

// Whether there is as much of each quantity as at the start: fluxes only move it.
bool nothing_is_lost(const Mesh& mesh, const Fields& result, int iterations) {
  for (std::size_t q = 0; q < kQuantities; ++q) {
    double before = 0, after = 0;
    for (std::size_t i = 0; i < result.nodes; ++i) {
      before += initial(mesh.places[i])[q];
      after += result.values[i][q];
    }
    // Fluxes cancel exactly. Values, at most 2, are rounded once in each iteration; the sums here, once for each node.
    const double roundings = static_cast<double>(result.nodes) * static_cast<double>(iterations + 1);
    if (std::abs(after - before) <= 4 * 0x1.0p-53 * roundings * std::sqrt(static_cast<double>(result.nodes)))
      continue;
    std::printf("WRONG: there is %.17g of quantity %zu, should be %.17g\n", after, q, before);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t nodes = 2800, edges = 17377;
  int iterations = 1;
  std::uint64_t seed = 1;
  braid::apps::Arguments arguments(
      "An explicit solver on an unstructured mesh in shared memory, verified against a sequential run.",
      "unstructured");
  arguments.number("--nodes", nodes, "Nodes of the mesh", 2, 10'000'000);
  arguments.number("--edges", edges, "Edges of the mesh: so many that it can be in one piece, or more", 1,
                   100'000'000);
  arguments.number("--iterations", iterations, "Steps of time", 1, 1'000'000);
  arguments.number("--seed", seed, "Of the nodes' places");
  arguments.parse_or_exit(argc, argv);
  const std::size_t fewest = braid::apps::unstructured::fewest_edges(nodes);
  const std::size_t most = braid::apps::unstructured::most_edges(nodes);
  if (edges < fewest || edges > most) {
    std::fprintf(stderr, "--edges: a mesh of %zu nodes has %zu to %zu edges, not %zu\n", nodes, fewest, most,
                 edges);
    return 2;
  }

  const Mesh mesh = braid::apps::unstructured::draw_mesh(nodes, edges, seed);
  braid::dsm::init();
  braid::apps::Verdict verdict;
  const Fields fields{nodes,
                      edges,
                      stable_step(mesh),
                      braid::dsm::allocate<Edge>(edges),
                      braid::dsm::allocate<std::uint32_t>(nodes),
                      braid::dsm::allocate<Values>(nodes),
                      braid::dsm::allocate<Gradient>(nodes),
                      braid::dsm::allocate<GradientSum>(nodes),
                      braid::dsm::allocate<FluxSum>(nodes)};
  std::uint32_t* const users =
      braid::dsm::allocate<std::uint32_t>(groups(nodes), braid::dsm::Placement::on(0));
  double seconds = 0;
  unsigned compute_nodes = 0;
  std::vector<double> changes;  // as compute node 0 found them
  braid::dsm::parallel([&](Node& node) {
    fill_edges(mesh, node.share(edges), fields);
    fill_nodes(mesh, node.share(nodes), fields);
    node.barrier();
    const Together others(fields, users, node);
    node.barrier();
    const double start = braid::dsm::seconds();
    std::vector<double> found = solve(fields, iterations, others);
    node.barrier();
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - start;
      compute_nodes = node.count();
      changes = std::move(found);
    }
  });

  if (braid::dsm::cluster() == 0) {
    const bool right = matches_sequential(mesh, fields, changes) && nothing_is_lost(mesh, fields, iterations);
    verdict.give(right);
    std::printf(
        "unstructured: %zu nodes, %zu edges, %d iterations, %u compute nodes, change %.4g to %.4g: %.6f s, "
        "%s\n",
        nodes, edges, iterations, compute_nodes, changes.front(), changes.back(), seconds,
        right ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
