// The only reader of a clock. Live drivers call it once a turn and hand the instant down.
#pragma once

#include "base/time.h"

namespace braid {

// CLOCK_MONOTONIC. Any thread; safe in a signal handler.
Instant monotonic_now();

// What the calling thread has used of its processor. Any thread; safe in a signal handler.
Duration thread_cpu_time();

// What must be added to monotonic_now() to get the time since 1970 in UTC, as the system tells it at the
// moment of the call.
Duration unix_time_of_monotonic_zero();

}  // namespace braid
