// The messages between page engines of different clusters, as
// bytes: written into a channel's room, and parsed with every
// field checked for form. Handlers check their meaning.
//
//      0      1        2        4          8             12
//      | kind | format | length | id       | number      | payload ...
//
// `length` is zero, or another message follows that many bytes after the beginning of this one (PG-26). `id`
// is the page, lock, barrier or variable; `number` a version, a generation or what its kind says, zero where
// there is none. Little-endian.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

enum class Kind : std::uint8_t {
  kPageRequest = 1,  // to the home; for a run of pages: number is how many follow the first
  kPageReply,  // for a run of pages; format 1: the receiver is the home of a page that is all zeros, no bytes
  kDiff,  // to the home: what the sender's cluster changed; format is a DiffFormat; lazy: version of the copy
  kDiffDone,       // version of the round that made the diff visible; format 1: the receiver is the home now
  kInvalidate,     // to a holder: copies older than version are out of date; for a run of pages
  kInvalidateAck,  // the same version; for a run of pages; format 1: changes of the sender may be in flight
  kLockRequest,    // to the lock's manager; format 1: by a node that does not wait for the lock
  kLockGrant,      // the token, from the cluster that had it
  kLockRecall,  // from the manager: number is the cluster that gets the token next; format as the request's
  kLockProbe,   // to that cluster: the token stays until it answers
  kBarrierArrive,  // to the parent in the barrier's tree; generation, and the subtree's value
  kBarrierDepart,  // from the parent; the same generation, and the machine's value
  kSyncCall,       // to a variable's home; format is a SyncOp, number the compute node; operands
  kSyncResult,     // to the same node; a value; format 1 when it is only registered (SY-5)
  kAllocate,       // to cluster 0; id is a number of pages, number the compute node; homes
  kAllocated,      // to the same node; id is the first page, or kNoPages
  kRegion,  // to the clusters below in the tree of cluster 0; id is the first page, number their count; homes
  kRegionKnown,  // to the cluster above, when all below know it; id is the first page
  kPageForward,  // to a later home: a PageRequest; number is a Forwarded
  kLockProbeReply,
  kWriteNotice,  // to a cluster that acquires; version of a release, for a run of pages; format 1: for all clusters
  kLockBusy,  // the answer to a recall of format 1, to the cluster that gets the token next: not now
};
inline constexpr std::size_t kKinds = 23;  // numbers 1 .. 22; arrays are indexed by the number
static_assert(kSentNames.size() == kKinds - 1);

inline constexpr std::size_t kHeaderBytes = 12;
inline constexpr std::size_t kBarrierValueBytes = 8;
inline constexpr std::size_t kSyncOperandBytes = 16;
inline constexpr std::size_t kSyncValueBytes = 8;
inline constexpr std::size_t kHomesBytes = 4;
// LZ-3. The end of the payload of a message by which another cluster can acquire, in the lazy protocol: its number among
// those from that cluster to this one, and how many notices belong to it (acquires.h).
inline constexpr std::size_t kPlaceBytes = 8;
// The beginning of the payload of a notice: the number of the message to which it belongs.
inline constexpr std::size_t kNoticePlaceBytes = 4;
// The longest payload of a cluster's message to itself.
inline constexpr std::size_t kMaxOwnPayloadBytes = 16;

// Invalidations of neighbouring pages, and their acknowledgements, share a message: `id` is the first
// page, `number` its version, and the payload has the versions of the following pages. Closing a run
// costs the receiver one call; closing single pages costs about 20 us each while its compute nodes run.
inline constexpr std::size_t kMaxRunPages = 64;
inline constexpr std::size_t kVersionBytes = 4;

// The payload of a reply with so many consecutive pages: their bytes, and then the versions of all but the first.
constexpr std::size_t reply_payload(PageLength length, std::size_t pages) {
  return pages * (length.bytes() + kVersionBytes) - kVersionBytes;
}
constexpr std::size_t max_reply_pages(PageLength length) {
  return (max_message_bytes(length) - kHeaderBytes + kVersionBytes) / (length.bytes() + kVersionBytes);
}

struct Header {
  Kind kind = Kind::kPageRequest;
  std::uint8_t format = 0;
  std::uint32_t id = 0;
  std::uint32_t number = 0;
};

// Whether a node of the receiving cluster can acquire by it, or may let others acquire what it tells (LZ-3).
bool can_acquire_by(const Header& header);
// Such a message has a place at the end of its payload. For well-formed messages.
bool has_place(const Header& header, ByteView payload);

// The number of a PageForward: the cluster that asks in the low 16 bits, and above them how often the request has been
// forwarded. One that was forwarded more often goes in circles, so it is forged.
inline constexpr std::uint32_t kMaxForwardHops = 0xfffe;
struct Forwarded {
  ClusterId asks;
  std::uint32_t hops = 0;
};
constexpr Forwarded forwarded(std::uint32_t number) {
  return {ClusterId(static_cast<std::uint16_t>(number)), number >> 16};
}
constexpr std::uint32_t forward_number(ClusterId asks, std::uint32_t hops) {
  return asks.value() | hops << 16;
}

// Whether `number` is a version of the page `id`.
constexpr bool has_version(Kind kind) {
  return kind == Kind::kPageReply || kind == Kind::kDiffDone || kind == Kind::kInvalidate ||
         kind == Kind::kInvalidateAck || kind == Kind::kWriteNotice;
}

struct Message {
  Header header;
  ByteView payload;
  ByteView rest;  // the messages behind it
};

// Versions of a run of pages in a message: the first is in the header, the others in the payload.
struct RunVersions {
  std::uint32_t first;
  ByteView others;
  std::uint32_t pages() const { return 1 + static_cast<std::uint32_t>(others.size() / kVersionBytes); }
  std::uint32_t operator[](std::size_t i) const {
    return i == 0 ? first : load<std::uint32_t>(&others[(i - 1) * kVersionBytes]);
  }
};

// The pages of a reply (format 0).
struct RunOfPages {
  // The versions are shorter than a page.
  RunOfPages(PageLength length, std::uint32_t first_version, ByteView payload)
      : page_length(length),
        bytes(payload.first(length.round_down(payload.size()))),
        versions{first_version, payload.subspan(bytes.size())} {}
  std::uint32_t pages() const { return versions.pages(); }
  const std::byte* page(std::size_t i) const { return &bytes[page_length.bytes_of(i)]; }

  PageLength page_length;
  ByteView bytes;
  RunVersions versions;
};
// The bytes of pages in these messages of an engine.
std::size_t bytes_of_pages(PageLength length, ByteView messages);

// room holds at least kHeaderBytes.
void write_header(MutableBytes room, const Header& header);
// Another message follows the one that was written there, `bytes` after its beginning: kMaxPackedBytes at most.
inline constexpr std::size_t kMaxPackedBytes = 0xffff;
void write_length(MutableBytes message, std::size_t bytes);

// The room that the payload needs before it is written. A reply needs that of one page: others follow if they fit.
// Zero for a diff, which is not written if it does not fit.
std::size_t payload_room(PageLength length, const Header& header);

// The refusal of a message that the handler of its kind rejects. `bytes`: refusal.bytes.
Refusal refusal_of(ClusterId from, const Header& header, std::size_t bytes);

// The first of the messages. nullopt if the bytes have no valid form: wrong length for its kind, unknown
// kind or format, or a field set that the kind does not use; `length`: of the machine's pages. The payload of a diff is not checked here.
std::optional<Message> parse(PageLength length, ByteView bytes);

}  // namespace braid::dsm
