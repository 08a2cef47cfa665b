// One whole replicated protocol stack: Ethernet, ARP, IPv4, ICMP, UDP, the sub-connections of one proxy
// (paper, section 2.2) and plain datagrams.
//
// Pure: the driver gives it frames and time, asks it link by link what should leave, delivers the records
// that it hands up, and owns every message until it is finished. Owned by one proxy's worker. Nothing is
// allocated after construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ethernet.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/prng.h"
#include "base/time.h"
#include "stack/agenda.h"
#include "stack/fragmentation.h"
#include "stack/interface.h"
#include "stack/ip_sender.h"
#include "stack/neighbours.h"
#include "stack/rate_limit.h"
#include "stack/reassembly.h"
#include "stack/sub_connection.h"
#include "stack/udp_ports.h"
#include "stack/wire/addresses.h"
#include "stack/wire/flow.h"
#include "stack/wire/icmp.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/segment.h"

namespace braid::stack {

using braid::kMaxClusters;

// One remote proxy to have a sub-connection with.
struct RemoteStack {
  StackId id;
  Ipv4Address address;
  std::uint16_t udp_port = 0;  // of that proxy
  LinkId link;
  std::optional<MacAddress> mac;  // of it, or of the gateway before it; static: no ARP
  std::uint64_t incarnation = 0;  // of this node, as that cluster's proxies shall know it
  bool preferred = true;          // for its driver: of those of its cluster, send to this one while it lives
  // One of its steered ports that it shall send to us from; 0: whichever it likes.
  std::uint16_t wanted_source_port = 0;
  // Nothing but `id` is known yet: there is room for it, which set_remote() fills while everything runs.
  bool absent = false;
  // One of another logical machine, which numbers clusters in its own way and shares less: what packets say
  // instead of our names for the two ends, and the hash. What comes from it names it as `id`.
  struct Names {
    StackId us;
    StackId it;
    std::uint64_t shared_hash = 0;
  };
  std::optional<Names> names = std::nullopt;
};

// One end of a plain datagram's way.
struct Endpoint {
  Ipv4Address address;
  std::uint16_t port = 0;
  bool operator==(const Endpoint&) const = default;
};

struct StackConfig {
  StackId local;
  std::vector<Interface> interfaces;   // by link, at least one
  std::uint16_t udp_port_base = 7700;  // proxy i of this node listens on base + i
  std::uint16_t proxies = 1;           // of this node: whose ports are ours to hand over
  std::uint32_t mtu_bytes = 1500;
  Fragmentation fragmentation = Fragmentation::kTransport;
  ReassemblyConfig reassembly;
  // Datagrams and ICMP messages that may wait to leave, each of 64 KiB of address space; one more is dropped.
  std::uint32_t outgoing_packets = 16;
  Duration outgoing_patience = 3_s;  // with ARP; then they are dropped
  // Complaints about packets that we cannot take: enough for a person who tries, nothing for a flood.
  std::uint32_t icmp_errors_per_second = 100;
  std::uint32_t icmp_errors_at_once = 20;
  SubConnectionConfig sub_connection;  // local, remote and max_payload_bytes are filled in
  std::vector<RemoteStack> remotes;
  std::uint64_t seed = 1;  // of epochs and of packets' identifications
};

struct StackStats {
  std::uint64_t packets_received = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t bad_frames = 0;
  std::uint64_t bad_ip = 0;
  std::uint64_t bad_udp = 0;
  std::uint64_t bad_packets = 0;
  std::uint64_t unknown_epoch = 0;
  // IPv4
  std::uint64_t not_for_us = 0;  // right, but another host's
  std::uint64_t broadcasts = 0;  // to everybody or to a group, on the link or in IP: we are in none
  std::uint64_t martians = 0;    // from an address that no other host on such a way can have
  std::uint64_t fragments_received = 0;
  std::uint64_t packets_reassembled = 0;
  std::uint64_t fragments_dropped = 0;  // duplicates, and those of packets that were given up
  std::uint64_t packets_fragmented = 0;
  std::uint64_t fragments_sent = 0;
  std::uint64_t outgoing_dropped = 0;  // for want of room, of a way, or of ARP's answer
  // ICMP
  std::uint64_t bad_icmp = 0;
  std::uint64_t echoes_answered = 0;
  std::uint64_t icmp_errors_sent = 0;
  std::uint64_t icmp_errors_withheld = 0;  // too many
  std::uint64_t unreachables_received = 0;
  std::uint64_t icmp_ignored = 0;  // of other kinds, or not about ours
  // Plain datagrams
  std::uint64_t datagrams_received = 0;
  std::uint64_t datagrams_sent = 0;
  std::uint64_t closed_ports = 0;  // datagrams for a port that nobody bound

