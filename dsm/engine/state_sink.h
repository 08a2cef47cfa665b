// Receives the values that make up an engine's state; a checker recognises known states by them.
//
// The values must determine all future actions of the engine. Everything else (counters, bytes of an
// invalid copy, positions in rings and pools) is left out, so that equivalent states give the same values.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"

namespace braid::dsm {

class StateSink {
 public:
  virtual ~StateSink() = default;
  virtual void value(std::uint64_t v) = 0;
  // Versions of a page: only the difference of two versions has a meaning (PG-16).
  virtual void version(PageId page, std::uint32_t version) = 0;
  // Numbers of a cluster's messages to another one: likewise.
  virtual void place(ClusterId from, ClusterId to, std::uint32_t number) = 0;
  virtual void bytes(ByteView bytes) = 0;

  template <class... V>
  void values(const V&... v) {
    (value(static_cast<std::uint64_t>(v)), ...);
  }
};

}  // namespace braid::dsm
