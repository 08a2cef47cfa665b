#include "sim/shell/mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/program/failure.h"
#include "dsm/program/faults.h"
#include "dsm/program/heap.h"
#include "dsm/program/system_calls.h"
#include "sim/charge/access_rights.h"
#include "sim/charge/budget.h"
#include "sim/shell/own_threads.h"

namespace braid::sim {

namespace {

constexpr const char* kCure = kNeedsSimulator;

constexpr const char* kHeapSetting = "--heap-mib";

std::size_t globals_bytes() {
  return dsm::page_length().bytes_of(dsm::globals_window().pages);
}

// The number in a variable's text; nullopt: it is none.
std::optional<int> number_in(const char* text) {
  int number = -1;
  const char* const end = text + std::strlen(text);
  const std::from_chars_result parsed = std::from_chars(text, end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(number) : std::nullopt;
}

// The open descriptor that variable `name` names, of a file of at least `least_bytes`.
Result<int> read_descriptor(const Lookup& lookup, const char* name, std::size_t least_bytes) {
  const char* const text = lookup(name);
  if (text == nullptr) return error("{} is not set: {}", name, kCure);
  const std::optional<int> fd = number_in(text);
  struct stat status = {};
  if (!fd || ::fstat(*fd, &status) != 0)
    return error("{} is '{}', which is not an open descriptor: {}", name, text, kCure);
  if (static_cast<std::size_t>(status.st_size) < least_bytes)
    return error("{} is '{}', of {} bytes where {} are needed: program and simulator are of different builds",
                 name, text, status.st_size, least_bytes);
  return *fd;
}

// A part of the file with the Controls.
Result<void*> map_shared(int fd, std::size_t offset, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                              static_cast<off_t>(offset));
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kControlFd, fd, cause_and_cure(errno));
  return memory;
}

Result<unsigned> read_cluster(const Lookup& lookup) {
  const char* const text = lookup(variable::kCluster);
  if (text == nullptr) return 0;
  const std::optional<int> number = number_in(text);
  if (!number || *number < 0)
    return error("{} is '{}', which is no number of a cluster: {}", variable::kCluster, text, kCure);
  return static_cast<unsigned>(*number);
}

std::byte* alias_of(std::byte* heap) {
  return heap - charge::kOpen;
}

// What access checks read of the heap.
std::span<charge::Distance> distances(std::size_t heap_bytes, bool write) {
  return {charge::distance_of(dsm::kHeapAddress, write), heap_bytes / charge::kCheckedBytes};
}

// For a program with access checks: all is closed, and can be accessed at its alias.
Result<void> map_for_checks(std::byte* heap, const dsm::HeapMapping& view) {
  std::byte* const alias = alias_of(heap);
  if (::mmap(alias, view.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, view.file,
             static_cast<off_t>(view.offset)) != alias)
    return error("cannot map the shared heap a second time: {}", cause_and_cure(errno));
  if (dsm::advise_shared(alias, view.bytes, MADV_DONTFORK) != 0)
    return error("cannot keep the shared heap from children of fork(): {}", std::strerror(errno));
  for (const bool write : {false, true}) {
    const std::span<charge::Distance> all = distances(view.bytes, write);
    if (::mprotect(all.data(), round_up(all.size_bytes(), dsm::kHostPageBytes), PROT_READ | PROT_WRITE) != 0)
      return error("cannot make a table for access checks: {}", cause_and_cure(errno));
    std::fill(all.begin(), all.end(), charge::kClosed);
  }
  return {};
}

// What a program cannot have with pages of this length.
Result<void> fits_pages() {
  if (!is_shorter_than_hosts()) return {};
  constexpr const char* kOrLonger = "or take pages of 4096 bytes or more (--page-bytes)";
  if (dsm::globals_window().pages > 0 || has_own_threads)
    return error(
        "pages of {} bytes are shorter than the kernel's, and accesses of the program's own globals and stacks are not checked: "
        "build the program without --shared-globals and --pthreads, {}",
        dsm::page_length().bytes(), kOrLonger);
  if (!braid_has_access_checks)
    return error(
        "pages of {} bytes are shorter than the kernel's, and the program was built without access checks: build it with "
        "`braid-cc --check-accesses`, {}",
        dsm::page_length().bytes(), kOrLonger);
  return {};
}

// Returns the descriptor of the heaps.
Result<int> map_heap(const Lookup& lookup, unsigned cluster, std::uint32_t pages) {
  const std::size_t all = dsm::page_length().bytes_of(pages);
  if (dsm::globals_window().pages >= pages) dsm::fail_for_large_globals(all, kHeapSetting);
  const std::size_t globals = globals_bytes();
  const std::size_t bytes = all - globals;
  const std::size_t offset = heap_offset(cluster, all) + globals;
  const Result<int> fd = read_descriptor(lookup, variable::kHeapFd, offset + bytes);
  if (!fd) return fd.error();
  const dsm::HeapMapping mapping = {.bytes = bytes,
                                    .protection = PROT_NONE,
                                    .flags = MAP_SHARED,
                                    .file = *fd,
                                    .offset = offset,
                                    .setting = kHeapSetting};
  const Result<std::byte*> view = dsm::map_heap_addresses(mapping);
  if (!view) return view.error();
  if (braid_has_access_checks)
    if (const Result<void> mapped = map_for_checks(*view, mapping); !mapped) return mapped.error();
  // As live (dsm/live/memory.cpp): a child of fork() is not in the page protocol.
  if (dsm::advise_shared(*view, bytes, MADV_DONTFORK) != 0)
    return error("cannot keep the shared heap from children of fork(): {}", std::strerror(errno));
  ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
  return *fd;
}

}  // namespace

