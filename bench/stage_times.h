// The time that each stage of a message and each action of the page protocol takes on this machine:
// production code, timed in short loops and single turns whose medians are taken, so that a scheduler that
// takes the processor away now and then is not seen.
//
// Whole turns of proxies give the sums, with everything that a proxy does around its protocols; NI, IP and
// UDP are timed on their own and taken off, and what is left of a turn is the window's.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace braid::bench {

struct StageTime {
  double ns = 0;
  std::string how;  // it was measured
};
// By the names of settings::cost_settings(): all but `unit`, which takes a program.
using StageTimes = std::map<std::string, StageTime>;

// `samples`: of each thing, at least 10. The caller has no thread but the calling one; no signal is taken
// over. Takes some 3 ms a sample. The error tells what could not be set up.
Result<StageTimes> time_stages(unsigned samples);

}  // namespace braid::bench
