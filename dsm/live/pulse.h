// The record from which `braid run` learns of an application process: whether a compute node computes, whether a wait
// has ended, and why the process ends. In memory that both map (variable::kPulseFd); written by the runtime, read by
// the command.
#pragma once

#include <atomic>
#include <cstdint>

#include "dsm/program/end_record.h"

namespace braid::dsm {

// How many compute nodes have done what of late (activity.h): waited for another one; computed without a call of the
// runtime; something else. Those that have nothing to do are in none.
struct NodesNow {
  std::uint32_t waiting = 0, alone = 0, other = 0;

  static constexpr unsigned kBits = 20;
  std::uint64_t packed() const {
    return waiting | std::uint64_t{alone} << kBits | std::uint64_t{other} << 2 * kBits;
  }
  static NodesNow of(std::uint64_t packed) {
    constexpr std::uint64_t kMask = (1u << kBits) - 1;
    return {.waiting = static_cast<std::uint32_t>(packed & kMask),
            .alone = static_cast<std::uint32_t>(packed >> kBits & kMask),
            .other = static_cast<std::uint32_t>(packed >> 2 * kBits & kMask)};
  }
  NodesNow& operator+=(const NodesNow& more) {
    waiting += more.waiting;
    alone += more.alone;
    other += more.other;
    return *this;
  }
};

struct Pulse {
  // 1 while the runtime counts here; otherwise the other values are invalid.
  std::atomic<std::uint32_t> counts{0};
  // Threads that compute: those of compute nodes that neither wait in the runtime nor for parallel().
  std::atomic<std::int32_t> busy{0};
  // Waits that have ended.
  std::atomic<std::uint64_t> progress{0};
  std::atomic<std::uint64_t> nodes{0};  // NodesNow, packed
  EndRecord end;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::int32_t>::is_always_lock_free,
              "shared between processes");

}  // namespace braid::dsm
