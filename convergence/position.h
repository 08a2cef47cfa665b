// Positions: how a parallel connection numbers what it carries.
//
// The receive buffer of a connection is a ring of 64-byte granules. A message occupies whole granules, and
// its sequence number is the position of its first granule in the endless stream of granules. One number thus
// gives the order, the place in the receiver's buffer, and the credit: the receiver returns the position up
// to which it has consumed. (Paper, section 2.2: sequence number of a parallel connection; the cumulative
// form is ours.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/seq.h"
#include "stack/wire/segment.h"

namespace braid::convergence {

// A cache line: two messages never share one, and 4 KiB pages cost no padding.
inline constexpr std::uint32_t kGranuleBytes = 64;

constexpr std::uint32_t granules_of(std::uint32_t bytes) {
  return bytes == 0 ? 1 : (bytes + kGranuleBytes - 1) / kGranuleBytes;
}

// Windows are powers of two, so that a position finds its granule also after it wraps.
inline constexpr std::uint32_t kMinWindowBytes = 4096;
inline constexpr std::uint32_t kMaxWindowBytes = 16u << 20;

// A message up to this length can be one piece, which lies in one run of granules and is handed over there (CV-12). Longer
// ones could starve: the application may hold one, the next may waste almost its own length at the ring's end, and up to a
// quarter of the window may be consumed but not yet returned as credit: m + m + m + W/4 <= W.
inline constexpr std::uint32_t kMaxRunBytes = 96u << 10;
constexpr std::uint32_t max_run_bytes(std::uint32_t window_bytes) {
  return std::min(window_bytes / 4, kMaxRunBytes);
}

// The pieces of a message that may take several: short enough that all proxies have work of one.
constexpr std::uint32_t max_piece_bytes(std::uint32_t window_bytes) {
  return std::min(window_bytes / 4, stack::kMaxPieceBytes);
}

// Messages of many pieces are cut by the sender and rejoined by the receiver in memory of its own.
inline constexpr std::uint32_t kMaxMessageBytes = 1u << 30;

}  // namespace braid::convergence
