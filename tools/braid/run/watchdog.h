// Tells when every compute node has waited for so long and nothing has happened. Pure: it is shown what there
// is to see, with the time.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace braid::cli {

class Watchdog {
 public:
  // It looks so often; a moment in which somebody computes between two looks still shows as progress.
  static constexpr Duration kInterval = 200_ms;

  // `limit` 0: it never looks.
  explicit Watchdog(Duration limit) : limit_(limit) {}

  void start(Instant now);
  void stop() { look_at_ = Instant::never(); }
  // When it wants to look next.
  Instant next_deadline() const { return look_at_; }
  // What there is to see: whether all wait, and a number that grows when something happens. Returns true, and
  // stops, when nothing has happened for the limit.
  [[nodiscard]] bool look(Instant now, bool all_wait, std::uint64_t progress);

 private:
  const Duration limit_;
  Instant look_at_ = Instant::never();
  Instant unchanged_since_;
  std::uint64_t progress_ = 0;
};

}  // namespace braid::cli
