// The places in the program that allocated shared memory, for the report of what its pages cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace braid::dsm {

// Remembers that the calling function, or one that called it, has allocated these bytes. At most 65,536 allocations are
// remembered. Of two at one address the first counts: memory that the program had before the clusters started is
// allocated from the heap as a whole later. Any thread.
void note_allocation(const void* memory, std::size_t bytes);

struct AllocationSite {
  std::string place;         // "solve(int) at solve.cpp:12"; empty: not known
  std::uintptr_t first = 0;  // of the allocation
  std::size_t bytes = 0;
};
// The allocation that has the byte at `address`; all empty if there is none, or it is not remembered. Any thread.
AllocationSite allocation_site(std::uintptr_t address);

}  // namespace braid::dsm
