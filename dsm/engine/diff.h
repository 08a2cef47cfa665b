// The changes of a cluster to a page since it made the twin, byte by byte, because
// programs share the bytes of a word. There are two encodings; the shorter one is sent:
//   runs   {offset u16, length u16, bytes}*      few changes that lie together; length 0 is 65536
//   mask   a bit per byte of the page, then the changed bytes                   many small changes
// Bytes that did not change are never sent and never stored at the other end: another writer may own them.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

enum class DiffFormat : std::uint8_t { kRuns = 0, kMask = 1 };

constexpr std::size_t max_diff_bytes(PageLength length) {
  return length.mask_bytes() + length.bytes();
}

struct EncodedDiff {
  DiffFormat format = DiffFormat::kRuns;
  std::size_t bytes = 0;  // 0 when nothing changed
};

// Writes the difference of `page` from `twin` (a page each, any alignment) into `room`. If it
// is longer than the room, only its length is returned. max_diff_bytes() are always enough.
EncodedDiff encode_diff(PageLength length, const std::byte* page, const std::byte* twin, MutableBytes room);

// Stores the changes into `page`. False, and nothing stored, if `diff`
// is not valid output of encode_diff: the bytes come from another host.
[[nodiscard]] bool apply_diff(PageLength length, DiffFormat format, ByteView diff, std::byte* page);

}  // namespace braid::dsm
