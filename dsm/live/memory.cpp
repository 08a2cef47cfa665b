#include "dsm/live/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/memory_file.h"
#include "base/system_error.h"
#include "dsm/live/environment.h"
#include "dsm/live/own_descriptors.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

constexpr std::uint32_t kRevealedAtOnce = 16;

[[noreturn]] void view_failed(int error_number, PageId first, std::uint32_t count) {
  char other_way[160] = {};
  format_within(other_way, sizeof other_way - 1,
                ", or take {}=userfaultfd, which has no such limit, where the kernel has it (Linux 6.4)",
                fmt::make_format_args(variable::kProtection));
  mprotect_failed(error_number, first, count, other_way);
}

// ---------------------------------------------------------------- userfaultfd

// Linux 6.4; Debian 12's headers are of 6.1.
constexpr std::uint64_t kContinueWriteProtected = 1u << 1;
constexpr std::uint64_t kNeeded =
    UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MINOR_SHMEM | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;

// Returns a descriptor by which forbidden accesses of this process, but not of the kernel
// on its behalf, raise SIGBUS in the thread that makes them; or the negative error.
int open_userfaultfd() {
  const auto fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) return -errno;
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = kNeeded;
  if (::ioctl(fd, UFFDIO_API, &api) == 0) return fd;
  const int error_number = errno;
  ::close(fd);
  return -error_number;
}

[[noreturn]] void userfaultfd_failed(const char* what, int error_number, std::uint32_t first,
                                     std::uint32_t count) {
  if (error_number == EBADF) fail_for_closed_descriptor("which forbids accesses to shared memory");
  fail("{} of {} pages of the shared heap from page {} on failed: error {}; {}=mprotect avoids userfaultfd",
       what, count, first, error_number, variable::kProtection);
}

uffdio_range range_of(std::uint32_t first, std::uint32_t count) {
  uffdio_range range = {};
  range.start = kHeapAddress + std::uintptr_t{first} * kPageBytes;
  range.len = std::uint64_t{count} * kPageBytes;
  return range;
}

}  // namespace

const char* to_string(Protection protection) {
  switch (protection) {
    case Protection::kMprotect:
      return "mprotect";
    case Protection::kUserfaultfd:
      return "userfaultfd";
  }
  return "?";
}

Result<Memory> Memory::make(std::uint32_t pages, Protection protection) {
  CHECK_GT(pages, 0u);
  const std::size_t bytes = std::size_t{pages} * kPageBytes;
  // Sealed: truncation of the file under the mappings would turn an access into SIGBUS.
  const Result<int> file =
      make_memory_file("braid-heap", bytes, MemoryFile::kSparse, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (!file) return error("{}; a smaller {} may fit", file.error().text, variable::kHeapMib);
  const int fd = *file;
  void* const alias = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (alias == MAP_FAILED) {
    const int error_number = errno;
    ::close(fd);
    return heap_mapping_failed(bytes, error_number, variable::kHeapMib);
  }
  const int view_protection = protection == Protection::kMprotect ? PROT_NONE : PROT_READ | PROT_WRITE;
  const Result<std::byte*> view = map_heap_addresses({.bytes = bytes,
                                                      .protection = view_protection,
                                                      .flags = MAP_SHARED,
                                                      .file = fd,
                                                      .setting = variable::kHeapMib});
  ::close(fd);
  if (!view) {
    ::munmap(alias, bytes);
    return view.error();
  }
  Memory memory(static_cast<std::byte*>(alias), pages);
  // Not inherited by children of fork(), which are not part of the page protocol: a child's writes would be
  // this cluster's, unnoticed, and it could read pages without contents (userfaultfd does not follow it).
  for (void* const mapping : {static_cast<void*>(*view), alias}) {
    if (::madvise(mapping, bytes, MADV_DONTFORK) != 0)
      return error("cannot keep the shared heap from children of fork(): {}", std::strerror(errno));
  }
  if (protection == Protection::kUserfaultfd) {
    if (const Result<void> used = memory.use_userfaultfd(); !used) return used.error();
  }
  return memory;
}

// The view is registered for everything that can be forbidden: pages that the file does not have yet
// (missing), pages that the file has and the view does not map (minor), and writes to mapped pages.
Result<void> Memory::use_userfaultfd() {
  const int fd = open_userfaultfd();
  if (fd < 0) {
    return error(
        "this kernel does not give us userfaultfd with SIGBUS, minor faults and write protection of shared "
        "memory ({}): Linux 6.4 does",
        std::strerror(-fd));
  }
  userfaultfd_ = fd;
  uffdio_register registration = {};
  registration.range = range_of(0, pages_);
  registration.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(fd, UFFDIO_REGISTER, &registration) != 0)
    return error("userfaultfd does not take the shared heap: {}", cause_and_cure(errno));
  views_ = ZeroedTable<View>(pages_);
  // Mapping a page without write permission is the latest of the features: test it.
  *const_cast<volatile std::byte*>(alias_) = std::byte{0};
  uffdio_continue show = {};
  show.range = range_of(0, 1);
  show.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | kContinueWriteProtected;
  if (::ioctl(fd, UFFDIO_CONTINUE, &show) != 0)
    return error("userfaultfd cannot show a page without write permission ({}): Linux 6.4 can",
                 std::strerror(errno));
  views_[0] = View::kRead;
  protect(PageId(0), 1, Access::kNone);
  return {};
}

