// Points and lengths of time in nanoseconds, as types of their own.
// Protocol objects are given an Instant; only base/clock.h reads a clock.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace braid {

// A length of time; may be negative.
class Duration {
 public:
  constexpr Duration() = default;
  static constexpr Duration ns(std::int64_t n) { return Duration(n); }
  static constexpr Duration us(std::int64_t n) { return Duration(n * 1'000); }
  static constexpr Duration ms(std::int64_t n) { return Duration(n * 1'000'000); }
  static constexpr Duration s(std::int64_t n) { return Duration(n * 1'000'000'000); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr double us() const { return static_cast<double>(ns_) / 1e3; }
  constexpr double ms() const { return static_cast<double>(ns_) / 1e6; }
  constexpr double s() const { return static_cast<double>(ns_) / 1e9; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator+(Duration d) const { return Duration(ns_ + d.ns_); }
  constexpr Duration operator-(Duration d) const { return Duration(ns_ - d.ns_); }
  constexpr Duration operator*(std::int64_t k) const { return Duration(ns_ * k); }
  constexpr Duration operator/(std::int64_t k) const { return Duration(ns_ / k); }
  constexpr Duration& operator+=(Duration d) { return *this = *this + d; }

 private:
  explicit constexpr Duration(std::int64_t n) : ns_(n) {}
  std::int64_t ns_ = 0;
};

// A point in time on the driver's clock: monotonic when live, virtual in simulation.
class Instant {
 public:
  constexpr Instant() = default;
  static constexpr Instant from_ns(std::int64_t n) { return Instant(n); }
  // Later than every other instant: "no deadline". never() plus any duration is never().
  static constexpr Instant never() { return Instant(std::numeric_limits<std::int64_t>::max()); }

  constexpr std::int64_t ns() const { return ns_; }
  constexpr auto operator<=>(const Instant&) const = default;
  constexpr Instant operator+(Duration d) const {
    return *this == never() || d.ns() > never().ns_ - ns_ ? never() : Instant(ns_ + d.ns());
  }
  constexpr Instant operator-(Duration d) const { return Instant(ns_ - d.ns()); }
  constexpr Duration operator-(Instant i) const { return Duration::ns(ns_ - i.ns_); }

 private:
  explicit constexpr Instant(std::int64_t n) : ns_(n) {}
  std::int64_t ns_ = 0;
};

constexpr Instant earlier(Instant a, Instant b) {
  return a < b ? a : b;
}

inline namespace literals {
constexpr Duration operator""_ns(unsigned long long n) {
  return Duration::ns(static_cast<std::int64_t>(n));
}
constexpr Duration operator""_us(unsigned long long n) {
  return Duration::us(static_cast<std::int64_t>(n));
}
constexpr Duration operator""_ms(unsigned long long n) {
  return Duration::ms(static_cast<std::int64_t>(n));
}
constexpr Duration operator""_s(unsigned long long n) {
  return Duration::s(static_cast<std::int64_t>(n));
}
}  // namespace literals

}  // namespace braid
