#include "dsm/live/node_waits.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace braid::dsm {

namespace {

// A poller that found nothing for this long sleeps and leaves serving to the
// server thread. It is far longer than a remote fault takes, so that faults never
// pay for a wake-up, and short enough not to waste a processor that others need.
constexpr Duration kPollTime = 1_ms;
constexpr int kLooksBeforeYield = 200;
constexpr int kLooksBeforePark = 32;
// Polls sometimes even if nothing seems to be there: only polls check the links.
constexpr int kLooksPerPoll = 8;

// Spinning pays only where the awaited thread runs at the same time: one processor for each compute node, one for
// a proxy and one for the server. Elsewhere every try yields the processor.
int looks_before_yield(unsigned compute, bool drives_proxies) {
  const unsigned others = drives_proxies ? 0 : 2;
  return std::thread::hardware_concurrency() >= compute + others ? kLooksBeforeYield : 0;
}

}  // namespace

NodeWaits::NodeWaits(unsigned compute, Network* network, Combiner& combiner, Pollers& pollers,
                     PulseWriter& pulse, unsigned computing)
    : combiner_(combiner),
      pollers_(pollers),
      pulse_(pulse),
      connected_(network != nullptr),
      drives_proxies_(network != nullptr && network->moves_only_in_poll()),
      looks_before_yield_(looks_before_yield(computing == 0 ? compute : computing, drives_proxies_)),
      nodes_(std::make_unique<Node[]>(compute)) {}

// Where proxies run inside poll(), every call polls.
bool NodeWaits::serve(unsigned local, int looks) {
  if (!connected_) return false;
  if (!drives_proxies_ && !combiner_.work_is_there() && looks % kLooksPerPoll != 0) return false;
  if (!combiner_.try_lock()) return false;
  const std::lock_guard hold(combiner_, std::adopt_lock);
  return combiner_.serve(local);
}

void NodeWaits::wait(unsigned local, Instant deadline) {
  Node& node = nodes_[local];
  Completion& completion = combiner_.completion(local);
  const PulseWriter::Waiting waiting(pulse_);
  pollers_.enter();
  const bool crowded = !drives_proxies_ && node.crowding.begin_wait();
  // The clock is read only after a check has found nothing.
  Instant now;
  Instant idle_since = Instant::never();
  for (int looks = 0; !completion.done(); ++looks) {
    if (serve(local, looks)) {
      looks = 0;
      idle_since = Instant::never();
      continue;
    }
    if (looks < (crowded ? kLooksBeforePark : looks_before_yield_)) {
      if (!drives_proxies_) _mm_pause();  // a turn of the proxies is a sufficient pause
      continue;
    }
    if (idle_since == Instant::never()) idle_since = now = monotonic_now();
    bool sleeps = crowded;
    if (!crowded) {
      const Instant before = now;
      ::sched_yield();
      now = monotonic_now();
      sleeps = node.crowding.yielded(now - before) || now - idle_since >= kPollTime;
    }
    if (now >= deadline) break;
    if (!sleeps || drives_proxies_) continue;  // nothing would wake it
    pollers_.leave();
    completion.park(std::min(kWatchPeriod, deadline == Instant::never() ? kWatchPeriod : deadline - now));
    pollers_.enter();
    idle_since = Instant::never();
  }
  pollers_.leave();
}

}  // namespace braid::dsm
