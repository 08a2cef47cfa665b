#include "dsm/live/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
#include "dsm/program/system_calls.h"

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
  range.start = reinterpret_cast<std::uintptr_t>(application_address(PageId(first)));
  range.len = page_length().bytes_of(count);
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

namespace {

int view_protection(Protection protection) {
  return protection == Protection::kMprotect ? PROT_NONE : PROT_READ | PROT_WRITE;
}

// Not inherited by children of fork(), which are not part of the page protocol: a child's writes would be this cluster's,
// unnoticed, and it could read pages without contents (userfaultfd does not follow it).
Result<void> keep_from_children(void* mapping, std::size_t bytes) {
  if (advise_shared(mapping, bytes, MADV_DONTFORK) == 0) return {};
  return error("cannot keep the shared heap from children of fork(): {}", std::strerror(errno));
}

}  // namespace

Result<Memory> Memory::make(std::uint32_t pages, Protection protection) {
  CHECK_GT(pages, globals_window().pages);
  const std::size_t bytes = page_length().bytes_of(pages);
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
  const std::size_t behind_globals = page_length().bytes_of(globals_window().pages);
  const Result<std::byte*> view = map_heap_addresses({.bytes = bytes - behind_globals,
                                                      .protection = view_protection(protection),
                                                      .flags = MAP_SHARED,
                                                      .file = fd,
                                                      .offset = behind_globals,
                                                      .setting = variable::kHeapMib});
  if (!view) {
    ::close(fd);
    ::munmap(alias, bytes);
    return view.error();
  }
  Memory memory(static_cast<std::byte*>(alias), pages);
  memory.keep_for_globals(fd);
  if (const Result<void> kept = keep_from_children(*view, bytes - behind_globals); !kept) return kept.error();
  if (const Result<void> kept = keep_from_children(alias, bytes); !kept) return kept.error();
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
  const std::uint32_t first = globals_window().pages;
  if (const Result<void> forbidden = forbid(PageId(first), pages_ - first); !forbidden)
    return forbidden.error();
  views_ = ZeroedTable<View>(pages_);
  // Mapping a page without write permission is the latest of the features: test it.
  for (std::size_t at = 0; at < page_length().bytes(); at += kHostPageBytes)
    *const_cast<volatile std::byte*>(page(PageId(first)) + at) = std::byte{0};
  uffdio_continue show = {};
  show.range = range_of(first, 1);
  show.mode = UFFDIO_CONTINUE_MODE_DONTWAKE | kContinueWriteProtected;
  if (::ioctl(fd, UFFDIO_CONTINUE, &show) != 0)
    return error("userfaultfd cannot show a page without write permission ({}): Linux 6.4 can",
                 std::strerror(errno));
  views_[first] = View::kRead;
  protect(PageId(first), 1, Access::kNone);
  return {};
}

Result<void> Memory::forbid(PageId first, std::uint32_t count) const {
  uffdio_register registration = {};
  registration.range = range_of(first.value(), count);
  registration.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_MINOR | UFFDIO_REGISTER_MODE_WP;
  if (::ioctl(userfaultfd_, UFFDIO_REGISTER, &registration) == 0) return {};
  return error("userfaultfd does not take the shared heap: {}", cause_and_cure(errno));
}

// --- The program's globals

bool Memory::File::is_open() const {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == number;
}

void Memory::keep_for_globals(int fd) {
  struct stat status {};
  closed_globals_ = globals_window().pages;
  if (closed_globals_ == 0 || ::fstat(fd, &status) != 0) {
    ::close(fd);
    return;
  }
  file_ = {fd, status.st_dev, status.st_ino};
  views_ = ZeroedTable<View>(closed_globals_);
}

Result<void> Memory::open_globals() {
  const std::uint32_t count = std::exchange(closed_globals_, 0);
  if (count == 0) return {};
  const std::size_t bytes = page_length().bytes_of(count);
  void* const place = application_address(PageId(0));
  const int access = view_protection(protection());
  if (!file_.is_open() || ::mmap(place, bytes, access, MAP_SHARED | MAP_FIXED, file_.fd, 0) != place)
    return error("cannot map the program's globals of {} MiB as shared memory: {}", bytes >> 20,
                 cause_and_cure(errno));
  if (const Result<void> kept = keep_from_children(place, bytes); !kept) return kept.error();
  if (protection() == Protection::kUserfaultfd) return forbid(PageId(0), count);  // all are hidden
  const ZeroedTable<View> noted = std::move(views_);
  for (std::uint32_t run = 0; run < count;) {
    const View view = noted[run];
    std::uint32_t after = run + 1;
    while (after < count && noted[after] == view) ++after;
    protect(PageId(run), after - run, access_of(view));
    run = after;
  }
  return {};
}

