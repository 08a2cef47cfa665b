// The memory that a client shares with its braidd, and its layout: for every (endpoint, proxy) a ring of
// descriptors of what leaves with a data area beside it, and a ring of arrivals; for every connection a cell
// and a receive buffer.
//
//   | endpoint 0: doorbell | proxy 0: send ring, data, arrivals | proxy 1: … | endpoint 1: … | cells | buffers |
//
// The daemon makes the memory (a memfd, sealed against resizing, allocated in full), decides the layout and
// trusts nothing in it: indices are range-checked, descriptors are copied, then checked, then used.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/client_ring.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/seq.h"
#include "proxy/channel/doorbell.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

using braid::kMaxProxies;
inline constexpr unsigned kMaxEndpoints = 64;
inline constexpr unsigned kMaxConnections = 1024;  // per client
inline constexpr std::uint64_t kMaxReceiveBytes = std::uint64_t{1}
                                                  << 30;  // per endpoint, that a client may ask for

// A piece that a client asks a proxy to send, a train of messages (CV-11), or a credit that the client returns.
struct SendDescriptor {
  std::uint32_t source_port;
  std::uint32_t position;
  std::uint32_t message_bytes;
  std::uint32_t message_offset;
  std::uint32_t message;
  std::uint32_t data_offset;  // in the data area
  std::uint32_t bytes;        // of this piece, or of the whole train
  std::uint16_t skip;
  std::uint8_t kind;      // stack::RecordKind: kMessage or kCredit
  std::uint8_t messages;  // of a train, whose lengths are the ring's next entry; else 0

  constexpr bool many_pieces() const { return bytes != message_bytes; }
};
static_assert(sizeof(SendDescriptor) == 32);

// A record whose bytes a proxy has written into the connection's receive buffer, each message of a train at its own
// position.
struct ArrivalDescriptor {
  std::uint32_t destination_port;
  std::uint32_t position;
  std::uint32_t message_bytes;
  std::uint32_t message_offset;
  std::uint32_t message;
  std::uint16_t bytes;
  std::uint16_t skip;
  std::uint8_t many_pieces;
  std::uint8_t messages;  // of a train, whose lengths are the ring's next entry; else 0
  std::uint8_t reserved[6];
};
static_assert(sizeof(ArrivalDescriptor) == 32);

// In either ring a train takes two entries.
static_assert(sizeof(stack::TrainLengths) == sizeof(SendDescriptor));
static_assert(sizeof(stack::TrainLengths) == sizeof(ArrivalDescriptor));

enum class PortState : std::uint32_t { kUnused, kOpen, kPeerClosed, kPeerLost };

// Of one connection end: what the two sides tell each other without a message.
struct PortCell {
  // Written by the daemon's control plane.
  alignas(kCacheLine) std::atomic<PortState> state;
  // Written by proxies: not 0 once a record came that no sender makes (CV-10).
  std::atomic<std::uint32_t> corrupted;
  // Written by the client: the position before which it has consumed everything. A record before it is a
  // duplicate.
  alignas(kCacheLine) std::atomic<std::uint32_t> consumed;
  // Written by proxy p: the newest credit position that it received from the peer. The client takes the
  // newest of all, and brings up what a proxy has left behind for long (CV-3).
  alignas(kCacheLine) std::atomic<std::uint32_t> credit[kMaxProxies];
};

// The limits of a client's trains (CV-11).
struct TrainLimits {
  std::uint16_t messages = 1;  // 1: there are no trains
  std::uint16_t bytes = 0;     // each message from a multiple of stack::kTrainAlignment on
};

// Sizes of a client's memory. Both sides compute the same offsets from it; the daemon's word counts.
struct ChannelGeometry {
  std::uint16_t endpoints = 1;
  std::uint16_t proxies = 1;
  std::uint32_t send_descriptors = 4096;  // ring entries, a power of two
  std::uint32_t send_bytes = 512u << 10;  // data area, a multiple of a granule
  std::uint32_t arrivals =
      16384;  // ring entries, a power of two: one for every granule of the endpoint's windows
  std::uint32_t connections = 64;
  std::uint64_t receive_bytes = 1u << 20;  // of all receive buffers
  TrainLimits train;

  std::uint64_t doorbell(unsigned endpoint) const;
  std::uint64_t send_ring(unsigned endpoint, unsigned proxy) const;
  std::uint64_t send_data(unsigned endpoint, unsigned proxy) const;
  std::uint64_t arrival_ring(unsigned endpoint, unsigned proxy) const;
  std::uint64_t cell(unsigned connection) const;
  std::uint64_t receive_buffers() const;
  std::uint64_t total_bytes() const;
  // Empty if the sizes are possible; else what is wrong.
  std::string problem() const;

 private:
  std::uint64_t lane_bytes() const;
  std::uint64_t endpoint_bytes() const;
};

using SendProducer = RingProducer<SendDescriptor>;
using SendConsumer = RingConsumer<SendDescriptor>;
using ArrivalProducer = RingProducer<ArrivalDescriptor>;
using ArrivalConsumer = RingConsumer<ArrivalDescriptor>;

}  // namespace braid::proxy
