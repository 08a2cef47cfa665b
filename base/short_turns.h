// The length of a thread's turns on a processor that others want too.
#pragma once

#include "base/time.h"

namespace braid {

// From now on the calling thread's turns are so short, and of as many more as its share allows: whoever computes in longer ones is
// interrupted when it is woken. Threads and processes that it makes later inherit this. Nothing changes where its
// turns are that short already, for real-time threads, and before Linux 6.12 (sched_setattr(2), sched_runtime of SCHED_OTHER).
void take_short_turns(Duration turn);

// The length of the calling thread's turns; 0: this system does not tell, or the thread is a real-time one.
Duration length_of_turns();

}  // namespace braid
