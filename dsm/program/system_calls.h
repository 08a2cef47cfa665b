// The calls of the C library that system_calls.cpp interposes, so that the kernel can be given shared memory in them.
#pragma once

#include <cstdint>

namespace braid::dsm {

// From now on memory of the shared heap, which has so many pages, goes through private memory in these calls. Links them to
// the program, and finds the C library's own before any signal handler needs them.
void begin_sharing(std::uint32_t pages);
// The heap's addresses are memory like any other again.
void end_sharing();

}  // namespace braid::dsm
