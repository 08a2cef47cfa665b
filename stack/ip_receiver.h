// Receives frames: parses and verifies Ethernet, IPv4, ICMP and UDP headers, reassembles fragments, and says
// what arrived and whose it is. What is not whole, well-formed and for this node is counted and dropped
// (SC-9).
//
// Pure; owned by the stack, which acts on what arrived. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "stack/interface.h"
#include "stack/reassembly.h"
#include "stack/remote.h"
#include "stack/udp_ports.h"
#include "stack/wire/addresses.h"
#include "stack/wire/arp.h"
#include "stack/wire/flow.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

// A sub-connection's packet, to the port of this proxy.
struct ProxyPacket {
  Endpoint from;
  ByteView payload;
};
// For a port that is bound here.
struct PlainDatagram {
  Endpoint from;
  std::uint16_t port = 0;
  ByteView payload;
};
// The node MUST answer it (IC-1).
struct EchoRequest {
  Ipv4Packet ip;
  IcmpMessage message;
};
// ICMP: a packet of this proxy, or a datagram from a port that is bound here, did not reach its destination.
struct UnreachableReport {
  Endpoint destination;
  std::optional<std::uint16_t> port;  // the datagram's; nullopt: a packet of this proxy
  Unreachable reason{};
  std::uint16_t mtu_bytes = 0;  // kTooBig: of the link that it did not fit
};
// A packet that nothing here takes; its sender SHOULD be told (IC-2).
struct Undeliverable {
  Ipv4Packet ip;
  Unreachable reason{};
};
// For another proxy of this node: this stack MUST hand it over (UDP-2).
struct Misdirected {
  Ipv4Packet ip;  // whole
  unsigned proxy = 0;
};

// The contents of a frame. Views point into the frame, or into memory that does not change until the next
// receive().
struct IpArrival {
  std::variant<std::monostate, ArpPacket, ProxyPacket, PlainDatagram, EchoRequest, UnreachableReport,
               Undeliverable, Misdirected>
      what;
  bool reassembled = false;  // the frame completed a packet of fragments
};

class IpReceiver {
 public:
  struct Counters {
    std::uint64_t bad_frames = 0;
    std::uint64_t bad_ip = 0;
    std::uint64_t bad_udp = 0;
    std::uint64_t bad_icmp = 0;
    std::uint64_t not_for_us = 0;  // valid, but another host's
    std::uint64_t broadcasts = 0;  // to everybody or to a group, on the link or in IP
    std::uint64_t martians = 0;    // from an address that no other host on such a link can have
    std::uint64_t fragments_received = 0;
    std::uint64_t packets_reassembled = 0;
    std::uint64_t fragments_dropped = 0;  // duplicates, and those of packets that were given up
    std::uint64_t icmp_ignored = 0;       // of other types, or about no packet of this node
    std::uint64_t datagrams_received = 0;
    std::uint64_t closed_ports = 0;  // datagrams for a port that is not bound
  };

  // `links` and `ports` outlive it.
  IpReceiver(std::span<const Interface> links, const UdpPorts& ports, const ReassemblyConfig& reassembly);

  // The short cut for what nearly all frames are: a whole packet from one host to this proxy. Its payload if
  // everything about it is valid; else a view of nothing at nullptr, and receive() decides.
  ByteView match(LinkId link, ByteView frame) const {
    Ipv4Address source;
    const ByteView payload = filters_[link.value()].match(frame, source);
    if (payload.data() == nullptr || is_martian(links_[link.value()], source)) return {};
    return payload;
  }
  // Who sent a frame that match() took.
  static Endpoint sender_of(ByteView frame) {
    return {Ipv4Address::load(frame.data() + detail::kIpSourceAt), FlowFilter::source_port(frame)};
  }
  IpArrival receive(Instant now, LinkId link, ByteView frame);

  // When expire() is due if nothing arrives.
  Instant next_deadline() const { return reassembly_.next_deadline(); }
  // Gives up the oldest incomplete packet if its time is over; false: there is none. See Reassembly.
  bool expire(Instant now, Ipv4Packet& first) { return reassembly_.expire(now, first); }

  const Reassembly& reassembly() const { return reassembly_; }
  const Counters& counters() const { return counters_; }

 private:
  using What = decltype(IpArrival::what);

  What receive_arp(ByteView payload);
  void receive_ipv4(Instant now, LinkId link, ByteView payload, IpArrival& arrival);
  bool is_for_us(const Interface& own, const Ipv4Packet& ip);
  bool reassemble(Instant now, const Ipv4Packet& fragment, Ipv4Packet& whole);
  What classify(LinkId link, const Ipv4Packet& ip);
  What classify_udp(const Ipv4Packet& ip);
  What classify_proxy_packet(const Ipv4Packet& ip);
  What classify_datagram(const Ipv4Packet& ip);
  What classify_icmp(LinkId link, const Ipv4Packet& ip);
  What classify_unreachable(LinkId link, const Ipv4Packet& ip, const IcmpMessage& icmp);

  std::span<const Interface> links_;
  const UdpPorts& ports_;
  std::vector<FlowFilter> filters_;  // by link: what packets for this proxy look like
  Reassembly reassembly_;
  Counters counters_;
};

}  // namespace braid::stack
