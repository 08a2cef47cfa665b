// The machine's clocks, as calls of POSIX state them: dates, or the time since an unknown moment. Any thread that may call the runtime.
#pragma once

#include <time.h>

#include <cstdint>

#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"

namespace braid::dsm::pthreads {

inline constexpr std::int64_t kNsPerSecond = 1'000'000'000;

inline bool is_date(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
}

inline std::int64_t now_ns(clockid_t clock) {
  return on_private(
      [=] { return is_date(clock) ? thread_host::unix_time().ns() : thread_host::monotonic().ns(); });
}

inline timespec to_timespec(std::int64_t ns) {
  return {ns / kNsPerSecond, ns % kNsPerSecond};
}

}  // namespace braid::dsm::pthreads
