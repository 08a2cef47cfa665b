// The engine's numbers of locks, conditions and so on that programs name by addresses of shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "dsm/api.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// The numbers below these are those of dsm/api.h, and the runtime's own locks.
inline constexpr std::uint32_t kNumberedLocks = kLocks + 2;

// EngineConfig::addresses for a heap of so many pages: of a very large one (16 GiB) only the beginning has objects.
constexpr std::uint32_t addresses_of(std::uint32_t heap_pages) {
  constexpr std::uint64_t kMost = 0xffff'ffffu - 0x1'0000u;
  return static_cast<std::uint32_t>(std::min(std::uint64_t{heap_pages} * kAddressesPerPage, kMost));
}

// The number of the object at `address`. Ends the program with a message that names the call if there can be none: not shared
// memory, or not a multiple of kAddressBytes.
std::uint32_t object_id(const char* call, const void* address, std::uint32_t numbered,
                        std::uint32_t heap_pages);

// Where a lock is that the program names by its address; 0: it has a number.
std::uintptr_t address_of_lock(LockId lock);

// For messages: "lock 5", "the lock at 0x7e9000000010".
std::string name_of_lock(LockId lock);
std::string name_of_condition(std::uint32_t condition);

}  // namespace braid::dsm
