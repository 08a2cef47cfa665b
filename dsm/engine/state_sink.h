// Takes an engine's state apart: what a checker knows states by that it has seen already.
//
// What is told must decide everything that the engine does from now on; what does not (counters, bytes of a
// copy that is invalid, places in rings and pools) is left out, so that states that behave alike are told
// alike.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"

namespace braid::dsm {

class StateSink {
 public:
  virtual ~StateSink() = default;
  virtual void value(std::uint64_t v) = 0;
  // Versions of a page: only the distance between two of them means anything (PG-16).
  virtual void version(PageId page, std::uint32_t version) = 0;
  virtual void bytes(ByteView bytes) = 0;

  template <class... V>
  void values(const V&... v) {
    (value(static_cast<std::uint64_t>(v)), ...);
  }
};

}  // namespace braid::dsm
