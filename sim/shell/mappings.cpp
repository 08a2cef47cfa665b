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

Result<unsigned> read_cluster(const Lookup& lookup) {
  const char* const text = lookup(variable::kCluster);
  if (text == nullptr) return 0;
  const std::optional<int> number = number_in(text);
  if (!number || *number < 0)
    return error("{} is '{}', which is no number of a cluster: {}", variable::kCluster, text, kCure);
  return static_cast<unsigned>(*number);
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
  const Result<std::byte*> view = dsm::map_heap_addresses({.bytes = bytes,
                                                           .protection = PROT_NONE,
                                                           .flags = MAP_SHARED,
                                                           .file = *fd,
                                                           .offset = offset,
                                                           .setting = kHeapSetting});
  if (!view) return view.error();
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
  void* const memory =
      ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kControlFd, *fd, cause_and_cure(errno));
  auto* const control = static_cast<Control*>(memory);
  if (control->version != kControlVersion || control->compute == 0 ||
      control->compute > kMaxNodesPerCluster) {
    unmap_control(control);
    return error("program and simulator are of different builds: build both again");
  }
  return control;
}

void unmap_control(Control* control) {
  ::munmap(control, sizeof(Control));
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
      heap_bytes_(other.heap_bytes_) {}

Mappings::~Mappings() {
  if (control_ == nullptr) return;
  if (globals_bytes() > 0) {
    const Result<void> made = make_globals_private();
    if (!made) dsm::fail_with_text(made.error());
  }
  ::munmap(dsm::application_address(PageId(dsm::globals_window().pages)), heap_bytes_);
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

void Mappings::protect() const {
  const std::uint32_t runs = control_->protection_runs;
  CHECK_LE(runs, kMaxProtectionRuns);
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

void Mappings::protect_run(const ProtectionRun& run) {
  const PageId first(run.first);
  if (dsm::protect_shared(dsm::application_address(first), dsm::page_length().bytes_of(run.count),
                          dsm::protection_bits(run.access)) != 0)
    dsm::mprotect_failed(errno, first, run.count, "");
}

}  // namespace braid::sim
