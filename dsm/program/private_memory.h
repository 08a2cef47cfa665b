// Why an access to private memory can fail: the address is another cluster's. Memory that is not shared has, in programs
// whose main() runs once, the same addresses in all clusters, and other contents; so a pointer to it is good in one of them.
//
// For handlers of signals: memory is on the stack, and only system calls are made.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::dsm {

// A process of another cluster of this run, on this host, has private memory at `address`, and may access it.
bool is_private_elsewhere(std::uintptr_t address);

// The shared library whose code has the instruction at `address`: "libz.so.1". Empty: there is none, or it is the C or C++
// library, or another one that belongs to the compiler.
struct LibraryName {
  char text[64] = {};
};
LibraryName library_of_code(std::uintptr_t address);

}  // namespace braid::dsm
