// What checked code calls (check_accesses.cpp). Linked only into programs that have such code.
#include <asm/prctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sim/charge/access_rights.h"
#include "sim/charge/budget.h"

using braid::charge::distance_of;
using braid::charge::kCheckedBytes;
using braid::charge::kClosed;
using braid::charge::kPrivate;

// The address of a check that has found its access closed; checked code runs on one thread. For access_refused in budget_spent.S.
extern "C" std::uintptr_t braid_refused_address;
std::uintptr_t braid_refused_address = 0;

namespace {

[[noreturn]] void fail() {
  static constexpr char kText[] =
      "braid: cannot map the tables of access checks: 1 TiB of addresses from 0x70000000 on, and another from 0x20000000000 on, must be "
      "free, and the shell's limit of addresses (ulimit -v) not less\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(70);
}

// All that is not written is one page of zeros.
void map_table(std::uintptr_t address) {
  void* const wanted = reinterpret_cast<void*>(address);  // NOLINT
  void* const got = ::mmap(wanted, braid::charge::kTableBytes, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) fail();
  ::madvise(got, braid::charge::kTableBytes, MADV_DONTDUMP);
}

// Before the first constructor, which has checks. Threads of the program inherit the register.
void map_tables() {
  map_table(braid::charge::kReadTable);
  map_table(braid::charge::kWriteTable);
  if (::syscall(SYS_arch_prctl, ARCH_SET_GS, braid::charge::kWriteTable) != 0) fail();
  braid_has_access_checks = true;
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const map_tables_first)() = map_tables;

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// Returns whether it was open before: nothing else can have happened.
bool open(std::uintptr_t address, bool write) {
  if (*distance_of(address, write) != kClosed) return true;
  do braid::sim::call_access_handler(address, write);
  while (*distance_of(address, write) == kClosed);
  return false;
}

// Where the access to these bytes, of one KiB that is open, is made.
char* place(char* p) {
  return p - *distance_of(number(p), true);
}
const char* place(const char* p) {
  return p - *distance_of(number(p), false);
}

std::size_t to_boundary(const void* p) {
  return kCheckedBytes - (number(p) & (kCheckedBytes - 1));
}
// Bytes of the last KiB before `end`.
std::size_t from_boundary(const void* end) {
  return ((number(end) - 1) & (kCheckedBytes - 1)) + 1;
}

bool is_private(const void* p, std::size_t bytes) {
  return bytes == 0 || (*distance_of(number(p), false) == kPrivate &&
                        *distance_of(number(p) + bytes - 1, false) == kPrivate);
}

// Copies bytes that are of one KiB each: both are open at the same moment.
void copy_piece(char* to, const char* from, std::size_t bytes) {
  while (!open(number(from), false) || !open(number(to), true)) {
  }
  std::memmove(place(to), place(from), bytes);
}

}  // namespace

// NOLINTBEGIN: names for the plug-in and for assembly.
extern "C" {

void braid_call_read_handler() {
  braid::sim::call_access_handler(braid_refused_address, false);
}
void braid_call_write_handler() {
  braid::sim::call_access_handler(braid_refused_address, true);
}

// What to subtract from the addresses of a loop's access, which begins at `first` and moves by `extent` until its last iteration;
// kClosed: it differs, or is not worth looking for.
std::size_t braid_distance_of_loop(const void* first, std::ptrdiff_t extent, std::ptrdiff_t bytes,
                                   int write) {
  constexpr std::ptrdiff_t kMostBytes = 1 << 20;
  if (extent > kMostBytes || extent < -kMostBytes) return kClosed;
  const std::uintptr_t begin = number(first) + std::min<std::ptrdiff_t>(extent, 0);
  const std::uintptr_t last = number(first) + std::max<std::ptrdiff_t>(extent, 0) + bytes - 1;
  if (last < begin || last >> braid::charge::kAddressBits != 0) return kClosed;
  const braid::charge::Distance distance = *distance_of(begin, write != 0);
  for (std::uintptr_t at = begin + kCheckedBytes; at < last; at += kCheckedBytes)
    if (*distance_of(at, write != 0) != distance) return kClosed;
  return *distance_of(last, write != 0) == distance ? distance : kClosed;
}

void* braid_checked_memmove(void* to, const void* from, std::size_t bytes) {
  if (is_private(to, bytes) && is_private(from, bytes)) return std::memmove(to, from, bytes);
  auto* target = static_cast<char*>(to);
  const auto* source = static_cast<const char*>(from);
  if (number(to) - number(from) >= bytes) {
    while (bytes > 0) {
      const std::size_t now = std::min({bytes, to_boundary(target), to_boundary(source)});
      copy_piece(target, source, now);
      target += now, source += now, bytes -= now;
    }
    return to;
  }
  while (bytes > 0) {  // the target is behind the source and overlaps it
    const std::size_t now = std::min({bytes, from_boundary(target + bytes), from_boundary(source + bytes)});
    bytes -= now;
    copy_piece(target + bytes, source + bytes, now);
  }
  return to;
}

void* braid_checked_memcpy(void* to, const void* from, std::size_t bytes) {
  return braid_checked_memmove(to, from, bytes);
}

void* braid_checked_memset(void* to, int byte, std::size_t bytes) {
  if (is_private(to, bytes)) return std::memset(to, byte, bytes);
  for (auto* p = static_cast<char*>(to); bytes > 0;) {
    const std::size_t now = std::min(bytes, to_boundary(p));
    (void)open(number(p), true);
    std::memset(place(p), byte, now);
    p += now, bytes -= now;
  }
  return to;
}

int braid_checked_memcmp(const void* left, const void* right, std::size_t bytes) {
  if (is_private(left, bytes) && is_private(right, bytes)) return std::memcmp(left, right, bytes);
  const auto* a = static_cast<const char*>(left);
  const auto* b = static_cast<const char*>(right);
  while (bytes > 0) {
    const std::size_t now = std::min({bytes, to_boundary(a), to_boundary(b)});
    while (!open(number(a), false) || !open(number(b), false)) {
    }
    if (const int difference = std::memcmp(place(a), place(b), now); difference != 0) return difference;
    a += now, b += now, bytes -= now;
  }
  return 0;
}

}  // extern "C"
// NOLINTEND
