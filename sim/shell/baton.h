// A shell's side of the baton: it has it, or it waits for it (sim/shell/control.h).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "sim/shell/control.h"

namespace braid::sim {

class Baton {
 public:
  // `control` outlives this. `engine`: the engine's process, the parent of this one.
  Baton(Control& control, pid_t engine) : control_(control), engine_(engine) {}

  // Gives it to the engine, and returns when it is back. `asking`: the node that asks for something;
  // Control::kNobody: all that can run have come to the window's end.
  void give(std::uint32_t asking);
  // Returns when the engine gives it. Ends the process instead when the run is over, or the engine has died.
  void await();

 private:
  Control& control_;
  const pid_t engine_;
};

}  // namespace braid::sim
