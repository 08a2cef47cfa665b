// How often a log tells of events that others cause as often as they like: `at_once` of them, one more in each
// kInterval, and how many were not told. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/time.h"

namespace braid::proxy {

class LimitedLog {
 public:
  static constexpr Duration kInterval = 10_s;

  explicit LimitedLog(std::uint32_t at_once) : at_once_(at_once), left_(at_once) {}

  // An event has happened. Is it to be told?
  [[nodiscard]] bool on_event(Instant now) {
    ++all_;
    if (now >= next_) {
      // After a quiet interval, as many as at the beginning.
      left_ = now >= next_ + kInterval && untold_ == 0 ? at_once_ : 1;
      next_ = now + kInterval;
    }
    if (left_ == 0) {
      ++untold_;
      return false;
    }
    --left_;
    return true;
  }

  // How many events were not told, once an interval is over; each is counted once.
  [[nodiscard]] std::optional<std::uint64_t> poll_untold(Instant now) {
    if (untold_ == 0 || now < next_) return {};
    next_ = now + kInterval;
    left_ = 0;
    return std::exchange(untold_, 0);
  }

  std::uint64_t all() const { return all_; }

 private:
  std::uint32_t at_once_;
  std::uint32_t left_;  // that may be told before next_
  Instant next_;        // the end of the interval
  std::uint64_t untold_ = 0;
  std::uint64_t all_ = 0;
};

}  // namespace braid::proxy
