// Detects a compute node that reads consecutive pages, and returns how many
// of the next pages to fetch ahead: two, then four, up to a bound (PG-25).
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

  // The node missed `page` when it read. Returns the end (exclusive) of the
  // pages to fetch; next() is the first of them. At most `most` pages at a time, or `most_of_long` where that is more and the
  // scan is long.
  std::uint32_t missed(std::uint32_t page, std::uint32_t most, std::uint32_t most_of_long = 0) {
    const bool sequential = window_ != 0 && page > last_ && page <= next_;
    const std::uint32_t read = page - last_;
    last_ = page;
    if (!sequential) {
      next_ = page + 1;
      window_ = 1;
      read_ = 0;
      return next_;
    }
    if (most_of_long > most) read_ = std::min(read_ + read, kLong * most_of_long);
    window_ = std::min(2 * window_, read_ != 0 && read_ == kLong * most_of_long ? most_of_long : most);
    next_ = std::max(next_, page + 1);
    return page + 1 + window_;
  }
  // The first page that was not fetched.
  std::uint32_t next() const { return next_; }
  // next() was fetched, or need not be.
  void advance() { ++next_; }
  // The node synchronises: other nodes may write the next pages now (as with a row for each
  // step of an elimination), so pages that are fetched ahead would be invalidated at once.
  void end() { window_ = 0; }

  void describe(StateSink& sink) const { sink.values(last_, next_, window_, read_); }

 private:
  std::uint32_t last_ = 0;  // the page that the node missed last
  std::uint32_t next_ = 0;
  std::uint32_t window_ = 0;  // pages fetched at a time; 0: no scan
  std::uint32_t read_ = 0;    // pages read in order, until the scan is long
};

}  // namespace braid::dsm