Memory::Memory(Memory&& other) noexcept
    : alias_(std::exchange(other.alias_, nullptr)),
      pages_(std::exchange(other.pages_, 0)),
      userfaultfd_(std::exchange(other.userfaultfd_, -1)),
      views_(std::move(other.views_)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(alias_, other.alias_);
  std::swap(pages_, other.pages_);
  std::swap(userfaultfd_, other.userfaultfd_);
  std::swap(views_, other.views_);
  return *this;
}

Memory::~Memory() {
  if (alias_ == nullptr) return;
  ::munmap(application_address(PageId(0)), std::size_t{pages_} * kPageBytes);
  ::munmap(alias_, std::size_t{pages_} * kPageBytes);
  if (userfaultfd_ >= 0) ::close(userfaultfd_);
}

void Memory::warm(PageId page) {
  std::byte* const first = this->page(page);
  // A write, because a read would map a page of zeros;
  // atomic, so that another thread's write is not lost.
  asm volatile("lock; orb $0, %0" : "+m"(*first));
  constexpr std::size_t kCacheLine = 64;
  for (std::size_t at = kCacheLine; at < kPageBytes; at += kCacheLine) __builtin_prefetch(first + at, 1);
}

Access Memory::access_of(View view) {
  switch (view) {
    case View::kNone:
      return Access::kNone;
    case View::kRead:
    case View::kHiddenRead:
      return Access::kRead;
    case View::kWrite:
    case View::kHiddenWrite:
      return Access::kWrite;
  }
  return Access::kNone;
}

void Memory::protect(PageId first, std::uint32_t count, Access access) {
  change(first, count, access, [](View from, View to, View hidden_to) {
    // A page that nobody has touched stays hidden unless somebody is allowed more: that node touches it now.
    return hidden(from) && access_of(to) <= access_of(from) ? hidden_to : to;
  });
}

void Memory::protect_later(PageId first, std::uint32_t count, Access access) {
  change(first, count, access, [](View from, View to, View hidden_to) {
    return from == View::kNone || hidden(from) ? hidden_to : to;
  });
}

// next(from, to, hidden_to): which of both a page that is `from` becomes.
template <class Next>
void Memory::change(PageId first, std::uint32_t count, Access access, Next&& next) {
  CHECK(inside(first.value(), count, pages_));
  if (count == 0) return;
  if (userfaultfd_ < 0) {
    if (::mprotect(application_address(first), std::size_t{count} * kPageBytes, protection_bits(access)) != 0)
      view_failed(errno, first, count);
    return;
  }
  const View to = access == Access::kNone   ? View::kNone
                  : access == Access::kRead ? View::kRead
                                            : View::kWrite;
  const View hidden_to = access == Access::kNone   ? View::kNone
                         : access == Access::kRead ? View::kHiddenRead
                                                   : View::kHiddenWrite;
  const std::uint32_t end = first.value() + count;
  for (std::uint32_t run = first.value(); run < end;) {
    const View from = views_[run];
    std::uint32_t after = run + 1;
    while (after < end && views_[after] == from) ++after;
    change_run(run, after - run, from, next(from, to, hidden_to));
    run = after;
  }
}

void Memory::change_run(std::uint32_t first, std::uint32_t count, View from, View to) {
  if (from == to) return;
  const bool shown = from == View::kRead || from == View::kWrite;
  if (to == View::kNone) {
    if (shown) forget(first, count);
  } else if (!hidden(to)) {
    if (!shown) return show(first, count, to);
    // No thread waits for a wake-up: a fault raises a signal.
    uffdio_writeprotect change = {};
    change.range = range_of(first, count);
    change.mode = to == View::kRead ? UFFDIO_WRITEPROTECT_MODE_WP : UFFDIO_WRITEPROTECT_MODE_DONTWAKE;
    if (::ioctl(userfaultfd_, UFFDIO_WRITEPROTECT, &change) != 0)
      userfaultfd_failed("UFFDIO_WRITEPROTECT", errno, first, count);
  }
  for (std::uint32_t p = first; p < first + count; ++p) views_[p] = to;
}

// The view forgets where the pages are; the file keeps them.
void Memory::forget(std::uint32_t first, std::uint32_t count) {
  if (::madvise(application_address(PageId(first)), std::size_t{count} * kPageBytes, MADV_DONTNEED) != 0)
    userfaultfd_failed("madvise", errno, first, count);
}

void Memory::show(std::uint32_t first, std::uint32_t count, View to) {
  // Reading a page allocates it in the file; the view can only map pages that the file has.
  for (std::uint32_t p = first; p < first + count; ++p)
    (void)*static_cast<volatile std::byte*>(page(PageId(p)));
  uffdio_continue show = {};
  show.range = range_of(first, count);
  show.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | (to == View::kRead ? kContinueWriteProtected : 0);
  if (::ioctl(userfaultfd_, UFFDIO_CONTINUE, &show) != 0)
    userfaultfd_failed("UFFDIO_CONTINUE", errno, first, count);
  for (std::uint32_t p = first; p < first + count; ++p) views_[p] = to;
}

bool Memory::reveal(PageId page, bool write) {
  if (userfaultfd_ < 0) return false;
  const std::uint32_t first = page.value();
  const View from = views_[first];
  if (!hidden(from) || (write && from != View::kHiddenWrite)) return false;
  const View to = from == View::kHiddenRead ? View::kRead : View::kWrite;
  // A fault takes some 3 us, so pages that are used one after the other are shown several at a time.
  const bool is_next = first > 0 && views_[first - 1] == to;
  const std::uint32_t end = std::min(pages_, first + (is_next ? kRevealedAtOnce : 1));
  std::uint32_t after = first + 1;
  while (after < end && views_[after] == from) ++after;
  show(first, after - first, to);
  return true;
}

}  // namespace braid::dsm
