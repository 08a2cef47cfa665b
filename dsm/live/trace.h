// Where the time of one page fault goes, for benches.
//
//   access      entered        requested                 answered      installed        access done
//     |--entry--|---request----|--the way there and back--|---install---|----return-------|
#pragma once

#include "base/time.h"

namespace braid::dsm {

struct FaultStamps {
  Instant entered;    // the handler began
  Instant requested;  // the request was with the proxies; where none was needed, the fault was resolved
  Instant answered;   // the message that resolved the fault was taken
  Instant installed;  // the page was there and open
};

// Compute nodes note stamps of their faults from now on, a few clock readings each. After init().
void trace_faults(bool on);
// Of the calling compute node's latest fault.
FaultStamps latest_fault();

}  // namespace braid::dsm
