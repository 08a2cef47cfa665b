#include "base/short_turns.h"

#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace braid {
namespace {

constexpr std::uint32_t kSchedOther = 0;

sched_attr attributes_of_this_thread() {
  sched_attr attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return {};
  return attributes;
}

}  // namespace

void take_short_turns(Duration turn) {
  if (length_of_turns() <= turn) return;
  sched_attr attributes = attributes_of_this_thread();
  attributes.size = sizeof attributes;
  attributes.sched_runtime = static_cast<std::uint64_t>(turn.ns());
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

Duration length_of_turns() {
  const sched_attr attributes = attributes_of_this_thread();
  if (attributes.sched_policy != kSchedOther) return {};
  return Duration::ns(static_cast<std::int64_t>(attributes.sched_runtime));
}

}  // namespace braid
