// The clock of another thread's processor time (clock.h has the calling thread's).
#pragma once

#include <sys/types.h>

#include "base/time.h"

namespace braid {

// Of a thread of this process, by the kernel's number; 0: it has ended.
Duration cpu_time_of_thread(pid_t thread);

}  // namespace braid