Result<Control*> map_control(const Lookup& lookup, std::optional<unsigned> cluster) {
  if (const Result<int> fd = read_descriptor(lookup, variable::kControlFd, 0); !fd) return fd.error();
  if (!cluster) {
    const Result<unsigned> named = read_cluster(lookup);
    if (!named) return named.error();
    cluster = *named;
  }
  const std::size_t offset = control_offset(*cluster);
  const Result<int> fd = read_descriptor(lookup, variable::kControlFd, offset + sizeof(Control));
  if (!fd) return fd.error();
  const Result<void*> own = map_shared(*fd, offset, sizeof(Control));
  if (!own) return own.error();
  const auto* const control = static_cast<Control*>(*own);
  const bool fits = control->version == kControlVersion && control->compute > 0 &&
                    control->compute <= kMaxComputeNodes && control->cluster == *cluster &&
                    control->cluster < control->clusters;
  const unsigned clusters = control->clusters;
  ::munmap(*own, sizeof(Control));
  if (!fits) return error("program and simulator are of different builds: build both again");
  const Result<void*> all = map_shared(*fd, 0, control_offset(clusters));
  if (!all) return all.error();
  return reinterpret_cast<Control*>(static_cast<std::byte*>(*all) + offset);  // NOLINT
}

void unmap_control(Control* control) {
  ::munmap(&control_of(*control, 0), control_offset(control->clusters));
}

Result<Mappings> Mappings::map(const Lookup& lookup) {
  const Result<Control*> control = map_control(lookup);
  if (!control) return control.error();
  if (const std::uint32_t bytes = (*control)->page_bytes; bytes != dsm::page_length().bytes()) {
    unmap_control(*control);
    return error(
        "pages of shared memory have {} bytes in the simulator and {} in the program: leave {} as `braid sim` sets it",
        bytes, dsm::page_length().bytes(), dsm::kPageBytesVariable);
  }
  if (const Result<void> fits = fits_pages(); !fits) {
    unmap_control(*control);
    return fits.error();
  }
  const Result<unsigned> cluster = read_cluster(lookup);
  const Result<int> heap = map_heap(lookup, *cluster, (*control)->heap_pages);
  if (!heap) {
    unmap_control(*control);
    return heap.error();
  }
  ::close(*read_descriptor(lookup, variable::kControlFd, 0));
  Mappings mappings(*control, *heap, (*control)->heap_bytes() - globals_bytes());
  if (const std::size_t bytes = globals_bytes(); bytes > 0) {
    mappings.fill(PageId(0), {static_cast<const std::byte*>(dsm::application_address(PageId(0))), bytes});
    if (const Result<void> mapped = mappings.map_globals(); !mapped) return mapped.error();
  }
  return mappings;
}

namespace {

// A part of the file at the globals' addresses, `at` bytes behind their beginning.
Result<void> map_over_globals(int fd, std::size_t part, std::size_t at, std::size_t bytes, int protection,
                              int flags) {
  std::byte* const place = static_cast<std::byte*>(dsm::application_address(PageId(0))) + at;
  if (::mmap(place, bytes, protection, flags | MAP_FIXED, fd, static_cast<off_t>(part + at)) == place)
    return {};
  return error("cannot map {} bytes of the program's globals: {}", bytes, cause_and_cure(errno));
}

}  // namespace

