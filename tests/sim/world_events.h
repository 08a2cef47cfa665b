// The next possible events of a fault world, and the log of past ones.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/time.h"
#include "sim/event_queue.h"

namespace braid::sim {

struct WorldEvent {
  enum class Kind : std::uint8_t {
    kFrame,    // node, index: link; a: buffer, b: length. A frame arrives
    kWorker,   // node, index: proxy. It may be superseded
    kControl,  // node: its control plane takes a turn. It may be superseded
    kClient,   // index: client. It may be superseded
    kProgram,  // node: its part of a shared-memory program takes a turn
    kTrouble,  // the planner's
    kPhase,    // node 0: the network is good from now on; else only the clock moves
  };
  Kind kind;
  std::uint8_t node;
  std::uint16_t index;
  std::uint32_t a;
  std::uint32_t b;
};
using WorldEvents = EventQueue<WorldEvent>;

// The first thing that went wrong, and a line for each event where somebody reads them.
class WorldLog {
 public:
  // `events`: whose clock the log uses; it lives longer. `tracing`: prints on standard output.
  WorldLog(const WorldEvents& events, bool tracing) : events_(events), tracing_(tracing) {}

  bool tracing() const { return tracing_; }
  bool has_failed() const { return !failure_.empty(); }
  // Empty: nothing is wrong. Else what is, for a person.
  const std::string& failure() const { return failure_; }

  // Only the first failure counts: others may come of it.
  void fail(const std::string& what) {
    if (has_failed()) return;
    trace("*** {}", what);
    failure_ = fmt::format("at {:.6f} ms: {}", now_ms(), what);
  }
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) const {
    if (!tracing_) return;
    fmt::print("{:14.6f}  ", now_ms());
    fmt::print(format, std::forward<Args>(args)...);
    std::putchar('\n');
  }

 private:
  double now_ms() const { return (events_.now() - Instant()).ms(); }

  const WorldEvents& events_;
  const bool tracing_;
  std::string failure_;
};

// A node that is not scheduled for longer knows that it was not (proxy/daemon/worker.cpp).
inline constexpr Duration kSchedulingGap = 50_ms;

// Of the doubles of WorldConfig.
inline Duration from_us(double us) {
  return Duration::ns(static_cast<std::int64_t>(us * 1e3));
}
inline Duration from_ms(double ms) {
  return Duration::ns(static_cast<std::int64_t>(ms * 1e6));
}

// Mixes a value into a hash.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

}  // namespace braid::sim
