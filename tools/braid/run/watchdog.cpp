#include "tools/braid/run/watchdog.h"

namespace braid::cli {

void Watchdog::start(Instant now) {
  look_at_ = unchanged_since_ = alone_since_ = now;
}

Watchdog::Finding Watchdog::look(Instant now, const Seen& seen) {
  look_at_ = now + kInterval;
  const bool moved = seen.progress != progress_;
  progress_ = seen.progress;
  if (!seen.others_compute_alone || moved) alone_since_ = now;
  if (!seen.all_wait || moved) {
    unchanged_since_ = now;
    hinted_ = false;
  }
  const Duration unchanged = now - unchanged_since_;
  if (limit_ > Duration() && unchanged >= limit_) {
    stop();
    return Finding::kEnd;
  }
  if (hint_ == Duration()) return Finding::kNothing;
  if (!hinted_alone_ && now - alone_since_ >= hint_) {
    hinted_alone_ = true;
    return Finding::kAloneHint;
  }
  if (hinted_ || unchanged < hint_) return Finding::kNothing;
  hinted_ = true;
  return Finding::kHint;
}

}  // namespace braid::cli
