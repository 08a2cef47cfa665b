// Liquid water as flexible three-point molecules (SPC/Fw: Wu, Tepper and Voth 2006) in a periodic cube:
// what a molecule is, the forces inside it and between two of them, and how it moves. Knows nothing of shared
// memory: the parallel program and the sequential run that it is compared with both call it.
//
// Units: nm, ps, atomic mass units; so energies are in kJ/mol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/common/sum.h"

namespace braid::apps::water {

inline constexpr std::size_t kAtoms = 3;  // oxygen, then the hydrogens
// Positions and their first six derivatives are predicted and corrected: Gear's method of seven values.
inline constexpr std::size_t kOrders = 7;

using Vector = std::array<double, 3>;
using VectorSum = std::array<Sum, 3>;

struct Molecule {
  // motion[k] is the k-th derivative of the atoms' positions, times step^k / k!.
  std::array<std::array<Vector, kAtoms>, kOrders> motion;
  std::array<VectorSum, kAtoms> force;
};

// Of some molecules, or all.
struct Energies {
  Sum potential;
  Sum kinetic;
  void add(const Energies& other) {
    potential.add(other.potential);
    kinetic.add(other.kinetic);
  }
  double total() const { return potential.value() + kinetic.value(); }
  bool operator==(const Energies&) const = default;
};

struct Model {
  std::size_t molecules;
  double box;          // side of the cube
  double cut_off;      // molecules whose oxygens are farther apart do not feel each other
  double step;         // of time
  std::uint64_t seed;  // of the directions and velocities at the start

  // Water of 0.998 g/cm3 that is cut off at half the box.
  static Model of(std::size_t molecules, double step_fs, std::uint64_t seed);

  // Molecules on a cubic lattice, turned at random, at some 300 K with no momentum in all. Forces are zero.
  std::vector<Molecule> start() const;

  // --- One molecule.

  void predict(Molecule& m) const;
  // Sets the forces to those of the molecule's own bonds and angle; returns their energy.
  double forces_inside(Molecule& m) const;
  // From the forces to the positions at the end of the step; a molecule that left the box comes in again on
  // the other side.
  void correct(Molecule& m) const;
  double kinetic_energy(const Molecule& m) const;
  // The accelerations at the start, when nothing has been predicted yet.
  void set_acceleration(Molecule& m) const;

  // --- Two molecules.

  using Forces = std::array<VectorSum, kAtoms>;
  // Adds the forces between `a` and `b` to those given; returns the energy, 0 beyond the cut-off.
  double forces_between(const Molecule& a, const Molecule& b, Forces& on_a, Forces& on_b) const;

 private:
  // That the forces give an atom, scaled as motion[2] is.
  Vector acceleration(const Molecule& m, std::size_t atom) const;
};

}  // namespace braid::apps::water
