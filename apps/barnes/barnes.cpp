// Bodies that move by their gravity: the method of Barnes and Hut. In each step all compute nodes build an octree in shared
// memory, each inserting its bodies under a lock of the cell that changes; then they find the centres of mass, divide the bodies
// by the work that each took in the step before, find the forces with the tree, and move the bodies.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "apps/barnes/bodies.h"
#include "apps/barnes/tree.h"
#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "dsm/api.h"

namespace {

using braid::apps::barnes::Body;
using braid::apps::barnes::Builder;
using braid::apps::barnes::Cube;
using braid::apps::barnes::ForceWalk;
using braid::apps::barnes::kCellsTaken;
using braid::apps::barnes::Link;
using braid::apps::barnes::Motion;
using braid::apps::barnes::System;
using braid::apps::barnes::Tree;
using braid::apps::barnes::Vector;
using braid::apps::barnes::Zone;
using braid::dsm::Node;

constexpr unsigned kCellLocks = 4096;  // cell c has lock c % kCellLocks
constexpr unsigned kTakenWord = 0;     // the cells that the nodes have taken

struct Problem {
  std::size_t bodies;
  int iterations;
  double opening;
  double step;  // of time
};

// The bodies and the tree, in shared memory or in private.
struct Space {
  Body* bodies;
  Motion* motions;
  Tree tree;
};

// How a compute node shares the work with the others. In the sequential run there are none; ...
class Alone {
 public:
  unsigned id() const { return 0; }
  unsigned count() const { return 1; }
  std::pair<std::size_t, std::size_t> share(std::size_t n) const { return {0, n}; }
  void barrier() {}
  double largest(double mine) { return mine; }
  void lock_cell(Link) {}
  void unlock_cell(Link) {}
  void give_cells_back() { taken_ = kCellsTaken; }
  std::size_t take_cells() { return std::exchange(taken_, taken_ + kCellsTaken); }

 private:
  std::size_t taken_ = 0;
};

// ... in the parallel one nodes synchronise by barriers and the cells' locks.
class Together {
 public:
  explicit Together(Node& node) : node_(node) {}
  unsigned id() const { return node_.id(); }
  unsigned count() const { return node_.count(); }
  std::pair<std::size_t, std::size_t> share(std::size_t n) const {
    return {node_.share(n).first(), node_.share(n).last()};
  }
  void barrier() { node_.barrier(); }
  // A barrier.
  double largest(double mine) { return node_.reduce(mine, braid::dsm::Reduce::kMax); }
  void lock_cell(Link cell) { node_.lock(static_cast<unsigned>(cell) % kCellLocks); }
  void unlock_cell(Link cell) { node_.unlock(static_cast<unsigned>(cell) % kCellLocks); }
  // By one node, between two trees. The first cells are the root's.
  void give_cells_back() { node_.store(kTakenWord, kCellsTaken, braid::dsm::MemoryOrder::kRelaxed); }
  std::size_t take_cells() {
    return static_cast<std::size_t>(
        node_.fetch_add(kTakenWord, kCellsTaken, braid::dsm::MemoryOrder::kRelaxed));
  }

