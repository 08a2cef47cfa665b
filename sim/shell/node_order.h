// Which compute node of a cluster runs, and until when: of those that can run the one with the earliest
// clock, of equal clocks the lower number's, until it is a quantum ahead of the next or at the window's end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/shell/control.h"

namespace braid::sim {

// Control::kNobody: all that can run have come to the window's end.
inline std::uint32_t next_node(const Control& control) {
  std::uint32_t first = Control::kNobody;
  std::int64_t earliest = control.until;
  for (unsigned n = 0; n < control.compute; ++n) {
    const NodeControl& node = control.nodes[n];
    if (!node.runnable || node.clock >= earliest) continue;
    earliest = node.clock;
    first = n;
  }
  return first;
}

// At this clock the node must let another one run.
inline std::int64_t end_of_run(const Control& control, unsigned node) {
  std::int64_t end = control.until;
  for (unsigned n = 0; n < control.compute; ++n) {
    const NodeControl& other = control.nodes[n];
    if (n == node || !other.runnable) continue;
    end = std::min(end, other.clock + control.quantum - (node < n ? 0 : 1));
  }
  return end;
}

}  // namespace braid::sim
