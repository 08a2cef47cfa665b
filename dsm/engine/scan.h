// Detects a compute node that reads, or writes, pages a constant stride apart: one after the other, every fifth, downwards.
// Returns how many of the next ones to fetch ahead: two, then four, up to a bound (PG-25).
#pragma once

#include <algorithm>
#include <cstdint>

#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Scan {
 public:
  // A scan is long when it has read this many times as many pages as it may fetch ahead then: so few of those that it
  // fetches are behind its end.
  static constexpr std::uint32_t kLong = 4;
  // A page behind the end of what a node writes is fetched from another writer, whose next write has to take it back. So no
  // more than this part of the pages that a node has written in order is fetched ahead: a quarter.
  static constexpr std::uint32_t kPartOfWrites = 4;

  // The node missed `page`. Returns how many pages to fetch from next() on. At most `most` pages at a time, or
  // `most_of_long` where that is more and the scan is long; half as many at least, not the page or two by which a scan gets on
  // between faults: they would leave alone.
  //
  // With a `part` other than 0 no more than that part of the pages that the scan has passed: a quarter for 4.
  //
  // Two misses make a scan if the second page follows the first, or is as far from it as the pages of the scan before were
  // (a column of a matrix after another); any other stride takes three.
  std::uint32_t missed(std::uint32_t page, std::uint32_t most, std::uint32_t most_of_long = 0,
                       std::uint32_t part = 0) {
    const std::int64_t distance = std::int64_t{page} - last_;
    const std::int64_t distance_before = before_;
    last_ = page;
    if (window_ == 0) return begin(page, 1);
    before_ = distance;
    if (!goes_on(page, distance)) {
      if (distance != 1 && (distance != distance_before || distance == 0)) return begin(page, stride_);
      (void)begin(page, distance);
    }
    const std::uint32_t most_ever = std::max(most, most_of_long);
    if (most_ever > most || part != 0)
      passed_ = static_cast<std::uint32_t>(
          std::min(passed_ + std::int64_t{distance / stride_}, std::int64_t{kLong} * most_ever));
    window_ = std::min(2 * window_, passed_ == kLong * most_ever ? most_ever : most);
    if ((next_ - page) / stride_ < 1) next_ = page + stride_;
    const std::int64_t asked = (next_ - page) / stride_ - 1;  // and not missed yet
    const std::int64_t ahead = part == 0 ? window_ : std::min(window_, passed_ / part);
    return 2 * asked > ahead ? 0 : static_cast<std::uint32_t>(ahead - asked);
  }
  // The first page that was not fetched. It may be outside of the heap.
  std::int64_t next() const { return next_; }
  // next() was fetched, or need not be.
  void advance() { next_ += stride_; }
  // The node synchronises: other nodes may write the next pages now (as with a row for each
  // step of an elimination), so pages that are fetched ahead would be invalidated at once.
  void end() { *this = Scan(); }

  void describe(StateSink& sink) const { sink.values(last_, next_, stride_, before_, window_, passed_); }

 private:
  // The scan may begin here: two misses more or less tell.
  std::uint32_t begin(std::uint32_t page, std::int64_t stride) {
    stride_ = stride;
    next_ = page + stride;
    window_ = 1;
    passed_ = 0;
    return 0;
  }
  // The page is one of the scan's, no further than the first that was not fetched.
  bool goes_on(std::uint32_t page, std::int64_t distance) const {
    return distance % stride_ == 0 && distance / stride_ > 0 && (next_ - page) / stride_ >= 0;
  }

  std::uint32_t last_ = 0;    // the page that the node missed last
  std::uint32_t window_ = 0;  // pages fetched at a time; 0: no scan
  std::uint32_t passed_ = 0;  // pages of the scan, until it is long; 0 where neither bound depends on them
  std::int64_t next_ = 0;
  std::int64_t stride_ = 1;  // never 0
  std::int64_t before_ = 0;  // the distance of the last page from the one before
};

// Of one compute node: what it reads and what it writes are scans of their own, because it does both by turns when it
// copies or transposes.
class Scans {
 public:
  Scan& of(Access wanted) { return wanted == Access::kWrite ? writes_ : reads_; }
  // The node synchronises.
  void end() { *this = Scans(); }
  void describe(StateSink& sink) const {
    reads_.describe(sink);
    writes_.describe(sink);
  }

 private:
  Scan reads_;
  Scan writes_;
};

}  // namespace braid::dsm
