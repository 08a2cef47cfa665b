// A pipe whose ends close with their owners.
#pragma once

#include "base/result.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// Both ends close at exec. The error is of a process that has no descriptor left.
Result<Pipe> make_pipe();

}  // namespace braid::cli