  bool operator==(const StackStats&) const = default;
};

// What ICMP reported about a remote: why it does not answer.
struct PathReport {
  std::uint64_t unreachables = 0;
  Unreachable reason{};         // the last
  std::uint16_t mtu_bytes = 0;  // of the narrowest link on the way, if one said so; else 0
};

// What became of a datagram.
enum class Sent : std::uint8_t {
  kQueued,   // it leaves when ARP knows where to
  kTooLong,  // more than kUdpMaxPayloadBytes
  kNoWay,    // no link leads there
  kNoRoom,   // too many are waiting: try again
};

class Stack {
 public:
  // What became of a frame. For kRecords the driver walks `records`, puts each where it belongs, and calls
  // delivered(); if it cannot deliver them all it does not, and the packet will come again. The views point
  // into the frame, or into memory that the stack leaves alone until the next receive().
  struct Received {
    enum class What : std::uint8_t {
      kNothing,
      kRecords,
      kMisdirected,    // for another proxy of this node: hand it over, all of for_each_frame()
      kForAllProxies,  // an ARP packet, which a NIC may give to any queue: the others learn from it too
      kDatagram,       // for a port that was bound
      kUnreachable,    // ICMP: what was sent to a remote, or from a bound port, could not be delivered
    };
    What what = What::kNothing;
    ClusterId source;    // kRecords
    unsigned proxy = 0;  // kMisdirected: whose port it is
    bool reassembled = false;
    Unreachable reason{};    // kUnreachable
    std::uint16_t port = 0;  // ours: kDatagram, kUnreachable of a datagram
    Endpoint peer;           // its sender, or the destination that it was sent to
    ByteView datagram;       // kDatagram
    ByteView records;        // kRecords: for RecordReader
    unsigned record_count = 0;
    SubConnection* sub_connection = nullptr;  // kRecords, kUnreachable of a sub-connection's packet
    // kRecords. Else of no meaning, and not even zero: most of this struct, for each frame.
    union {
      PacketHeader header;
    };
    Received() noexcept {}  // NOLINT
  };

  Stack(const StackConfig& config, Instant now);

  // Gives remote number `index`, whose sub-connection is fenced or closed, another place (and no static
  // neighbour); its cluster and proxy stay. Not on the message path. False: no link leads to that address.
  [[nodiscard]] bool set_remote(std::size_t index, const RemoteStack& remote);

  // A turn of the driver begins: what it finds may lie there since the last one began, which is no delay of
  // the network's.
  void begin_turn(Instant now) {
    unseen_ = now - turn_began_;
    turn_began_ = now;
  }
  Received receive(Instant now, LinkId link, ByteView frame);
  void delivered(Instant now, const Received& received) {
    received.sub_connection->delivered(now, received.header);
  }
  // The records turned out to be malformed: counted, never acknowledged.
  void malformed() { ++stats_.bad_packets; }

  // kMisdirected: calls f(frame) for what is to be handed over. `frame` is the one that was received; where
  // it completed a packet of fragments, frames that bring the other stack the same packet stand in for it.
  template <class F>
  void for_each_frame(LinkId link, const Received& received, ByteView frame, F&& f) {
    if (!received.reassembled) {
      f(frame);
      return;
    }
    for (ByteView next = sender_.next_handover(link); !next.empty(); next = sender_.next_handover(link))
      f(next);
  }

  // Plain datagrams. Ports that are no proxy's belong to proxy 0: only its stack binds any, and only it says
  // that one is closed. False: the port is a proxy's, or taken.
  [[nodiscard]] bool bind(std::uint16_t port) { return ports_.bind(port); }
  void unbind(std::uint16_t port) { ports_.unbind(port); }
  // From a bound port, or from any other that is no proxy's. The bytes are copied.
  [[nodiscard]] Sent send_datagram(Instant now, std::uint16_t from, const Endpoint& to, ByteView payload);

  // The sub-connections to a cluster; empty if there is none.
  std::span<SubConnection* const> to(ClusterId cluster) const {
    if (cluster.value() >= kMaxClusters) return {};
    return by_cluster_[cluster.value()];
  }

  // Could poll_transmit() have something for any link? Cheap: what an idle turn asks.
  bool wants_to_transmit(Instant now) {
    if (neighbours_.next_deadline() <= now || reassembly_.next_deadline() <= now) return true;
    if (!sender_.idle()) return true;
    agenda_.collect(now);
    return agenda_.any_ready();
  }
  // Writes the next frame that should leave by `link` into `room` (mtu + Ethernet header) and returns its
  // length; 0 when there is none. Call for every link until 0.
  std::size_t poll_transmit(Instant now, LinkId link, MutableBytes room);

  // When poll_transmit() is due if nothing arrives.
  Instant next_deadline();
  void on_scheduling_gap(Instant now);
  void flush_acks(Instant now);

