// The calls of the C library that are interposed, so that the kernel can be given shared memory in them:
//
//   system_calls.cpp              bytes that come and leave
//   system_calls_descriptors.cpp  descriptors: waiting, sockets, ioctl()
//   system_calls_open.cpp         descriptors that are open in another cluster, without memory
//   system_calls_names.cpp        names of files, and what is known about them
//   system_calls_processes.cpp    processes, time, signals, limits
//   system_calls_refused.cpp      those that would change the heap's mappings
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid::dsm {

// From now on memory of the shared heap, which has so many pages, goes through private memory in these calls. Links them to
// the program, and finds the C library's own before any signal handler needs them.
void begin_sharing(std::uint32_t pages);
// The heap's addresses are memory like any other again.
void end_sharing();

// The names of the interposed calls, those of _FORTIFY_SOURCE among them.
std::vector<const char*> interposed_calls();

// For the runtime: mprotect() and madvise() of shared memory, which are refused to the program.
int protect_shared(void* memory, std::size_t bytes, int protection);
int advise_shared(void* memory, std::size_t bytes, int advice);

}  // namespace braid::dsm
