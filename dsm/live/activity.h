// What the compute nodes of a cluster do, for the watchdog: which wait, and which have computed since the last look without
// a call of the runtime or a fault. A loop that polls a plain variable does that for ever, and a long computation for a
// while; nobody can tell the one from the other, but the program's author can if both the time and the place are told.
//
// look() is the server thread's; the rest is any thread's.
#pragma once

#include <sys/types.h>

#include <array>
#include <mutex>

#include "base/limits.h"
#include "base/time.h"
#include "dsm/live/combiner.h"
#include "dsm/live/pulse_writer.h"

namespace braid::dsm {

class Activity {
 public:
  static constexpr Duration kPeriod = 1_s;

  // `compute`: nodes of the cluster. All outlive this.
  Activity(unsigned compute, Combiner& combiner, PulseWriter& pulse)
      : compute_(compute), combiner_(combiner), pulse_(pulse) {}

  // Once in kPeriod it looks at the nodes, and tells the watchdog. Call it with the combiner lock held, and more often.
  // `in_parallel`: the program is inside parallel(); outside nobody can wait for what another cluster writes.
  void look(Instant now, bool in_parallel);
  // How long node `local` has computed without a call, as of the last look; 0: it has not.
  Duration computing_alone(unsigned local);

 private:
  struct Node {
    std::uint64_t calls = 0;
    pid_t thread = 0;
    Duration processor_time;
    Instant alone_since = Instant::never();
  };
  // What a node has done since the last look.
  enum class Does : std::uint8_t { kNothing, kWaits, kComputesAlone, kOther };
  Does look_at(unsigned local, Node& node, Instant now) const;

  const unsigned compute_;
  Combiner& combiner_;
  PulseWriter& pulse_;
  Instant looked_;
  std::mutex mutex_;
  std::array<Node, kMaxComputeNodes> nodes_;  // with mutex_
};

}  // namespace braid::dsm
