// Tells when every compute node has waited for so long and nothing has happened: first as a hint, with which the run goes
// on, and then, where there is a limit, as the end of the run. And, as a hint, when some have waited so long while all others
// computed and called nothing. Pure: it is shown what there is to see, with the time.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace braid::cli {

class Watchdog {
 public:
  // It looks so often; a moment in which somebody computes between two looks still shows as progress.
  static constexpr Duration kInterval = 200_ms;

  enum class Finding : std::uint8_t {
    kNothing,
    kHint,       // once, until something happens again
    kAloneHint,  // once: some wait, and all others compute without a call of the runtime
    kEnd,        // the limit has come; it has stopped
  };

  struct Seen {
    bool all_wait = false;
    bool others_compute_alone = false;
    std::uint64_t progress = 0;  // grows with every one
  };

  // `hint` or `limit` 0: there is none.
  Watchdog(Duration hint, Duration limit) : hint_(hint), limit_(limit) {}

  void start(Instant now);
  void stop() { look_at_ = Instant::never(); }
  // When it wants to look next.
  Instant next_deadline() const { return look_at_; }
  [[nodiscard]] Finding look(Instant now, const Seen& seen);

 private:
  const Duration hint_;
  const Duration limit_;
  Instant look_at_ = Instant::never();
  Instant unchanged_since_, alone_since_;
  std::uint64_t progress_ = 0;
  bool hinted_ = false, hinted_alone_ = false;
};

}  // namespace braid::cli
