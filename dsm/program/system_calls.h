// The calls of the C library that system_calls.cpp interposes, so that the kernel can be given shared memory in them.
#pragma once

namespace braid::dsm {

// Links the interposed calls to the program, and finds the C library's own before any signal handler needs them.
void prepare_system_calls();

}  // namespace braid::dsm
