#include "tools/braid/run/watchdog.h"

namespace braid::cli {

void Watchdog::start(Instant now) {
  if (limit_ > Duration()) look_at_ = unchanged_since_ = now;
}

bool Watchdog::look(Instant now, bool all_wait, std::uint64_t progress) {
  look_at_ = now + kInterval;
  if (!all_wait || progress != progress_) {
    progress_ = progress;
    unchanged_since_ = now;
  }
  if (now - unchanged_since_ < limit_) return false;
  stop();
  return true;
}

}  // namespace braid::cli
