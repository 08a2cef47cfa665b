// The pages and the locks that one compute node has waited for most. Written by the node's thread, also in
// its handler of page faults: allocates nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/heavy_hitters.h"
#include "base/ids.h"
#include "base/time.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// Bytes of a page that faulting accesses began at.
struct AccessRange {
  std::uint16_t first = std::numeric_limits<std::uint16_t>::max();
  std::uint16_t last = 0;

  bool empty() const { return first > last; }
  void add(AccessRange other) {
    first = std::min(first, other.first);
    last = std::max(last, other.last);
  }
};

struct PageFaults {
  std::uint32_t reads = 0;
  std::uint32_t writes = 0;
  AccessRange read;
  AccessRange written;

  void add(const PageFaults& other) {
    reads += other.reads;
    writes += other.writes;
    read.add(other.read);
    written.add(other.written);
  }
};

struct LockWaits {
  std::uint64_t count = 0;  // calls that waited
  Duration longest{};

  void add(const LockWaits& other) {
    count += other.count;
    longest = std::max(longest, other.longest);
  }
};

class NodeCosts {
 public:
  // Weighed by nanoseconds.
  using Pages = HeavyHitters<PageId, PageFaults, 32, 8>;
  using Locks = HeavyHitters<LockId, LockWaits, 8, 8>;

  void on_fault(PageId page, std::uint16_t at, bool write, Duration took) {
    PageFaults& faults = pages_.add(page, static_cast<std::uint64_t>(took.ns()));
    faults.add(write ? PageFaults{.reads = 0, .writes = 1, .read = {}, .written = {at, at}}
                     : PageFaults{.reads = 1, .writes = 0, .read = {at, at}, .written = {}});
  }
  void on_lock(LockId lock, Duration waited) {
    locks_.add(lock, static_cast<std::uint64_t>(waited.ns())).add({.count = 1, .longest = waited});
  }

  const Pages& pages() const { return pages_; }
  const Locks& locks() const { return locks_; }

 private:
  Pages pages_;
  Locks locks_;
};

}  // namespace braid::dsm
