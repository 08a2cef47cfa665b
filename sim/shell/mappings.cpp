#include "sim/shell/mappings.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/program/faults.h"
#include "dsm/program/heap.h"

namespace braid::sim {

namespace {

constexpr const char* kCure = "this program was built for simulation: run it with `braid sim`";

// The open descriptor that variable `name` names, of a file of at least `least_bytes`.
Result<int> read_descriptor(const Mappings::Lookup& lookup, const char* name, std::size_t least_bytes) {
  const char* const text = lookup(name);
  if (text == nullptr) return error("{} is not set: {}", name, kCure);
  int fd = -1;
  const char* const end = text + std::strlen(text);
  const std::from_chars_result parsed = std::from_chars(text, end, fd);
  struct stat status = {};
  if (parsed.ec != std::errc() || parsed.ptr != end || ::fstat(fd, &status) != 0)
    return error("{} is '{}', which is not an open descriptor: {}", name, text, kCure);
  if (static_cast<std::size_t>(status.st_size) < least_bytes)
    return error("{} is '{}', of {} bytes where {} are needed: program and simulator are of different builds",
                 name, text, status.st_size, least_bytes);
  return fd;
}

Result<Control*> map_control(const Mappings::Lookup& lookup) {
  const Result<int> fd = read_descriptor(lookup, variable::kControlFd, sizeof(Control));
  if (!fd) return fd.error();
  void* const memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  if (memory == MAP_FAILED)
    return error("{} is {}, which cannot be mapped: {}", variable::kControlFd, *fd, cause_and_cure(errno));
  ::close(*fd);
  auto* const control = static_cast<Control*>(memory);
  if (control->version != kControlVersion || control->compute == 0 ||
      control->compute > kMaxNodesPerCluster) {
    ::munmap(memory, sizeof(Control));
    return error("program and simulator are of different builds: build both again");
  }
  return control;
}

Result<void> map_heap(const Mappings::Lookup& lookup, std::size_t bytes) {
  const Result<int> fd = read_descriptor(lookup, variable::kHeapFd, bytes);
  if (!fd) return fd.error();
  void* const wanted = dsm::application_address(PageId(0));
  void* const view = ::mmap(wanted, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, *fd, 0);
  if (view != wanted) {
    const int error_number = errno;
    if (view != MAP_FAILED) ::munmap(view, bytes);
    return error("cannot map the shared heap of {} MiB at {:#x}: {}", bytes >> 20, dsm::kHeapAddress,
                 cause_and_cure(error_number));
  }
  ::close(*fd);
  // As live (dsm/live/memory.cpp): a child of fork() is not in the page protocol.
  if (::madvise(view, bytes, MADV_DONTFORK) != 0)
    return error("cannot keep the shared heap from children of fork(): {}", std::strerror(errno));
  return {};
}

}  // namespace

Result<Mappings> Mappings::map(const Lookup& lookup) {
  const Result<Control*> control = map_control(lookup);
  if (!control) return control.error();
  const std::size_t heap_bytes = std::size_t{(*control)->heap_pages} * dsm::kPageBytes;
  if (const Result<void> heap = map_heap(lookup, heap_bytes); !heap) {
    ::munmap(*control, sizeof(Control));
    return heap.error();
  }
  return Mappings(*control, heap_bytes);
}

Mappings::Mappings(Mappings&& other) noexcept
    : control_(std::exchange(other.control_, nullptr)), heap_bytes_(other.heap_bytes_) {}

Mappings::~Mappings() {
  if (control_ == nullptr) return;
  ::munmap(dsm::application_address(PageId(0)), heap_bytes_);
  ::munmap(control_, sizeof(Control));
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
    const PageId first(run.first);
    if (::mprotect(dsm::application_address(first), std::size_t{run.count} * dsm::kPageBytes,
                   dsm::protection_bits(run.access)) != 0)
      dsm::mprotect_failed(errno, first, run.count, "");
  }
  control_->protection_runs = 0;
}

}  // namespace braid::sim