 private:
  Node& node_;
};

double largest_coordinate(const Body* bodies, std::span<const std::uint32_t> mine) {
  double largest = 0;
  for (const std::uint32_t i : mine)
    for (const double x : bodies[i].place) largest = std::max(largest, std::abs(x));
  return largest;
}

// A new tree of all bodies, with all centres of mass when it returns. `mine`: the bodies of this node.
template <class Others>
Cube build_tree(const Space& space, std::span<const std::uint32_t> mine, Builder<Others>& builder,
                Others& others) {
  if (others.id() == 0) {
    space.tree.cells[Tree::kRoot] = {};
    others.give_cells_back();
  }
  const Cube root = braid::apps::barnes::cube_around(others.largest(largest_coordinate(space.bodies, mine)));
  builder.begin(root);
  for (const std::uint32_t body : mine) builder.insert(body);
  others.barrier();

  // The node that created the root of a subtree has most of its bodies.
  const unsigned subtrees = braid::apps::barnes::level_of_subtrees(root);
  const auto summarise = [&](Link cell, unsigned levels) {
    braid::apps::barnes::summarise(space.tree, space.bodies, space.motions, cell, levels);
  };
  for (const auto& created : builder.created()) {
    if (created.level == subtrees) summarise(created.cell, braid::apps::barnes::kMaxLevel);
  }
  others.barrier();
  if (others.id() == 0) summarise(Tree::kRoot, subtrees == 0 ? braid::apps::barnes::kMaxLevel : subtrees - 1);
  others.barrier();
  return root;
}

// The bodies that this node moves in this step.
template <class Others>
std::vector<std::uint32_t> divide(const Space& space, const Others& others) {
  const std::uint64_t all = space.tree.costs[Tree::kRoot];
  return Zone(space.tree, space.motions, all * others.id() / others.count(),
              all * (others.id() + 1) / others.count())
      .bodies();
}

template <class Others>
void simulate(const Problem& problem, const Space& space, Others others) {
  struct Found {
    Vector acceleration;
    std::uint64_t cost;
  };
  Builder<Others> builder(space.tree, space.bodies, others);
  const auto [first, last] = others.share(problem.bodies);
  std::vector<std::uint32_t> mine(last - first);
  std::iota(mine.begin(), mine.end(), static_cast<std::uint32_t>(first));
  std::vector<Found> found;
  for (int k = 0; k < problem.iterations; ++k) {
    const Cube root = build_tree(space, mine, builder, others);
    mine = divide(space, others);
    found.clear();
    for (const std::uint32_t i : mine) {
      ForceWalk walk(space.tree, space.bodies, problem.opening, i);
      walk.visit(Tree::kRoot, root);
      found.push_back({walk.acceleration, walk.cost});
    }
    // No node moves its bodies, or says what they cost, while another still looks at them.
    others.barrier();
    const double kick = k == 0 ? problem.step / 2 : problem.step;
    for (std::size_t n = 0; n < mine.size(); ++n) {
      Body& body = space.bodies[mine[n]];
      Motion& motion = space.motions[mine[n]];
      motion.acceleration = found[n].acceleration;
      motion.cost = std::max<std::uint64_t>(1, found[n].cost);
      for (std::size_t x = 0; x < 3; ++x) {
        motion.velocity[x] += kick * motion.acceleration[x];
        body.place[x] += problem.step * motion.velocity[x];
      }
    }
  }
  others.barrier();
}

bool same(const Vector& a, const Vector& b) {
  return std::equal(a.begin(), a.end(), b.begin(), braid::apps::same_bits);
}

// Whether places and velocities are, bit by bit, those of a sequential run in private memory.
bool matches_sequential(const Problem& problem, System system, const Space& result) {
  std::vector<braid::apps::barnes::Cell> cells(Tree::capacity_for(problem.bodies, 1));
  std::vector<std::uint64_t> costs(cells.size());
  simulate(problem,
           Space{system.bodies.data(), system.motions.data(), {cells.data(), costs.data(), cells.size()}},
           Alone());
  for (std::size_t i = 0; i < problem.bodies; ++i) {
    const Vector &is = result.bodies[i].place, &should = system.bodies[i].place;
    if (same(is, should) && same(result.motions[i].velocity, system.motions[i].velocity)) continue;
    std::printf("WRONG: body %zu is at (%.17g, %.17g, %.17g), should be at (%.17g, %.17g, %.17g)\n", i, is[0],
                is[1], is[2], should[0], should[1], should[2]);
    return false;
  }
  return true;
}

// The accelerations of some bodies in the last step against the sums over all others: the root of the mean square difference,
// relative to that of the sums.
double error_of_accelerations(const Problem& problem, const Space& result) {
  std::vector<Body> before(result.bodies, result.bodies + problem.bodies);
  for (std::size_t i = 0; i < problem.bodies; ++i)
    for (std::size_t x = 0; x < 3; ++x) before[i].place[x] -= problem.step * result.motions[i].velocity[x];
  double error = 0, norm = 0;
  constexpr std::size_t kSamples = 512;
  for (std::size_t i = 0; i < problem.bodies; i += 1 + problem.bodies / kSamples) {
    const Vector should = braid::apps::barnes::direct_acceleration(before, i);
    for (std::size_t x = 0; x < 3; ++x) {
      const double difference = result.motions[i].acceleration[x] - should[x];
      error += difference * difference;
      norm += should[x] * should[x];
    }
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

// The error of a cell that counts as one body is about (width / distance)^2 of its force, less than opening^2. Each cell errs in a
// direction of its own, so more bodies have a smaller error. Of 60 spheres of each of ten sizes from 3 to 2048 bodies none
// had more than two fifths of this, one of 20000 a fifth. Places, which are computed back, are off by some roundings.
double tolerance(const Problem& problem) {
  return 0.8 * problem.opening * problem.opening / std::pow(static_cast<double>(problem.bodies), 0.25) + 1e-9;
}

bool right(const Problem& problem, const System& start, const Space& result, double error) {
  if (!matches_sequential(problem, start, result)) return false;
  if (error <= tolerance(problem)) return true;
  std::printf("WRONG: accelerations differ by %.3g from the sums over all bodies, should by at most %.3g\n",
              error, tolerance(problem));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  Problem problem{.bodies = 2048, .iterations = 3, .opening = 1.0, .step = 0.025};
  std::uint64_t seed = 1;
  braid::apps::Arguments arguments(
      "Gravity by the method of Barnes and Hut in shared memory, verified against a sequential run.",
      "barnes");
  arguments.number("--bodies", problem.bodies, "Bodies that attract each other", 2, 1'000'000);
  arguments.number("--iterations", problem.iterations, "Steps of time", 1, 1'000'000);
  arguments.number("--opening", problem.opening,
                   "The width of a cell that counts as one body, as a part of its distance at most", 0.0,
                   1.0);
  arguments.number("--step", problem.step, "Length of a step; the time across the bodies is about 3", 1e-6,
                   0.1);
  arguments.number("--seed", seed, "Of the bodies' places and velocities");
  arguments.parse_or_exit(argc, argv);

  braid::dsm::init();
  braid::apps::Verdict verdict;
  const System start = braid::apps::barnes::plummer_sphere(problem.bodies, seed);
  const std::size_t capacity = Tree::capacity_for(
      problem.bodies, std::size_t{braid::dsm::clusters()} * braid::dsm::nodes_per_cluster());
  // The node that takes cells first has their page.
  const auto first_touch = braid::dsm::Placement::first_touch();
  const Space space{braid::dsm::allocate<Body>(problem.bodies),
                    braid::dsm::allocate<Motion>(problem.bodies),
                    {braid::dsm::allocate<braid::apps::barnes::Cell>(capacity, first_touch),
                     braid::dsm::allocate<std::uint64_t>(capacity, first_touch), capacity}};
  double seconds = 0;
  unsigned nodes = 0;
  braid::dsm::parallel([&](Node& node) {
    for (const std::size_t i : node.share(problem.bodies)) {
      space.bodies[i] = start.bodies[i];
      space.motions[i] = start.motions[i];
    }
    node.barrier();
    const double began = braid::dsm::seconds();
    simulate(problem, space, Together(node));
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - began;
      nodes = node.count();
    }
  });

  if (braid::dsm::cluster() == 0) {
    const double error = error_of_accelerations(problem, space);
    const bool verified = right(problem, start, space, error);
    verdict.give(verified);
    std::printf("barnes: %zu bodies, %d iterations, %u compute nodes, error %.2g: %.6f s, %s\n",
                problem.bodies, problem.iterations, nodes, error, seconds, verified ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
