// Bodies that attract each other, and the forces between them added up one by one. Knows nothing of shared memory.
//
// Units: the gravitational constant and the mass of all bodies are 1, their energy is -1/4.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace braid::apps::barnes {

using Vector = std::array<double, 3>;

// The part of a body that all nodes read, ...
struct Body {
  Vector place;
  double mass;
};
// ... and what only the compute node that moves it changes and needs.
struct Motion {
  Vector velocity;      // half a step before the body's place, but at the start
  Vector acceleration;  // at the place of the last step
  std::uint64_t cost;   // interactions in the last step
};

// Keeps bodies that meet from throwing each other out: added to the square of each distance.
inline constexpr double kSoftening = 0.05;

// Adds the acceleration at `place` by a mass elsewhere.
inline void attract(const Vector& place, const Vector& to, double mass, Vector& acceleration) {
  const Vector apart{to[0] - place[0], to[1] - place[1], to[2] - place[2]};
  const double square =
      apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + kSoftening * kSoftening;
  const double strength = mass / (square * std::sqrt(square));
  for (std::size_t x = 0; x < 3; ++x) acceleration[x] += strength * apart[x];
}

struct System {
  std::vector<Body> bodies;
  std::vector<Motion> motions;
};

// A Plummer sphere in equilibrium, by the recipe of Aarseth, Henon and Wielen (1974), its centre at rest at the
// origin.
System plummer_sphere(std::size_t bodies, std::uint64_t seed);

// The acceleration of body `i` by all others.
Vector direct_acceleration(std::span<const Body> bodies, std::size_t i);

}  // namespace braid::apps::barnes
