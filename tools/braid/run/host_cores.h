// The cores of a host file, on their host: which of them a run can use, and this process confined to them with all that it starts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace braid::cli {

struct HostCores {
  std::vector<unsigned> usable;   // of those that were named
  std::vector<unsigned> refused;  // named, and there, but not in the process's mask
};

// `named`: of the host file, not empty. `mask`: those that this process may use; `online`: those that the host has, empty:
// unknown. All ascending. An error names what is not there, or says that none can be used.
Result<HostCores> usable_cores_of(std::span<const unsigned> named, std::span<const unsigned> mask,
                                  std::span<const unsigned> online);

// Confines this thread, and what it starts, to those of `named` that it may use; empty: does nothing. Returns a warning that names
// the others; empty: there are none.
Result<std::string> keep_to_cores(std::span<const unsigned> named);

// A line for `braid run --show-plan`; empty: none are named.
Result<std::string> describe_cores(std::span<const unsigned> named);

}  // namespace braid::cli
