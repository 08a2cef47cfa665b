// The parts of the time of one page fault, for benches.
//
//   access      entered        requested                 answered      installed        access done
//     |--entry--|---request----|-------- round trip ------|---install---|----return-------|
#pragma once

#include "base/time.h"

namespace braid::dsm {

struct FaultStamps {
  Instant entered;    // the handler began
  Instant requested;  // the request was handed to the proxies, or the fault was resolved without one
  Instant answered;   // the message that resolved the fault was received
  Instant installed;  // the page was filled and open
};

// Compute nodes record the stamps of their faults from now on, a few clock readings each. After init().
void trace_faults(bool on);
// The stamps of the calling compute node's latest fault.
FaultStamps latest_fault();

}  // namespace braid::dsm
