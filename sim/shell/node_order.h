// Which compute node of a cluster runs, and until when: the runnable node with the earliest clock (at equal
// clocks the one with the lowest number), until it is a quantum ahead of the next or at the end of the
// window.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/shell/control.h"

namespace braid::sim {

// The next node to run; Control::kNobody: every runnable node has reached the end of the window.
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

// The clock at which the node must stop for another one, or for the end of the window.
inline std::int64_t end_of_run(const Control& control, unsigned node) {
  std::int64_t end = control.until;
  for (unsigned n = 0; n < control.compute; ++n) {
    const NodeControl& other = control.nodes[n];
    if (n == node || !other.runnable) continue;
    end = std::min(end, other.clock + control.quantum - (node < n ? 0 : 1));
  }
  return end;
}

// No other node of the cluster that can run comes before `node`, which runs.
inline bool is_first(const Control& control, unsigned node) {
  for (unsigned n = 0; n < control.compute; ++n) {
    const NodeControl& other = control.nodes[n];
    if (n == node || !other.runnable) continue;
    if (other.clock < control.nodes[node].clock || (n < node && other.clock == control.nodes[node].clock))
      return false;
  }
  return true;
}

}  // namespace braid::sim
