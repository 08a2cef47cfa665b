// The only reader of a clock. Live drivers call it once a turn and hand the instant down.
#pragma once

#include "base/time.h"

namespace braid {

// CLOCK_MONOTONIC. Any thread; safe in a signal handler.
Instant monotonic_now();

}  // namespace braid
