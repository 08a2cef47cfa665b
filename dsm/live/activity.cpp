#include "dsm/live/activity.h"

#include "base/thread_clock.h"

namespace braid::dsm {

namespace {

// Of a processor, that who computes has at least, also where many others want it. A thread that waits in a system call has less.
constexpr int kLeastShare = 50;

std::uint64_t calls_of(const NodeCounts& counts) {
  return counts.read_faults + counts.write_faults + counts.lock_calls + counts.barriers + counts.sync_calls;
}

}  // namespace

Activity::Does Activity::look_at(unsigned local, Node& node, Instant now) const {
  const auto id = static_cast<std::uint16_t>(local);
  const std::uint64_t calls = calls_of(combiner_.engine().node_counts(id));
  const bool called = calls != node.calls;
  node.calls = calls;
  if (combiner_.waits(local)) {
    node.thread = 0;
    return combiner_.engine().waits_for_work(id) ? Does::kNothing : Does::kWaits;
  }
  const pid_t thread = pulse_.thread_of(local);
  const Duration before = node.processor_time;
  const bool is_same = thread != 0 && thread == node.thread;
  node.thread = thread;
  if (thread == 0) return Does::kNothing;
  node.processor_time = cpu_time_of_thread(thread);
  const bool computed = is_same && node.processor_time - before >= (now - looked_) / kLeastShare;
  return computed && !called ? Does::kComputesAlone : Does::kOther;
}

void Activity::look(Instant now, bool in_parallel) {
  if (now - looked_ < kPeriod) return;
  const std::lock_guard hold(mutex_);
  std::array<std::uint32_t, 4> count{};
  for (unsigned local = 0; local < compute_; ++local) {
    Node& node = nodes_[local];
    Does does = look_at(local, node, now);
    if (does == Does::kComputesAlone && !in_parallel) does = Does::kOther;
    if (does != Does::kComputesAlone)
      node.alone_since = Instant::never();
    else if (node.alone_since == Instant::never())
      node.alone_since = looked_;
    ++count[static_cast<unsigned>(does)];
  }
  looked_ = now;
  pulse_.tell({.waiting = count[static_cast<unsigned>(Does::kWaits)],
               .alone = count[static_cast<unsigned>(Does::kComputesAlone)],
               .other = count[static_cast<unsigned>(Does::kOther)]});
}

Duration Activity::computing_alone(unsigned local) {
  const std::lock_guard hold(mutex_);
  const Instant since = nodes_[local].alone_since;
  return since == Instant::never() ? Duration() : looked_ - since;
}

}  // namespace braid::dsm
