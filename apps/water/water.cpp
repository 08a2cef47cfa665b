// Molecular dynamics of liquid water, all pairs within a cut-off: the shape of SPLASH's n-squared program.
// Each compute node moves its share of the molecules and finds the forces between each of them and the half
// of all molecules that follows it, in a circle. It adds what it finds to the molecules in shared memory, each guarded by a
// lock of its own: once a step what it has added up by itself before, as SPLASH-2 does, or at once for every pair,
// as SPLASH of 1992 did.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/arguments.h"
#include "apps/common/program.h"
#include "apps/water/model.h"
#include "dsm/api.h"

namespace {

using braid::apps::Sum;
using braid::apps::water::Energies;
using braid::apps::water::kAtoms;
using braid::apps::water::kOrders;
using braid::apps::water::Model;
using braid::apps::water::Molecule;
using braid::dsm::Node;
using braid::dsm::Range;

// Molecule i's lock is i % kMoleculeLocks.
constexpr unsigned kMoleculeLocks = 4000;
constexpr unsigned kEnergyLock = kMoleculeLocks;

enum class Updates : std::uint8_t { kStep, kPair };

// Forces that one compute node has found and not added to the molecules yet.
class FoundForces {
 public:
  explicit FoundForces(const Model& model) : model_(model), on_(model.molecules) {}

  void clear() {
    on_.assign(model_.molecules, {});
    touched_.assign(model_.molecules, 0);
    energy_ = {};
  }
  // Of two molecules in either order, always looked at in the same one: so the result has the same bits.
  void find(const Molecule* molecules, std::size_t one, std::size_t other) {
    const auto [i, j] = std::minmax(one, other);
    const double energy = model_.forces_between(molecules[i], molecules[j], on_[i], on_[j]);
    if (energy != 0) touched_[i] = touched_[j] = 1;
    energy_.add(energy);
  }
  // The same, but the forces are added to the molecules at once.
  template <class Others>
  void find_and_add(Molecule* molecules, std::size_t one, std::size_t other, Others& others) {
    const auto [i, j] = std::minmax(one, other);
    Model::Forces on_i{}, on_j{};
    const double energy = model_.forces_between(molecules[i], molecules[j], on_i, on_j);
    energy_.add(energy);
    if (energy == 0) return;
    others.guarded(i, [&, i = i] { add(on_i, molecules[i]); });
    others.guarded(j, [&, j = j] { add(on_j, molecules[j]); });
  }
  const Sum& energy() const { return energy_; }
  bool touched(std::size_t i) const { return touched_[i] != 0; }
  void add_to(std::size_t i, Molecule& m) const { add(on_[i], m); }

 private:
  static void add(const Model::Forces& forces, Molecule& m) {
    for (std::size_t atom = 0; atom < kAtoms; ++atom)
      for (std::size_t x = 0; x < 3; ++x) m.force[atom][x].add(forces[atom][x]);
  }

  const Model& model_;
  std::vector<Model::Forces> on_;
  std::vector<std::uint8_t> touched_;
  Sum energy_;
};

// How a compute node shares the work with the others. In the sequential run there are none; ...
class Alone {
 public:
  explicit Alone(const Model& model) : model_(model) {}
  Range share() const { return {0, model_.molecules}; }
  template <class Pair>
  void each_pair(Pair&& pair) const {
    for (std::size_t i = 0; i < model_.molecules; ++i)
      for (std::size_t j = i + 1; j < model_.molecules; ++j) pair(i, j);
  }
  void barrier() {}
  template <class Change>
  void guarded(std::size_t, Change&& change) {
    change();
  }
  template <class Change>
  void guarded_energies(Change&& change) {
    change();
  }

 private:
  const Model& model_;
};

// ... in the parallel one a node has a share of the molecules and synchronises with the others by barriers and locks.
class Together {
 public:
  Together(const Model& model, Node& node) : model_(model), node_(node) {}
  Range share() const { return node_.share(model_.molecules); }
  template <class Pair>
  void each_pair(Pair&& pair) const {
    const std::size_t n = model_.molecules;
    for (const std::size_t i : share()) {
      // Of an even number, the one opposite follows those of the first half only: every pair once.
      const std::size_t followers = n % 2 != 0 || i < n / 2 ? n / 2 : n / 2 - 1;
      for (std::size_t k = 1; k <= followers; ++k) pair(i, (i + k) % n);
    }
  }
  void barrier() { node_.barrier(); }
  template <class Change>
  void guarded(std::size_t i, Change&& change) {
    const braid::dsm::LockGuard guard(node_, static_cast<unsigned>(i % kMoleculeLocks));
    change();
  }
  template <class Change>
  void guarded_energies(Change&& change) {
    const braid::dsm::LockGuard guard(node_, kEnergyLock);
    change();
  }