Result<void> Mappings::map_globals() const {
  const std::size_t bytes = globals_bytes();
  const std::size_t part = heap_offset(control_->cluster, control_->heap_bytes());
  const Result<void> mapped = map_over_globals(heap_fd_, part, 0, bytes, PROT_NONE, MAP_SHARED);
  if (!mapped) return mapped.error();
  if (dsm::advise_shared(dsm::application_address(PageId(0)), bytes, MADV_DONTFORK) != 0)
    return error("cannot keep the program's globals from children of fork(): {}", std::strerror(errno));
  return {};
}

// Pages that this cluster has never used are holes of its file, and still what they were at the beginning.
Result<void> Mappings::make_globals_private() const {
  const std::size_t bytes = globals_bytes();
  const std::size_t own = heap_offset(control_->cluster, control_->heap_bytes());
  const std::size_t beginning = heap_offset(control_->clusters, control_->heap_bytes());
  const auto next = [&](std::size_t at, int what) {
    const off_t found = ::lseek(heap_fd_, static_cast<off_t>(own + at), what);
    return found < 0 ? bytes : std::min(bytes, static_cast<std::size_t>(found) - own);
  };
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t hole = next(at, SEEK_HOLE);
    const std::size_t end = next(hole, SEEK_DATA);
    for (const auto& [part, from, to] : {std::tuple(own, at, hole), std::tuple(beginning, hole, end)}) {
      if (from == to) continue;
      const Result<void> mapped =
          map_over_globals(heap_fd_, part, from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE);
      if (!mapped) return mapped.error();
    }
    at = end;
  }
  return {};
}

Mappings::Mappings(Mappings&& other) noexcept
    : control_(std::exchange(other.control_, nullptr)),
      heap_fd_(other.heap_fd_),
      heap_bytes_(other.heap_bytes_),
      host_pages_(std::move(other.host_pages_)),
      allocated_(other.allocated_) {}

Mappings::~Mappings() {
  if (control_ == nullptr) return;
  if (globals_bytes() > 0) {
    const Result<void> made = make_globals_private();
    if (!made) dsm::fail_with_text(made.error());
  }
  auto* const heap = static_cast<std::byte*>(dsm::application_address(PageId(dsm::globals_window().pages)));
  ::munmap(heap, heap_bytes_);
  if (braid_has_access_checks) {
    ::munmap(alias_of(heap), heap_bytes_);
    for (const bool write : {false, true}) std::ranges::fill(distances(heap_bytes_, write), charge::kPrivate);
  }
  ::close(heap_fd_);
  unmap_control(control_);
}

void Mappings::fill(PageId first, std::span<const std::byte> contents) const {
  const std::size_t bytes = dsm::page_length().bytes_of(first.value()) + contents.size();
  control_->filled_pages =
      std::max(control_->filled_pages,
               static_cast<std::uint32_t>(dsm::page_length().pages_in(dsm::page_length().round_up(bytes))));
  if (control_->cluster != 0) return;  // they are the same
  const std::size_t offset =
      heap_offset(control_->clusters, control_->heap_bytes()) + dsm::page_length().bytes_of(first.value());
  for (std::size_t at = 0; at < contents.size(); at += dsm::kHostPageBytes) {
    const std::span part = contents.subspan(at, std::min(dsm::kHostPageBytes, contents.size() - at));
    if (std::all_of(part.begin(), part.end(), [](std::byte b) { return b == std::byte{}; })) continue;
    const ssize_t written = ::pwrite(heap_fd_, part.data(), part.size(), static_cast<off_t>(offset + at));
    if (written != static_cast<ssize_t>(part.size()))
      dsm::fail(
          "cannot write to the shared heap: {}; does the program close descriptors that it has not opened?",
          written < 0 ? std::strerror(errno) : "no room");
  }
}

