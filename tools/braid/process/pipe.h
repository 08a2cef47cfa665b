// A pipe whose ends are closed by their owners.
#pragma once

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// Both ends close at exec. Error: the process has no free descriptor.
Result<Pipe> make_pipe();

}  // namespace braid::cli
