// The compute nodes of the own cluster as the engine sees them: what each waits for, and what it did.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "dsm/engine/engine.h"

namespace braid::dsm {

enum class Wait : std::uint8_t {
  kNothing,
  kFetch,  // for the page to come from its home, or for this cluster's flush of it that must come first
  kTwin,   // for a free twin
  kLock,
  kBarrier,
};

struct ComputeNode {
  Wait wait = Wait::kNothing;
  Access wanted = Access::kNone;  // kFetch, kTwin
  PageId page{0};                 // kFetch, kTwin
  std::uint32_t sync = 0;         // kLock, kBarrier: which
  std::uint16_t next = 0;         // kLock: the node behind this one, if any (locks.cpp)
  NodeCounts counts;
};

using ComputeNodes = std::vector<ComputeNode>;

}  // namespace braid::dsm
