// IPv4 packets that the stack itself owns until they have left: plain datagrams, answers to pings, ICMP
// errors, and whatever is longer than the MTU. They wait for ARP in a bounded queue, and leave in one frame
// or as fragments (RFC 791).
//
// Pure. All memory is taken at construction, and touched only where packets come to lie.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "base/time.h"
#include "stack/wire/addresses.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

// The payload of one IPv4 packet in a buffer that holds the longest, and how much of it has left.
struct OutgoingPacket {
  Ipv4Address source;
  Ipv4Address destination;
  Ipv4Address next_hop;
  LinkId link;
  IpProtocol protocol{};
  std::uint8_t type_of_service = 0;
  std::uint16_t identification = 0;
  std::byte* payload = nullptr;
  std::uint32_t bytes = 0;  // of the payload
  std::uint32_t left = 0;   // of these, gone
  Instant until;            // dropped if it could not leave by then
  bool unresolved = false;  // waits for ARP

  MutableBytes room() const { return {payload, kIpv4MaxPacketBytes - kIpv4HeaderBytes}; }
  bool done() const { return left >= bytes; }
};

// The payload of each fragment of a longer packet: the offset of the next one is a multiple of 8 (RFC 791).
constexpr std::uint32_t fragment_payload_bytes(std::uint32_t mtu_bytes) {
  return static_cast<std::uint32_t>((mtu_bytes - kIpv4HeaderBytes) / 8 * 8);
}

// Writes the next frame of `packet` to `to`, from `from`, into `room` (mtu_bytes and an Ethernet header);
// returns its length. The packet is not done().
inline std::size_t write_next_frame(OutgoingPacket& packet, const MacAddress& to, const MacAddress& from,
                                    std::uint32_t mtu_bytes, MutableBytes room) {
  const std::uint32_t rest = packet.bytes - packet.left;
  std::uint32_t part = rest;
  if (rest > mtu_bytes - kIpv4HeaderBytes) part = fragment_payload_bytes(mtu_bytes);
  std::size_t at = write_ethernet(room, to, from, EtherType::kIpv4);
  at += write_ipv4(room.subspan(at), {.source = packet.source,
                                      .destination = packet.destination,
                                      .protocol = packet.protocol,
                                      .payload_bytes = part,
                                      .type_of_service = packet.type_of_service,
                                      .dont_fragment = false,
                                      .more_fragments = part < rest,
                                      .identification = packet.identification,
                                      .fragment_offset_bytes = static_cast<std::uint16_t>(packet.left)});
  std::memcpy(room.data() + at, packet.payload + packet.left, part);
  packet.left += part;
  return at + part;
}

// Packets in the order in which they are to leave. One that cannot leave yet does not delay the others.
class OutgoingQueue {
 public:
  explicit OutgoingQueue(std::uint32_t packets)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(packets * kIpv4MaxPacketBytes)), slots_(packets) {
    for (std::uint32_t i = 0; i < packets; ++i) {
      slots_[i].payload = memory_.get() + i * kIpv4MaxPacketBytes;
      free_.push_back(&slots_[i]);
    }
    waiting_.reserve(packets);
  }

  bool empty() const { return waiting_.empty(); }
  // A packet to be filled in and given to push() at once; nullptr: there is no room.
  OutgoingPacket* reserve() { return free_.empty() ? nullptr : free_.back(); }
  void push(OutgoingPacket& packet) {
    CHECK(&packet == free_.back());
    free_.pop_back();
    packet.left = 0;
    packet.unresolved = false;
    waiting_.push_back(&packet);
  }
  // Calls visit(packet) for each, oldest first, until it returns true; those that are done() then are gone.
  template <class F>
  void visit(F&& visit_one) {
    for (std::size_t i = 0; i < waiting_.size();) {
      OutgoingPacket& packet = *waiting_[i];
      const bool stop = visit_one(packet);
      if (packet.done()) {
        free_.push_back(&packet);
        waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
      if (stop) return;
    }
  }
  Instant next_deadline() const {
    Instant next = Instant::never();
    for (const OutgoingPacket* p : waiting_) next = earlier(next, p->unresolved ? p->until : Instant());
    return next;
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::vector<OutgoingPacket> slots_;
  std::vector<OutgoingPacket*> free_;
  std::vector<OutgoingPacket*> waiting_;  // oldest first
};

}  // namespace braid::stack