// Private, so that a child of fork() has a copy, as of all its globals.
void Memory::close_globals() {
  const std::size_t bytes = page_length().bytes_of(globals_window().pages);
  if (file_.fd < 0 || closed_globals_ > 0) return;
  void* const place = application_address(PageId(0));
  constexpr int kAccess = PROT_READ | PROT_WRITE;
  const bool is_private =
      file_.is_open() && ::mmap(place, bytes, kAccess, MAP_PRIVATE | MAP_FIXED, file_.fd, 0) == place;
  // The file is no other process's, so it serves as well where the program has closed the descriptor.
  if (!is_private && protect_shared(place, bytes, kAccess) != 0)
    fail("cannot make the program's globals private: {}", cause_and_cure(errno).c_str());
}

Memory::Memory(Memory&& other) noexcept
    : alias_(std::exchange(other.alias_, nullptr)),
      pages_(std::exchange(other.pages_, 0)),
      userfaultfd_(std::exchange(other.userfaultfd_, -1)),
      file_(std::exchange(other.file_, {})),
      closed_globals_(std::exchange(other.closed_globals_, 0)),
      views_(std::move(other.views_)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(alias_, other.alias_);
  std::swap(pages_, other.pages_);
  std::swap(userfaultfd_, other.userfaultfd_);
  std::swap(file_, other.file_);
  std::swap(closed_globals_, other.closed_globals_);
  std::swap(views_, other.views_);
  return *this;
}

Memory::~Memory() {
  if (alias_ == nullptr) return;
  const std::uint32_t globals = globals_window().pages;
  ::munmap(application_address(PageId(globals)), page_length().bytes_of(pages_ - globals));
  if (userfaultfd_ >= 0) ::close(userfaultfd_);
  close_globals();
  if (file_.is_open()) ::close(file_.fd);
  ::munmap(alias_, page_length().bytes_of(pages_));
}

void Memory::warm(PageId page) {
  std::byte* const first = this->page(page);
  constexpr std::size_t kCacheLine = 64;
  for (std::size_t part = 0; part < page_length().bytes(); part += kHostPageBytes) {
    std::byte* const begin = first + part;
    // A write, because a read would map a page of zeros;
    // atomic, so that another thread's write is not lost.
    asm volatile("lock; orb $0, %0" : "+m"(*begin));
    for (std::size_t at = kCacheLine; at < kHostPageBytes; at += kCacheLine)
      __builtin_prefetch(begin + at, 1);
  }
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
  // Ranges may go on from the globals into the rest of the heap, which is elsewhere.
  if (const std::uint32_t globals = globals_window().pages;
      first.value() < globals && first.value() + count > globals) {
    const std::uint32_t before = globals - first.value();
    change(first, before, access, next);
    return change(PageId(globals), count - before, access, next);
  }
  if (first.value() < closed_globals_) return note(first, count, access);
  if (userfaultfd_ < 0) {
    if (protect_shared(application_address(first), page_length().bytes_of(count), protection_bits(access)) !=
        0)
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

void Memory::note(PageId first, std::uint32_t count, Access access) {
  const View view = access == Access::kNone   ? View::kNone
                    : access == Access::kRead ? View::kHiddenRead
                                              : View::kHiddenWrite;
  for (std::uint32_t p = first.value(); p < first.value() + count; ++p) views_[p] = view;
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
  if (advise_shared(application_address(PageId(first)), page_length().bytes_of(count), MADV_DONTNEED) != 0)
    userfaultfd_failed("madvise", errno, first, count);
}

void Memory::show(std::uint32_t first, std::uint32_t count, View to) {
  // Reading a page allocates it in the file; the view can only map pages that the file has.
  const std::size_t bytes = page_length().bytes_of(count);
  for (std::size_t at = 0; at < bytes; at += kHostPageBytes)
    (void)*static_cast<volatile std::byte*>(page(PageId(first)) + at);
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
  const std::uint32_t globals = globals_window().pages;
  const std::uint32_t last = first < globals ? globals : pages_;
  const std::uint32_t end = std::min(last, first + (is_next ? kRevealedAtOnce : 1));
  std::uint32_t after = first + 1;
  while (after < end && views_[after] == from) ++after;
  show(first, after - first, to);
  return true;
}

}  // namespace braid::dsm
