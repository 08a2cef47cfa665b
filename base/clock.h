// The only reader of a clock. Live drivers call it once a turn and pass the instant on.
#pragma once

#include "base/time.h"

namespace braid {

// CLOCK_MONOTONIC. Any thread; safe in a signal handler.
Instant monotonic_now();

// The processor time that the calling thread has used. Any thread; safe in a signal handler.
Duration thread_cpu_time();

// The difference between UTC since 1970, as the system's clock
// shows it at the moment of the call, and monotonic_now().
Duration unix_time_of_monotonic_zero();

}  // namespace braid
