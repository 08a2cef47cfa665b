// What access checks read: for each KiB of the address space whether it is shared memory, and whether it is open for reading and for
// writing. The compiler plug-in (check_accesses.cpp) inserts a check before each access of a checked program, and the access then goes
// through the alias: a second mapping of shared memory, in which everything is open. The program's own view is open only where the
// kernel can tell that every byte of its pages is (sim/shell/mappings.h), so that code without checks faults.
//
//   address ── >> 10 ──► a distance, of reads or of writes, that is subtracted from the address
//                          kPrivate: the access is made where it is
//                          kOpen:    it is made at the alias
//                          kClosed:  more than any address, so the subtraction borrows: the handler opens it (budget.h), and the check
//                                    begins again
//
// Numbers only: the plug-in includes it too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::charge {

inline constexpr unsigned kCheckedShift = 10;
inline constexpr std::size_t kCheckedBytes = std::size_t{1} << kCheckedShift;
inline constexpr unsigned kAddressBits = 47;

using Distance = std::uint64_t;
inline constexpr Distance kPrivate = 0;
inline constexpr Distance kOpen = Distance{1} << 46;
inline constexpr Distance kClosed = ~Distance{0};

// Each table has a TiB of addresses, of which little is used. That of reads is a displacement in an instruction, which is less than
// 2 GiB; that of writes is where the segment register gs points, which nothing else uses.
inline constexpr std::size_t kTableBytes = sizeof(Distance) << (kAddressBits - kCheckedShift);
inline constexpr std::uintptr_t kReadTable = 0x7000'0000;
inline constexpr std::uintptr_t kWriteTable = 0x200'0000'0000;
static_assert(kReadTable + kTableBytes <= kWriteTable);

// Of the KiB that has this address. Only in a program with checks (braid_has_access_checks).
inline Distance* distance_of(std::uintptr_t address, bool write) {
  return reinterpret_cast<Distance*>(write ? kWriteTable : kReadTable) +
         (address >> kCheckedShift);  // NOLINT
}

}  // namespace braid::charge