  std::span<const std::unique_ptr<SubConnection>> sub_connections() const { return sub_connections_; }
  // Which of them, by their indices, have finished messages or another state than the driver saw last.
  Agenda& agenda() { return agenda_; }
  // The orderly end of all sub-connections (SC-11); closed() when all are closed.
  void close(Instant now);
  bool closed() const;
  // Of those of this machine.
  bool all_established() const;
  StackStats stats() const;
  // `index` counts as sub_connections() does, here and below.
  const RemoteStack& remote(std::size_t index) const { return routes_[index].remote; }
  const PathReport& path_report(std::size_t index) const { return routes_[index].report; }
  const Reassembly& reassembly() const { return reassembly_; }
  const Neighbours& neighbours() const { return neighbours_; }
  const StackConfig& config() const { return config_; }
  std::uint32_t frame_bytes() const { return config_.mtu_bytes + kEthernetHeaderBytes; }

 private:
  struct Route {
    RemoteStack remote;
    SubConnection* sub_connection = nullptr;
    FlowHeader header;                    // of its packets, to the station that was the last known
    Ipv4Address next_hop;                 // on the link: the remote itself, or the gateway
    std::uint16_t asked_source_port = 0;  // that `header` was made for
    bool settled = false;                 // no look-up is needed: its station is a static neighbour
    bool unresolved = false;              // the last look-up gave nothing
    PathReport report{};
  };
  // Where a datagram goes from here.
  struct Way {
    LinkId link;
    Ipv4Address next_hop;
  };

  SubConnection* find(StackId id);
  void name_ends(SubConnectionConfig& sub, const RemoteStack& remote) const;
  std::size_t max_payload_bytes() const;
  [[gnu::noinline]] void receive_other(Instant now, LinkId link, ByteView bytes, Received& received);
  void receive_arp(Instant now, LinkId link, ByteView payload, Received& received);
  void receive_ipv4(Instant now, LinkId link, ByteView payload, Received& received);
  void receive_fragment(Instant now, LinkId link, const Ipv4Packet& fragment, Received& received);
  bool is_for_us(const Interface& own, const Ipv4Packet& ip);
  void take(Instant now, LinkId link, const Ipv4Packet& ip, Received& received);
  void take_udp(Instant now, LinkId link, const Ipv4Packet& ip, Received& received);
  void take_packet(Instant now, ByteView payload, Received& received);
  void take_datagram(Instant now, LinkId link, const Ipv4Packet& ip, Received& received);
  void take_icmp(Instant now, LinkId link, const Ipv4Packet& ip, Received& received);
  void take_unreachable(LinkId link, const IcmpMessage& icmp, Received& received);
  bool report_unreachable(LinkId link, const IcmpMessage& icmp, Received& received);
  void answer_echo(Instant now, LinkId link, const Ipv4Packet& ip, const IcmpMessage& echo);
  void complain(Instant now, LinkId link, const Ipv4Packet& about, IcmpType type, std::uint8_t code);
  void give_up_fragments(Instant now);
  std::optional<Way> way_to(Ipv4Address to) const;
  [[gnu::noinline]] std::size_t transmit_others(Instant now, LinkId link, MutableBytes room);
  [[gnu::noinline]] std::size_t transmit_due(Instant now, LinkId link, MutableBytes room);
  [[gnu::noinline]] std::size_t transmit_sub_connections(Instant now, LinkId link, MutableBytes room);
  bool resolve(Instant now, Route& route);
  std::size_t transmit_route(Instant now, Route& route, MutableBytes room);
  std::size_t transmit_long(Instant now, Route& route, MutableBytes room);
  std::size_t transmit_arp(Instant now, LinkId link, MutableBytes room);
  std::size_t transmit(Instant now, Route& route, MutableBytes room);

  StackConfig config_;
  UdpPorts ports_;
  Neighbours neighbours_;
  Agenda agenda_;
  std::vector<std::unique_ptr<SubConnection>> sub_connections_;
  std::vector<Route> routes_;  // beside sub_connections_
  std::array<std::vector<SubConnection*>, kMaxClusters> by_cluster_;
  std::array<std::array<SubConnection*, kMaxProxiesPerCluster>, kMaxClusters> by_id_{};
  // Of each link: whose turn it is to transmit, of all routes, and what packets for us look like.
  struct Link {
    std::size_t next = 0;
    FlowFilter filter;
  };
  std::vector<Link> links_;
  bool any_unresolved_ = false;  // some route may wait for ARP's answer
  Instant turn_began_;
  Duration unseen_;
  Reassembly reassembly_;
  IpSender sender_;
  bool queueds_turn_ = false;  // the sender's queue and the sub-connections take turns, frame by frame
  RateLimit icmp_errors_;
  StackStats stats_;
};

}  // namespace braid::stack
