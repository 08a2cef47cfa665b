#include "dsm/live/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "dsm/live/failure.h"

namespace braid::dsm {

namespace {

int protection(Access access) {
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

// vm.max_map_count in decimal digits; reads without allocating, because protect() may run inside a fault.
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

[[noreturn]] void protect_failed(int error_number, PageId first, std::uint32_t count) {
  if (error_number == ENOMEM) {
    const MappingLimit limit;
    fail(
        "the shared heap needs more regions of different access than the kernel allows a process "
        "(vm.max_map_count = {}): raise it with `sysctl -w vm.max_map_count=1048576`",
        static_cast<const char*>(limit.digits));
  }
  fail("mprotect of {} pages of the shared heap from page {} on failed: error {}", count, first.value(),
       error_number);
}

}  // namespace

Result<Memory> Memory::make(std::uint32_t pages) {
  CHECK_GT(pages, 0u);
  const std::size_t bytes = std::size_t{pages} * kPageBytes;
  const int fd = ::memfd_create("braid-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return error("cannot make the shared heap's memory: {}", std::strerror(errno));
  // Sealed: nobody can cut the file under the mappings, which would turn an access into SIGBUS.
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error_number = errno;
    ::close(fd);
    return error("cannot give the shared heap {} MiB: {}", bytes >> 20, std::strerror(error_number));
  }
  void* const alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (alias == MAP_FAILED) {
    const int error_number = errno;
    ::close(fd);
    return error("cannot map the shared heap of {} MiB: {}; a smaller BRAID_HEAP_MIB may fit", bytes >> 20,
                 std::strerror(error_number));
  }
  void* const wanted = reinterpret_cast<void*>(kHeapAddress);  // NOLINT
  void* const view = ::mmap(wanted, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
  const int error_number = errno;
  ::close(fd);
  if (view != wanted) {
    // A kernel before 4.17 takes the address as a hint.
    if (view != MAP_FAILED) ::munmap(view, bytes);
    ::munmap(alias, bytes);
    if (view == MAP_FAILED && error_number != EEXIST) {
      return error("cannot map the shared heap of {} MiB at {:#x}: {}; a smaller BRAID_HEAP_MIB may fit",
                   bytes >> 20, kHeapAddress, std::strerror(error_number));
    }
    return error(
        "the shared heap's address {:#x} is taken in this process: braid::dsm::init() may have been "
        "called twice, or a library maps memory there (see /proc/self/maps)",
        kHeapAddress);
  }
  return Memory(static_cast<std::byte*>(alias), pages);
}

Memory::Memory(Memory&& other) noexcept
    : alias_(std::exchange(other.alias_, nullptr)), pages_(std::exchange(other.pages_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(alias_, other.alias_);
  std::swap(pages_, other.pages_);
  return *this;
}

Memory::~Memory() {
  if (alias_ == nullptr) return;
  ::munmap(application_address(PageId(0)), std::size_t{pages_} * kPageBytes);
  ::munmap(alias_, std::size_t{pages_} * kPageBytes);
}

void Memory::protect(PageId first, std::uint32_t count, Access access) {
  CHECK(inside(first.value(), count, pages_));
  if (count == 0) return;
  if (::mprotect(application_address(first), std::size_t{count} * kPageBytes, protection(access)) != 0)
    protect_failed(errno, first, count);
}

}  // namespace braid::dsm
