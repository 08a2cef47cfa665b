// The record from which `braid run` learns of an application process: whether a compute node computes, whether a wait
// has ended, and why the process ends. In memory that both map (variable::kPulseFd); written by the runtime, read by
// the command.
#pragma once

#include <atomic>
#include <cstdint>

#include "dsm/program/end_record.h"

namespace braid::dsm {

struct Pulse {
  // 1 while the runtime counts here; otherwise the other values are invalid.
  std::atomic<std::uint32_t> counts{0};
  // Threads that compute: those of compute nodes that neither wait in the runtime nor for parallel().
  std::atomic<std::int32_t> busy{0};
  // Waits that have ended.
  std::atomic<std::uint64_t> progress{0};
  EndRecord end;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                  std::atomic<std::int32_t>::is_always_lock_free,
              "shared between processes");

}  // namespace braid::dsm
