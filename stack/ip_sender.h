// The IPv4 packets that the stack itself owns until they have left: plain datagrams, ICMP messages, what is
// longer than the MTU, and what is handed to another proxy once more. It numbers them (IP-4) and cuts them
// into frames (IP-3).
//
// Pure; owned by the stack. Nothing is allocated after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "stack/interface.h"
#include "stack/neighbours.h"
#include "stack/outgoing.h"
#include "stack/wire/addresses.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

struct IpSenderConfig {
  std::uint32_t mtu_bytes = 1500;
  std::uint32_t queued_packets = 16;
  Duration arp_timeout = 3_s;  // with ARP; then a packet is dropped
  unsigned proxies = 1;        // that share the node's addresses
  bool long_packets = false;   // sub-connections' packets may be longer than the MTU
};

class IpSender {
 public:
  struct Counters {
    std::uint64_t packets_fragmented = 0;
    std::uint64_t fragments_sent = 0;
    std::uint64_t dropped = 0;  // ARP did not answer in time
  };

  // `links` outlives it.
  IpSender(std::span<const Interface> links, const IpSenderConfig& config);
  // Identifications follow this one in steps, so that of each proxy of the node another one is asked for (IP-4).
  void number_from(std::uint16_t identification) { identification_ = identification; }

  // --- queued packets

  // A packet to be filled in and given to push() at once; nullptr: there is no room.
  OutgoingPacket* reserve() { return queue_.reserve(); }
  void push(Instant now, OutgoingPacket& packet);
  // Writes the next frame of those for `link` whose station is known; 0: there is none.
  std::size_t transmit_queued(Instant now, LinkId link, Neighbours& neighbours, MutableBytes room);

  // --- long packets of sub-connections: one at a time on each link, so that its fragments arrive together

  // Room for the payload of the next one.
  MutableBytes long_room(LinkId link) { return long_[link.value()].packet.room(); }
  // `bytes` of payload were written there: the first frame of it into `room`, and its length.
  std::size_t begin_long(LinkId link, const MacAddress& to, Ipv4Address destination, std::size_t bytes,
                         MutableBytes room);
  // The next frame of one that has begun; 0: there is none.
  std::size_t transmit_long(LinkId link, MutableBytes room);
  bool any_long() const { return unfinished_ > 0; }

  // --- a reassembled packet for another proxy, cut again for that one's stack

  void begin_handover(const Ipv4Packet& whole);
  // The next of its frames; empty at the end. Valid until the next call.
  ByteView next_handover(LinkId link);

  bool idle() const { return queue_.empty() && unfinished_ == 0; }
  bool queue_empty() const { return queue_.empty(); }
  // Earlier than now: something can leave at once.
  Instant next_deadline() const;
  const Counters& counters() const { return counters_; }

 private:
  std::uint16_t next_identification();
  std::size_t write_frame(OutgoingPacket& packet, const MacAddress& to, MutableBytes room);

  // A packet on its way by a link, and the station that it goes to.
  struct Long {
    OutgoingPacket packet;
    MacAddress to;
  };

  std::span<const Interface> links_;
  IpSenderConfig config_;
  OutgoingQueue queue_;
  std::uint16_t identification_ = 0;
  std::unique_ptr<std::byte[]> long_memory_;
  std::vector<Long> long_;  // by link
  std::size_t unfinished_ = 0;
  OutgoingPacket handover_;
  std::vector<std::byte> handover_room_;
  Counters counters_;
};

}  // namespace braid::stack
