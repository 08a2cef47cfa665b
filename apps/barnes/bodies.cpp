#include "apps/barnes/bodies.h"

#include <random>

namespace braid::apps::barnes {

namespace {

constexpr double kPi = 3.14159265358979323846;
// Of the sphere's scale radius, in our units.
constexpr double kScale = 3 * kPi / 16;
// The mass inside the outermost shell that gets bodies: the rest would be far out.
constexpr double kMassInside = 0.999;

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  // In [least, most): the standard's distributions differ between libraries.
  double between(double least, double most) {
    return least + (most - least) * static_cast<double>(bits_() >> 11) * 0x1.0p-53;
  }
  Vector direction_of_length(double length) {
    for (;;) {
      const Vector v{between(-1, 1), between(-1, 1), between(-1, 1)};
      const double square = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
      if (square < 0.01 || square > 1) continue;
      const double scale = length / std::sqrt(square);
      return {scale * v[0], scale * v[1], scale * v[2]};
    }
  }

 private:
  std::mt19937_64 bits_;
};

// A speed as a part of that with which a body escapes, distributed as q^2 (1 - q^2)^(7/2), which is below 0.1.
double part_of_escape_speed(Random& random) {
  for (;;) {
    const double q = random.between(0, 1);
    if (random.between(0, 0.1) < q * q * std::pow(1 - q * q, 3.5)) return q;
  }
}

}  // namespace

System plummer_sphere(std::size_t bodies, std::uint64_t seed) {
  Random random(seed);
  System system;
  const double count = static_cast<double>(bodies);
  Vector mean_place{}, mean_velocity{};
  for (std::size_t i = 0; i < bodies; ++i) {
    const double inside = random.between(1e-9, kMassInside);
    const double radius = 1 / std::sqrt(std::pow(inside, -2.0 / 3) - 1);
    const double escape = std::sqrt(2.0) * std::pow(1 + radius * radius, -0.25);
    const double speed = part_of_escape_speed(random) * escape;
    system.bodies.push_back({random.direction_of_length(radius * kScale), 1 / count});
    system.motions.push_back({random.direction_of_length(speed / std::sqrt(kScale)), {}, 1});
    for (std::size_t x = 0; x < 3; ++x) {
      mean_place[x] += system.bodies[i].place[x] / count;
      mean_velocity[x] += system.motions[i].velocity[x] / count;
    }
  }
  for (std::size_t i = 0; i < bodies; ++i) {
    for (std::size_t x = 0; x < 3; ++x) {
      system.bodies[i].place[x] -= mean_place[x];
      system.motions[i].velocity[x] -= mean_velocity[x];
    }
  }
  return system;
}

Vector direct_acceleration(std::span<const Body> bodies, std::size_t i) {
  Vector acceleration{};
  for (std::size_t other = 0; other < bodies.size(); ++other) {
    if (other != i) attract(bodies[i].place, bodies[other].place, bodies[other].mass, acceleration);
  }
  return acceleration;
}

}  // namespace braid::apps::barnes
