#include "base/short_turns.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace braid {
namespace {

constexpr std::uint32_t kSchedOther = 0;

// sched_setattr(2)'s struct sched_attr of SCHED_ATTR_SIZE_VER0. Own, since glibc 2.36 has none, and <linux/sched/types.h> of many
// kernels defines glibc's sched_param a second time.
struct ScheduleAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime_ns;
  std::uint64_t deadline_ns;
  std::uint64_t period_ns;
};
static_assert(sizeof(ScheduleAttributes) == 48);

ScheduleAttributes attributes_of_this_thread() {
  ScheduleAttributes attributes{};
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return {};
  return attributes;
}

}  // namespace

void take_short_turns(Duration turn) {
  if (length_of_turns() <= turn) return;
  ScheduleAttributes attributes = attributes_of_this_thread();
  attributes.size = sizeof attributes;
  attributes.runtime_ns = static_cast<std::uint64_t>(turn.ns());
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

Duration length_of_turns() {
  const ScheduleAttributes attributes = attributes_of_this_thread();
  if (attributes.policy != kSchedOther) return {};
  return Duration::ns(static_cast<std::int64_t>(attributes.runtime_ns));
}

}  // namespace braid
