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
inline constexpr std::uint32_t kMostAddresses = 0xffff'ffffu - 0x1'0000u;
constexpr std::uint32_t addresses_of(std::uint32_t heap_pages, PageLength length) {
  return static_cast<std::uint32_t>(
      std::min(std::uint64_t{heap_pages} * addresses_per_page(length), std::uint64_t{kMostAddresses}));
}

// The places of objects at addresses, behind the numbered ones: those of the heap's one range, and behind them those of the
// program's globals where these are shared (heap.h).
std::uint32_t first_place_of_globals(std::uint32_t heap_pages);
// Whether an object may have this address: a multiple of kAddressBytes in shared memory, as far as that is known before the
// machine has a size.
bool can_name_object(const void* address);

// The number of the object at `address`. Ends the program with a message that names the call if there can be none: not shared
// memory, or not a multiple of kAddressBytes.
std::uint32_t object_id(const char* call, const void* address, std::uint32_t numbered,
                        std::uint32_t heap_pages);

// What the runtime uses locks for that are its own, for messages and reports.
struct OwnLocks {
  std::uint32_t first = 0;  // their numbers
  std::uint32_t count = 0;
  const char* what = "";  // they guard, "thread-specific keys"
  const char* cure = "";  // what a program can do that waits for them, as an imperative sentence
};
// A runtime on top of the machine's locks (PARMACS, pthreads) names its own. A few times, before the machine starts; the
// texts live as long as the process.
void name_own_locks(const OwnLocks& own);
// nullptr: the lock is the program's.
const OwnLocks* own_locks(LockId lock);

// Where an object is that the program names by its address; 0: it has a number, as `numbered` of its kind have.
std::uintptr_t address_of_object(std::uint32_t id, std::uint32_t numbered);
std::uintptr_t address_of_lock(LockId lock);

// For messages: "lock 5", "the lock at 0x7e9000000010", "the runtime's lock of thread-specific keys".
std::string name_of_lock(LockId lock);
std::string name_of_condition(std::uint32_t condition);
// Of any other kind: "flag 5", of which `numbered` have numbers.
std::string name_of_object(const char* kind, std::uint32_t id, std::uint32_t numbered);

}  // namespace braid::dsm
