// The shell's side of the baton (sim/shell/control.h).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "sim/shell/control.h"

namespace braid::sim {

class Baton {
 public:
  // `control` outlives this. `engine`: the engine's process, which is the parent of this one.
  Baton(Control& control, pid_t engine) : control_(control), engine_(engine) {}

  // Gives the baton away and returns when it is back. `asking`: the node that makes a request, which the engine gets;
  // Control::kNobody: every runnable node has reached the end of the window, and Control::next tells who gets it.
  void give(std::uint32_t asking);
  // Returns when this shell gets the baton. Ends the process when the run is over or the engine has died.
  void await();

 private:
  Control& control_;
  const pid_t engine_;
};

}  // namespace braid::sim
