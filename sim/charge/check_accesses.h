// Inserts a check before each access that may be of shared memory, and makes the access where the check says
// (access_rights.h). What is left as it is (library functions other than mem*(), accesses of more than a KiB) faults
// where it is not open, and is served as a whole.
//
// Part of the compiler plug-in.
#pragma once

#include "sim/charge/gcc.h"

namespace braid::charge {

// After the charges of the function's statements are in it. Each part between calls is charged for its checks.
void check_accesses(function* f);

}  // namespace braid::charge
