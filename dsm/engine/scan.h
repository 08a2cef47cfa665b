// Recognises a compute node that reads page after page, and says how far ahead its next pages are worth
// asking for: two pages, then four, up to a bound (PG-25).
#pragma once

#include <algorithm>
#include <cstdint>

#include "dsm/engine/state_sink.h"

namespace braid::dsm {

class Scan {
 public:
  // The node missed `page` when it read. Returns the end (exclusive) of the pages that are worth asking for;
  // next() is the first of them. `most` pages at a time.
  std::uint32_t missed(std::uint32_t page, std::uint32_t most) {
    const bool sequential = window_ != 0 && page > last_ && page <= next_;
    last_ = page;
    if (!sequential) {
      next_ = page + 1;
      window_ = 1;
      return next_;
    }
    window_ = std::min(2 * window_, most);
    next_ = std::max(next_, page + 1);
    return page + 1 + window_;
  }
  // The first page that was not asked for.
  std::uint32_t next() const { return next_; }
  // next() was asked for, or need not be.
  void advance() { ++next_; }
  // The node synchronises: the pages behind may be those that others write now (a row for each step of an
  // elimination, say), and what was fetched ahead would be invalidated at once.
  void end() { window_ = 0; }

  void describe(StateSink& sink) const { sink.values(last_, next_, window_); }

 private:
  std::uint32_t last_ = 0;  // the page that the node missed last
  std::uint32_t next_ = 0;
  std::uint32_t window_ = 0;  // pages that were asked for at a time; 0: no scan
};

}  // namespace braid::dsm
