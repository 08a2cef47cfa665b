#include "tools/braid/run/watchdog.h"

namespace braid::cli {

void Watchdog::start(Instant now) {
  look_at_ = unchanged_since_ = now;
}

Watchdog::Finding Watchdog::look(Instant now, bool all_wait, std::uint64_t progress) {
  look_at_ = now + kInterval;
  if (!all_wait || progress != progress_) {
    progress_ = progress;
    unchanged_since_ = now;
    hinted_ = false;
  }
  const Duration unchanged = now - unchanged_since_;
  if (limit_ > Duration() && unchanged >= limit_) {
    stop();
    return Finding::kEnd;
  }
  if (hinted_ || hint_ == Duration() || unchanged < hint_) return Finding::kNothing;
  hinted_ = true;
  return Finding::kHint;
}

}  // namespace braid::cli
