#include "dsm/program/heap.h"

#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/system_error.h"
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

// Functions within functions of GCC's C have code on the stacks of their callers, which may be in the heap. The linker marks a
// program with such functions; the program file is the first that is listed.
int execution_bits() {
  static const int bits = [] {
    int found = 0;
    ::dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* result) {
          for (int i = 0; i < info->dlpi_phnum; ++i)
            if (info->dlpi_phdr[i].p_type == PT_GNU_STACK && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
              *static_cast<int*>(result) = PROT_EXEC;
          return 1;
        },
        &found);
    return found;
  }();
  return bits;
}

}  // namespace

Error heap_mapping_failed(std::size_t bytes, int error_number, const char* setting) {
  return error("cannot map the shared heap of {} MiB: {}; a smaller {} may fit", bytes >> 20,
               cause_and_cure(error_number), setting);
}

Result<std::byte*> map_heap_addresses(const HeapMapping& m) {
  void* const wanted = reinterpret_cast<void*>(kHeapAddress);  // NOLINT
  const int execution = execution_bits();  // also for protection_bits(), which must not look for it
  const int protection = m.protection == PROT_NONE ? PROT_NONE : m.protection | execution;
  void* const view = ::mmap(wanted, m.bytes, protection, m.flags | MAP_FIXED_NOREPLACE, m.file,
                            static_cast<off_t>(m.offset));
  if (view == wanted) return static_cast<std::byte*>(view);
  if (view == MAP_FAILED && errno != EEXIST) return heap_mapping_failed(m.bytes, errno, m.setting);
  // A kernel before 4.17 treats the address as a hint.
  if (view != MAP_FAILED) ::munmap(view, m.bytes);
  return error(
      "the shared heap's address {:#x} is taken in this process: braid::dsm::init() may have been "
      "called twice, or a library maps memory there (see /proc/self/maps)",
      kHeapAddress);
}

int protection_bits(Access access) {
  switch (access) {
    case Access::kNone:
      return PROT_NONE;
    case Access::kRead:
      return PROT_READ | execution_bits();
    case Access::kWrite:
      return PROT_READ | PROT_WRITE | execution_bits();
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
