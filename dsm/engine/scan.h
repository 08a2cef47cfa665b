// Detects a compute node that reads pages a constant stride apart: one after the other, every fifth, downwards. Returns how
// many of the next ones to fetch ahead: two, then four, up to a bound (PG-25).
#pragma once

#include <algorithm>
#include <cstdint>

#include "dsm/engine/state_sink.h"

namespace braid::dsm {

class Scan {
 public:
  // A scan is long when it has read this many times as many pages as it may fetch ahead then: so few of those that it
  // fetches are behind its end.
  static constexpr std::uint32_t kLong = 4;

  // The node missed `page` when it read. Returns how many pages to fetch from next() on. At most `most` pages at a time, or
  // `most_of_long` where that is more and the scan is long; half as many at least, not the page or two by which a scan gets on
  // between faults: they would leave alone.
  //
  // Two misses make a scan if the second page follows the first, or is as far from it as the pages of the scan before were
  // (a column of a matrix after another); any other stride takes three.
  std::uint32_t missed(std::uint32_t page, std::uint32_t most, std::uint32_t most_of_long = 0) {
    const std::int64_t distance = std::int64_t{page} - last_;
    const std::int64_t distance_before = before_;
    last_ = page;
    if (window_ == 0) return begin(page, 1);
    before_ = distance;
    if (!goes_on(page, distance)) {
      if (distance != 1 && (distance != distance_before || distance == 0)) return begin(page, stride_);
      (void)begin(page, distance);
    }
    if (most_of_long > most)
      read_ = static_cast<std::uint32_t>(
          std::min(read_ + std::int64_t{distance / stride_}, std::int64_t{kLong} * most_of_long));
    window_ = std::min(2 * window_, read_ != 0 && read_ == kLong * most_of_long ? most_of_long : most);
    if ((next_ - page) / stride_ < 1) next_ = page + stride_;
    const std::int64_t asked = (next_ - page) / stride_ - 1;  // and not missed yet
    return 2 * asked > window_ ? 0 : window_ - static_cast<std::uint32_t>(asked);
  }
  // The first page that was not fetched. It may be outside of the heap.
  std::int64_t next() const { return next_; }
  // next() was fetched, or need not be.
  void advance() { next_ += stride_; }
  // The node synchronises: other nodes may write the next pages now (as with a row for each
  // step of an elimination), so pages that are fetched ahead would be invalidated at once.
  void end() { *this = Scan(); }

  void describe(StateSink& sink) const { sink.values(last_, next_, stride_, before_, window_, read_); }

 private:
  // The scan may begin here: two misses more or less tell.
  std::uint32_t begin(std::uint32_t page, std::int64_t stride) {
    stride_ = stride;
    next_ = page + stride;
    window_ = 1;
    read_ = 0;
    return 0;
  }
  // The page is one of the scan's, no further than the first that was not fetched.
  bool goes_on(std::uint32_t page, std::int64_t distance) const {
    return distance % stride_ == 0 && distance / stride_ > 0 && (next_ - page) / stride_ >= 0;
  }

  std::uint32_t last_ = 0;    // the page that the node missed last
  std::uint32_t window_ = 0;  // pages fetched at a time; 0: no scan
  std::uint32_t read_ = 0;    // pages read in order, until the scan is long
  std::int64_t next_ = 0;
  std::int64_t stride_ = 1;  // never 0
  std::int64_t before_ = 0;  // the distance of the last page from the one before
};

}  // namespace braid::dsm
