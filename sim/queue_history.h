// The length of a queue over time: a bounded number of equal intervals, each with the length's exact
// time-weighted mean and its maximum. When all intervals are used, pairs are merged and the width doubles.
//
//   |  0  |  1  |  2  |  3  |      covered: the time added so far; it ends inside the last interval
//   |<----- covered ----->|
//
// Figures over all time are sums over the intervals; they are not stored elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace braid::sim {

class QueueHistory {
 public:
  // Enough points for a diagram; more than half of them
  // are in use once the first width was too small.
  static constexpr std::size_t kIntervals = 64;
  // Shorter than any stage of a cost model, so it loses nothing.
  static constexpr unsigned kFirstWidthLog2 = 6;  // 64 ns

  struct Interval {
    Duration begins{}, ends{};  // since the first added time
    double mean = 0;
    std::uint32_t most = 0;
  };

  // After all that was added before, the queue had this length for this time.
  void add(Duration lasted, std::uint32_t length) {
    CHECK_GE(lasted.ns(), 0);
    for (auto left = static_cast<std::uint64_t>(lasted.ns()); left > 0;) {
      if (covered_ == kIntervals << width_log2_) widen();
      Sum& sum = sums_[covered_ >> width_log2_];
      const std::uint64_t width = std::uint64_t{1} << width_log2_;
      const std::uint64_t here = std::min(left, width - (covered_ & (width - 1)));
      sum.length_ns += here * length;
      sum.most = std::max(sum.most, length);
      covered_ += here;
      left -= here;
    }
  }

  // The queue has this length now, even if for no time.
  void touch(std::uint32_t length) {
    Sum& sum = sums_[covered_ == 0 ? 0 : (covered_ - 1) >> width_log2_];
    sum.most = std::max(sum.most, length);
  }

  Duration covered() const { return Duration::ns(static_cast<std::int64_t>(covered_)); }
  Duration width() const { return Duration::ns(std::int64_t{1} << width_log2_); }

  // The number of intervals that have begun; the last one ends at covered().
  std::size_t size() const {
    return static_cast<std::size_t>((covered_ + (std::uint64_t{1} << width_log2_) - 1) >> width_log2_);
  }
  Interval operator[](std::size_t i) const {
    CHECK_LT(i, size());
    const std::uint64_t begins = static_cast<std::uint64_t>(i) << width_log2_;
    const std::uint64_t ends = std::min(begins + (std::uint64_t{1} << width_log2_), covered_);
    return {Duration::ns(static_cast<std::int64_t>(begins)), Duration::ns(static_cast<std::int64_t>(ends)),
            static_cast<double>(sums_[i].length_ns) / static_cast<double>(ends - begins), sums_[i].most};
  }

  // Over all covered time.
  double mean() const {
    std::uint64_t length_ns = 0;
    for (const Sum& sum : sums_) length_ns += sum.length_ns;
    return covered_ == 0 ? 0 : static_cast<double>(length_ns) / static_cast<double>(covered_);
  }
  std::uint32_t most() const {
    std::uint32_t most = 0;
    for (const Sum& sum : sums_) most = std::max(most, sum.most);
    return most;
  }

 private:
  struct Sum {
    std::uint64_t length_ns = 0;  // a thousand messages for a month: 2.6e18
    std::uint32_t most = 0;
  };

  void widen() {
    for (std::size_t i = 0; i < kIntervals / 2; ++i) {
      const Sum &one = sums_[2 * i], &other = sums_[2 * i + 1];
      sums_[i] = {one.length_ns + other.length_ns, std::max(one.most, other.most)};
    }
    std::fill(sums_.begin() + kIntervals / 2, sums_.end(), Sum{});
    ++width_log2_;
  }

  std::array<Sum, kIntervals> sums_{};
  std::uint64_t covered_ = 0;  // ns
  unsigned width_log2_ = kFirstWidthLog2;
};

}  // namespace braid::sim
