#include "dsm/program/heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

// Returns vm.max_map_count in decimal digits. Reads without
// allocating, because protections may change inside a fault.
struct MappingLimit {
  char digits[24] = "unknown";
  MappingLimit() {
    const int fd = ::open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t n = ::read(fd, digits, sizeof digits - 1);
    ::close(fd);
    if (n <= 0) return;
    digits[n] = '\0';
    if (char* const newline = std::strchr(digits, '\n')) *newline = '\0';
  }
};

}  // namespace

int protection_bits(Access access) {
  switch (access) {
    case Access::kNone:
      return PROT_NONE;
    case Access::kRead:
      return PROT_READ;
    case Access::kWrite:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

void mprotect_failed(int error_number, PageId first, std::uint32_t count, const char* other_way) {
  if (error_number == ENOMEM) {
    const MappingLimit limit;
    fail(
        "the shared heap needs more regions of different access than the kernel allows a process "
        "(vm.max_map_count = {}): raise it with `sysctl -w vm.max_map_count=1048576`{}",
        static_cast<const char*>(limit.digits), other_way);
  }
  fail("mprotect of {} pages of the shared heap from page {} on failed: error {}", count, first.value(),
       error_number);
}

}  // namespace braid::dsm
