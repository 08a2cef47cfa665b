// The machine's clocks by their names of POSIX: dates, or the time since an unknown moment. Any thread that may call the runtime.
#pragma once

#include <time.h>

#include "base/timespec.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/stacks.h"

namespace braid::dsm::pthreads {

inline bool is_date(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

// The clocks that time limits may be of, as in the C library.
inline bool is_for_limits(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

// What a clock shows. Those that are no dates: the machine's monotonic clock, also for processor time.
inline Duration now(clockid_t clock) {
  return Duration::ns(on_private(
      [=] { return is_date(clock) ? thread_host::unix_time().ns() : thread_host::monotonic().ns(); }));
}

}  // namespace braid::dsm::pthreads