 private:
  const Model& model_;
  Node& node_;
};

// All forces at the molecules' present positions; complete for the share's molecules when it returns. Returns
// the potential energy that this node found.
template <class Others>
Energies find_forces(const Model& model, Updates updates, Molecule* molecules, FoundForces& forces,
                     Others& others) {
  Energies found;
  for (const std::size_t i : others.share()) found.potential.add(model.forces_inside(molecules[i]));
  others.barrier();
  forces.clear();
  others.each_pair([&](std::size_t i, std::size_t j) {
    if (updates == Updates::kPair)
      forces.find_and_add(molecules, i, j, others);
    else
      forces.find(molecules, i, j);
  });
  found.potential.add(forces.energy());
  for (std::size_t i = 0; i < model.molecules; ++i) {
    if (forces.touched(i)) others.guarded(i, [&] { forces.add_to(i, molecules[i]); });
  }
  others.barrier();
  return found;
}

// Moves the share's molecules through all steps. `energies` has a place for each step, zero before it.
template <class Others>
void simulate(const Model& model, Updates updates, int iterations, Molecule* molecules, Energies* energies,
              Others others) {
  FoundForces forces(model);
  find_forces(model, updates, molecules, forces, others);
  for (const std::size_t i : others.share()) model.set_acceleration(molecules[i]);
  for (int k = 0; k < iterations; ++k) {
    for (const std::size_t i : others.share()) model.predict(molecules[i]);
    Energies found = find_forces(model, updates, molecules, forces, others);
    for (const std::size_t i : others.share()) {
      model.correct(molecules[i]);
      found.kinetic.add(model.kinetic_energy(molecules[i]));
    }
    others.guarded_energies([&] { energies[k].add(found); });
  }
  others.barrier();
}

bool same(const Molecule& a, const Molecule& b) {
  for (std::size_t order = 0; order < kOrders; ++order) {
    for (std::size_t atom = 0; atom < kAtoms; ++atom) {
      for (std::size_t x = 0; x < 3; ++x)
        if (!braid::apps::same_bits(a.motion[order][atom][x], b.motion[order][atom][x])) return false;
    }
  }
  return a.force == b.force;
}

// Whether motion, forces and energies are, bit by bit, those of a sequential run in private memory.
bool right(const Model& model, int iterations, const Molecule* molecules, const Energies* energies) {
  std::vector<Molecule> expected = model.start();
  std::vector<Energies> expected_energies(static_cast<std::size_t>(iterations));
  simulate(model, Updates::kStep, iterations, expected.data(), expected_energies.data(), Alone(model));
  for (int k = 0; k < iterations; ++k) {
    const Energies& should = expected_energies[static_cast<std::size_t>(k)];
    if (energies[k] == should) continue;
    std::printf("WRONG: the energy after step %d is %.17g, should be %.17g\n", k + 1, energies[k].total(),
                should.total());
    return false;
  }
  for (std::size_t i = 0; i < model.molecules; ++i) {
    if (same(molecules[i], expected[i])) continue;
    const auto& is = molecules[i].motion[0][0];
    const auto& should = expected[i].motion[0][0];
    std::printf("WRONG: molecule %zu is at (%.17g, %.17g, %.17g), should be at (%.17g, %.17g, %.17g)\n", i,
                is[0], is[1], is[2], should[0], should[1], should[2]);
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t n = 343;
  int iterations = 2;
  double step_fs = 0.15;
  std::uint64_t seed = 1;
  std::string updates_word = "step";
  braid::apps::Arguments arguments(
      "Molecular dynamics of water in shared memory, verified against a sequential run.", "water");
  arguments.number("--molecules", n, "Water molecules in the box", 8, 100'000);
  arguments.number("--iterations", iterations, "Steps of time", 1, 1'000'000);
  arguments.number("--step", step_fs, "Length of a step, in femtoseconds", 0.001, 0.5);
  arguments.number("--seed", seed, "Of the molecules' directions and velocities");
  arguments.choice(
      "--updates", updates_word,
      "When forces are added to the molecules: once a step what each compute node has added up (step, as "
      "SPLASH-2), or at once for every pair (pair, as SPLASH of 1992)",
      {"step", "pair"});
  arguments.parse_or_exit(argc, argv);
  const Updates updates = updates_word == "pair" ? Updates::kPair : Updates::kStep;

  braid::dsm::init();
  braid::apps::Verdict verdict;
  const Model model = Model::of(n, step_fs, seed);
  Molecule* const molecules = braid::dsm::allocate<Molecule>(n);
  Energies* const energies =
      braid::dsm::allocate<Energies>(static_cast<std::size_t>(iterations), braid::dsm::Placement::on(0));
  const std::vector<Molecule> start = model.start();
  double seconds = 0;
  unsigned nodes = 0;
  braid::dsm::parallel([&](Node& node) {
    for (const std::size_t i : node.share(n)) molecules[i] = start[i];
    node.barrier();
    const double began = braid::dsm::seconds();
    simulate(model, updates, iterations, molecules, energies, Together(model, node));
    if (node.id() == 0) {
      seconds = braid::dsm::seconds() - began;
      nodes = node.count();
    }
  });

  if (braid::dsm::cluster() == 0) {
    const bool verified = right(model, iterations, molecules, energies);
    verdict.give(verified);
    const Energies& last = energies[iterations - 1];
    // The first steps tell the predictor the higher derivatives, and cost it some energy.
    const Energies& settled = energies[std::min(iterations, static_cast<int>(kOrders)) - 1];
    const double drift = (last.total() - settled.total()) / last.kinetic.value();
    std::printf(
        "water: %zu molecules, %d iterations, %u compute nodes, energy %.6g kJ/mol, "
        "drift %.2g of the kinetic %.6g: %.3f s, %s\n",
        n, iterations, nodes, last.total(), drift, last.kinetic.value(), seconds,
        verified ? "verified" : "WRONG");
    std::fflush(stdout);
  }
  const int status = verdict.status();
  return braid::dsm::finish(status);
}
