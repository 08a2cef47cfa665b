// The thread-local variables (__thread, thread_local) of a program. In simulation the compute nodes of a cluster take
// turns on one thread, so they share what such a program expects each to have.
#pragma once

#include <string>
#include <vector>

namespace braid::cli {

// The names of those that the program file defines, without those of Braid's runtime, in alphabetical order. None where each
// compute node has its own (dsm/pthreads), the file is stripped of its symbols, or is no ELF file. Variables of shared libraries are not looked at.
std::vector<std::string> thread_variables(const std::string& program);

}  // namespace braid::cli
