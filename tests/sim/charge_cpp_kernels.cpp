#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sim/charge_kernels.h"

namespace {

// --- Exceptions.

struct Counted {
  explicit Counted(std::int64_t& n) : n_(n) {}
  ~Counted() { n_ += 1; }
  std::int64_t& n_;
};

[[gnu::noinline]] void deep(std::int64_t n, std::int64_t& cleaned) {
  const Counted counted(cleaned);
  if (n == 0) throw std::runtime_error("bottom");
  deep(n - 1, cleaned);
  cleaned += 1000;  // never
}

[[gnu::noinline]] std::int64_t caught(std::int64_t n) {
  std::int64_t cleaned = 0;
  std::int64_t rounds = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    try {
      if (i % 3 != 0) deep(i % 5, cleaned);
      rounds += 100;
    } catch (const std::runtime_error& e) {
      rounds += e.what()[0] == 'b' ? 1 : 10000;
      observe("in a handler", rounds);
    }
  }
  return cleaned * 1'000'000 + rounds;
}

[[gnu::noinline]] std::int64_t rethrown(std::int64_t n) {
  try {
    try {
      if (n % 2 != 0) throw n;
      return -n;
    } catch (std::int64_t) {
      observe("rethrows", n);
      throw;
    }
  } catch (...) {
    return n;
  }
}

// --- Calls whose target is not known at compile time.

struct Shape {
  virtual ~Shape() = default;
  virtual double area(double scale) const = 0;
};
struct Square final : Shape {
  explicit Square(double side) : side_(side) {}
  double area(double scale) const override { return side_ * side_ * scale; }
  double side_;
};
struct Polygon final : Shape {
  explicit Polygon(std::vector<std::array<double, 2>> points) : points_(std::move(points)) {}
  double area(double scale) const override {
    double twice = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto& a = points_[i];
      const auto& b = points_[(i + 1) % points_.size()];
      twice += a[0] * b[1] - a[1] * b[0];
    }
    return twice / 2 * scale;
  }
  std::vector<std::array<double, 2>> points_;
};

[[gnu::noinline]] double areas(std::int64_t n) {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(i);
    if (i % 2 == 0) {
      shapes.push_back(std::make_unique<Square>(x));
    } else {
      shapes.push_back(
          std::make_unique<Polygon>(std::vector<std::array<double, 2>>{{0, 0}, {x, 0}, {x, 1}, {0, 2}}));
    }
  }
  double sum = 0;
  for (const auto& shape : shapes) sum += shape->area(0.5);
  return sum;
}

[[gnu::noinline]] std::int64_t applied(const std::function<std::int64_t(std::int64_t)>& f, std::int64_t n) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += f(i);
  return sum;
}

// --- Templates.

template <class T, int kOrder>
T horner(const std::array<T, kOrder>& coefficients, T x) {
  T value = 0;
  for (int i = kOrder; i-- > 0;) value = value * x + coefficients[static_cast<std::size_t>(i)];
  return value;
}

template <class T>
[[gnu::noinline]] std::int64_t polynomials(std::int64_t n) {
  std::array<T, 7> seventh;
  std::iota(seventh.begin(), seventh.end(), T(1));
  const std::array<T, 2> second{T(3), T(4)};
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += horner<T, 7>(seventh, static_cast<T>(i % 13));
    if (i % 4 == 1) sum -= horner<T, 2>(second, static_cast<T>(i));
  }
  return static_cast<std::int64_t>(sum);
}

[[gnu::noinline]] std::int64_t library(std::int64_t n) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<std::int64_t>(random() % 1000));
  std::sort(values.begin(), values.end(), [](std::int64_t a, std::int64_t b) { return a % 100 < b % 100; });
  std::map<std::int64_t, std::string> names;
  for (const std::int64_t v : values) names[v % 17] += std::to_string(v);
  std::uint64_t hash = 0;
  for (const auto& [key, name] : names)
    for (const char c : name) hash = hash * 31 + static_cast<std::uint64_t>(c + key);
  return static_cast<std::int64_t>(hash);
}

[[gnu::noinline]] double elementary(std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 1; i <= n; ++i) {
    const double x = static_cast<double>(i) / 10;
    sum += std::sin(x) * std::exp(-x) + std::sqrt(x) + std::pow(x, 0.3) + std::hypot(x, 2.0);
    sum += static_cast<double>(std::llrint(x)) + std::floor(x) + std::fabs(sum);
  }
  return sum;
}

}  // namespace

void cpp_kernels() {
  for (const std::int64_t size : {0, 1, 2, 5, 23, 200}) {
    const std::int64_t n = opaque(size);
    observe("size", n);
    observe("caught", caught(n));
    observe("rethrown", rethrown(n));
    observe("areas", static_cast<std::int64_t>(areas(n) * 16));
    std::int64_t calls = 0;
    observe("lambda", applied(
                          [&calls, n](std::int64_t i) {
                            ++calls;
                            return i % 2 == 0 ? i * n : i - n;
                          },
                          n));
    observe("lambda's calls", calls);
    observe("polynomials", polynomials<double>(n) + polynomials<std::int64_t>(n));
    observe("library", library(n));
    observe("elementary", static_cast<std::int64_t>(elementary(n) * 1e6));
  }
}
