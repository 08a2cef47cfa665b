#include "apps/water/model.h"

#include <cmath>
#include <random>

namespace braid::apps::water {

namespace {

constexpr std::size_t kOxygen = 0;
constexpr std::array<double, kAtoms> kMass = {15.9994, 1.008, 1.008};
constexpr double kMoleculeMass = kMass[0] + kMass[1] + kMass[2];
constexpr double kJoulesPerCalorie = 4.184;

// SPC/Fw, table I, from kcal/mol and Angstrom.
constexpr double kBondLength = 0.1012;
constexpr double kBondStiffness = 1059.162 * kJoulesPerCalorie * 100;
constexpr double kAngle = 113.24 * 3.14159265358979323846 / 180;
constexpr double kAngleStiffness = 75.90 * kJoulesPerCalorie;
constexpr double kSigma = 0.3165492;
constexpr double kEpsilon = 0.1554253 * kJoulesPerCalorie;
constexpr std::array<double, kAtoms> kCharge = {-0.82, 0.41, 0.41};
constexpr double kCoulomb = 138.935458;  // of unit charges, kJ/mol nm

constexpr double kBoltzmann = 0.0083144626;  // kJ/mol K
constexpr double kTemperature = 300;
constexpr double kGramsPerCm3 = 602.21408;  // atomic mass units in a cubic nanometre
constexpr double kDensity = 0.998 * kGramsPerCm3;

// Forces fade out over the last tenth before the cut-off, so that energy is kept when molecules cross it.
constexpr double kFadeFrom = 0.9;

// Gear's corrector coefficients for equations of second order.
constexpr std::array<double, kOrders> kCorrector = {863.0 / 6048, 665.0 / 1008, 1.0,      25.0 / 36,
                                                    35.0 / 144,   1.0 / 24,     1.0 / 360};

Vector operator+(const Vector& a, const Vector& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2]};
}
Vector operator-(const Vector& a, const Vector& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
Vector operator*(double s, const Vector& a) {
  return {s * a[0], s * a[1], s * a[2]};
}
Vector& operator+=(Vector& a, const Vector& b) {
  return a = a + b;
}
Vector& operator-=(Vector& a, const Vector& b) {
  return a = a - b;
}
void add_to(VectorSum& sum, const Vector& v) {
  for (std::size_t x = 0; x < 3; ++x) sum[x].add(v[x]);
}
double dot(const Vector& a, const Vector& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// 1 up to `from`, 0 from `to` on, with two continuous derivatives. Between them never 0, as forces are not: who finds
// them looks at the energy.
struct Fade {
  double value;
  double slope;
};
Fade fade(double r, double from, double to) {
  if (r <= from) return {1, 0};
  constexpr double kOne = 1 + 0x1.0p-50;  // more than rounding takes off
  const double x = (r - from) / (to - from);
  return {kOne - x * x * x * (10 + x * (-15 + 6 * x)), -30 * x * x * (1 - x) * (1 - x) / (to - from)};
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  // In [-1, 1): the standard's distributions differ between libraries.
  double next() { return static_cast<double>(bits_() >> 11) * 0x1.0p-52 - 1.0; }
  // Mean 0, variance 1, nearly normal: the sum of twelve.
  double normal() {
    double sum = 0;
    for (int k = 0; k < 12; ++k) sum += next();
    return sum * 0.5;
  }
  Vector direction() {
    for (;;) {
      const Vector v{next(), next(), next()};
      const double square = dot(v, v);
      if (square > 0.01 && square < 1) return 1 / std::sqrt(square) * v;
    }
  }

 private:
  std::mt19937_64 bits_;
};

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

}  // namespace

Model Model::of(std::size_t molecules, double step_fs, std::uint64_t seed) {
  const double box = std::cbrt(static_cast<double>(molecules) * kMoleculeMass / kDensity);
  return {molecules, box, box / 2, step_fs * 1e-3, seed};
}

std::vector<Molecule> Model::start() const {
  Random random(seed);
  const auto side = static_cast<std::size_t>(std::ceil(std::cbrt(static_cast<double>(molecules)) - 1e-9));
  const double spacing = box / static_cast<double>(side);
  std::vector<Molecule> all(molecules, Molecule{});
  Vector momentum{};
  for (std::size_t i = 0; i < molecules; ++i) {
    auto& at = all[i].motion[0];
    at[kOxygen] = {spacing * (static_cast<double>(i % side) + 0.5),
                   spacing * (static_cast<double>(i / side % side) + 0.5),
                   spacing * (static_cast<double>(i / side / side) + 0.5)};
    const Vector along = random.direction();
    const Vector other = cross(along, random.direction());
    const Vector across = 1 / std::sqrt(dot(other, other)) * other;
    const double half = kAngle / 2;
    at[1] = at[kOxygen] + kBondLength * (std::cos(half) * along + std::sin(half) * across);
    at[2] = at[kOxygen] + kBondLength * (std::cos(half) * along - std::sin(half) * across);
    for (std::size_t atom = 0; atom < kAtoms; ++atom) {
      const double speed = std::sqrt(kBoltzmann * kTemperature / kMass[atom]);
      for (double& v : all[i].motion[1][atom]) v = speed * random.normal();
      momentum += kMass[atom] * all[i].motion[1][atom];
    }
  }
  const Vector drift = 1 / (kMoleculeMass * static_cast<double>(molecules)) * momentum;
  for (Molecule& m : all) {
    for (Vector& v : m.motion[1]) v = step * (v - drift);
  }
  return all;
}

void Model::predict(Molecule& m) const {
  // Taylor's series in scaled derivatives: Pascal's triangle, by repeated addition.
  for (std::size_t from = 0; from + 1 < kOrders; ++from) {
    for (std::size_t k = kOrders - 1; k > from; --k) {
      for (std::size_t atom = 0; atom < kAtoms; ++atom) m.motion[k - 1][atom] += m.motion[k][atom];
    }
  }
}

double Model::forces_inside(Molecule& m) const {
  const auto& at = m.motion[0];
  m.force = {};
  double energy = 0;
  std::array<Vector, 2> unit;  // from the oxygen to each hydrogen
  std::array<double, 2> length;
  for (std::size_t h = 0; h < 2; ++h) {
    const Vector bond = at[h + 1] - at[kOxygen];
    length[h] = std::sqrt(dot(bond, bond));
    unit[h] = 1 / length[h] * bond;
    const double stretch = length[h] - kBondLength;
    energy += 0.5 * kBondStiffness * stretch * stretch;
    const Vector pull = -kBondStiffness * stretch * unit[h];
    add_to(m.force[h + 1], pull);
    add_to(m.force[kOxygen], -1 * pull);
  }
  const double cosine = dot(unit[0], unit[1]);
  const double sine = std::sqrt(1 - cosine * cosine);
  const double bend = std::acos(cosine) - kAngle;
  energy += 0.5 * kAngleStiffness * bend * bend;
  for (std::size_t h = 0; h < 2; ++h) {
    // The gradient of the angle at this hydrogen is (cosine u - w) / (length sine), w the other's direction.
    const Vector force = -kAngleStiffness * bend / (length[h] * sine) * (cosine * unit[h] - unit[1 - h]);
    add_to(m.force[h + 1], force);
    add_to(m.force[kOxygen], -1 * force);
  }
  return energy;
}

double Model::forces_between(const Molecule& a, const Molecule& b, Forces& on_a, Forces& on_b) const {
  const auto& at_a = a.motion[0];
  const auto& at_b = b.motion[0];
  // The nearest image of b: whole molecules are moved, by their oxygens.
  Vector shift;
  for (std::size_t x = 0; x < 3; ++x)
    shift[x] = box * std::round((at_a[kOxygen][x] - at_b[kOxygen][x]) / box);
  const Vector between = at_a[kOxygen] - at_b[kOxygen] - shift;
  const double square = dot(between, between);
  if (square >= cut_off * cut_off) return 0;
  const double apart = std::sqrt(square);

  std::array<Vector, kAtoms> fa{}, fb{};
  const double s2 = kSigma * kSigma / square;
  const double s6 = s2 * s2 * s2;
  double energy = 4 * kEpsilon * s6 * (s6 - 1);
  const Vector push = 24 * kEpsilon * s6 * (2 * s6 - 1) / square * between;
  fa[kOxygen] += push;
  fb[kOxygen] -= push;
  for (std::size_t i = 0; i < kAtoms; ++i) {
    for (std::size_t j = 0; j < kAtoms; ++j) {
      const Vector d = at_a[i] - at_b[j] - shift;
      const double d2 = dot(d, d);
      const double e = kCoulomb * kCharge[i] * kCharge[j] / std::sqrt(d2);
      energy += e;
      const Vector f = e / d2 * d;
      fa[i] += f;
      fb[j] -= f;
    }
  }
  const Fade faded = fade(apart, kFadeFrom * cut_off, cut_off);
  const Vector of_fading = -energy * faded.slope / apart * between;
  add_to(on_a[kOxygen], of_fading);
  add_to(on_b[kOxygen], -1 * of_fading);
  for (std::size_t i = 0; i < kAtoms; ++i) {
    add_to(on_a[i], faded.value * fa[i]);
    add_to(on_b[i], faded.value * fb[i]);
  }
  return faded.value * energy;
}

Vector Model::acceleration(const Molecule& m, std::size_t atom) const {
  const VectorSum& force = m.force[atom];
  return step * step / 2 / kMass[atom] * Vector{force[0].value(), force[1].value(), force[2].value()};
}

void Model::set_acceleration(Molecule& m) const {
  for (std::size_t atom = 0; atom < kAtoms; ++atom) m.motion[2][atom] = acceleration(m, atom);
}

void Model::correct(Molecule& m) const {
  for (std::size_t atom = 0; atom < kAtoms; ++atom) {
    const Vector error = acceleration(m, atom) - m.motion[2][atom];
    for (std::size_t k = 0; k < kOrders; ++k) m.motion[k][atom] += kCorrector[k] * error;
  }
  for (std::size_t x = 0; x < 3; ++x) {
    const double back = box * std::floor(m.motion[0][kOxygen][x] / box);
    for (Vector& at : m.motion[0]) at[x] -= back;
  }
}

double Model::kinetic_energy(const Molecule& m) const {
  double energy = 0;
  for (std::size_t atom = 0; atom < kAtoms; ++atom)
    energy += 0.5 * kMass[atom] * dot(m.motion[1][atom], m.motion[1][atom]);
  return energy / (step * step);
}

}  // namespace braid::apps::water