void Mappings::protect() {
  const std::uint32_t runs = control_->protection_runs;
  CHECK_LE(runs, kMaxProtectionRuns);
  if (const std::uint32_t end = std::exchange(allocated_, control_->allocated_pages);
      is_shorter_than_hosts() && end != allocated_ && end < control_->heap_pages)
    protect_parts(end, 1);  // its host's page has more pages that count than before
  for (std::uint32_t i = 0; i < runs;) {
    ProtectionRun run = control_->protections[i];
    // The cost is that of the calls, not of the pages, so adjacent runs are merged.
    for (++i; i < runs; ++i) {
      const ProtectionRun& next = control_->protections[i];
      if (next.access != run.access || next.first != run.first + run.count) break;
      run.count += next.count;
    }
    // Globals and other pages are at different addresses.
    const std::uint32_t globals = dsm::globals_window().pages;
    if (run.first < globals && run.first + run.count > globals) {
      protect_run({run.first, globals - run.first, run.access});
      run.count -= globals - run.first;
      run.first = globals;
    }
    protect_run(run);
  }
  control_->protection_runs = 0;
}

void Mappings::set_rights(const ProtectionRun& run) {
  const auto address = reinterpret_cast<std::uintptr_t>(dsm::application_address(PageId(run.first)));
  for (const bool write : {false, true}) {
    const bool is_open = write ? run.access == dsm::Access::kWrite : run.access != dsm::Access::kNone;
    std::fill_n(charge::distance_of(address, write),
                dsm::page_length().bytes_of(run.count) / charge::kCheckedBytes,
                is_open ? charge::kOpen : charge::kClosed);
  }
}

std::optional<PageId> Mappings::closed_part(PageId page, bool write) const {
  if (!is_shorter_than_hosts()) return page;
  const auto parts = static_cast<std::uint32_t>(dsm::page_length().pages_in(dsm::kHostPageBytes));
  const std::uint32_t first = page.value() / parts * parts;
  for (std::uint32_t p = first; p < std::min(first + parts, control_->allocated_pages); ++p) {
    const auto address = reinterpret_cast<std::uintptr_t>(dsm::application_address(PageId(p)));
    if (*charge::distance_of(address, write) == charge::kClosed) return PageId(p);
  }
  return {};
}

void Mappings::close_for_good(std::uintptr_t address) const {
  protect_host_pages((address - dsm::kHeapAddress) / dsm::kHostPageBytes, 1, dsm::Access::kNone);
}

// Pages behind the last allocation have nothing that anyone could lose.
dsm::Access Mappings::access_of_host_page(std::size_t host_page) const {
  const auto parts = static_cast<std::uint32_t>(dsm::page_length().pages_in(dsm::kHostPageBytes));
  const PageId first(static_cast<std::uint32_t>(host_page) * parts);
  if (first.value() >= allocated_ || closed_part(first, false)) return dsm::Access::kNone;
  return closed_part(first, true) ? dsm::Access::kRead : dsm::Access::kWrite;
}

void Mappings::protect_parts(std::uint32_t first, std::uint32_t count) {
  const std::size_t parts = dsm::page_length().pages_in(dsm::kHostPageBytes);
  const std::size_t end = (first + count - 1) / parts + 1;
  for (std::size_t h = first / parts; h < end;) {
    const dsm::Access access = access_of_host_page(h);
    if (access == host_pages_[h]) {
      ++h;
      continue;
    }
    const std::size_t begin = h;
    for (; h < end && host_pages_[h] != access && access_of_host_page(h) == access; ++h)
      host_pages_[h] = access;
    protect_host_pages(begin, h - begin, access);
  }
}

void Mappings::protect_host_pages(std::size_t first, std::size_t count, dsm::Access access) const {
  auto* const address =
      reinterpret_cast<std::byte*>(dsm::kHeapAddress) + first * dsm::kHostPageBytes;  // NOLINT
  if (dsm::protect_shared(address, count * dsm::kHostPageBytes, dsm::protection_bits(access)) != 0)
    dsm::mprotect_failed(errno, dsm::page_of(reinterpret_cast<std::uintptr_t>(address)),
                         static_cast<std::uint32_t>(count), "");
}

void Mappings::protect_run(const ProtectionRun& run) {
  if (braid_has_access_checks && run.first >= dsm::globals_window().pages) set_rights(run);
  if (is_shorter_than_hosts()) {
    protect_parts(run.first, run.count);
    return;
  }
  const PageId first(run.first);
  if (dsm::protect_shared(dsm::application_address(first), dsm::page_length().bytes_of(run.count),
                          dsm::protection_bits(run.access)) != 0)
    dsm::mprotect_failed(errno, first, run.count, "");
}

}  // namespace braid::sim
