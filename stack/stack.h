// One whole replicated protocol stack: Ethernet, ARP, IPv4, UDP and the sub-connections of one proxy (paper,
// section 2.2).
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
#include "base/ids.h"
#include "base/prng.h"
#include "base/time.h"
#include "stack/neighbours.h"
#include "stack/sub_connection.h"
#include "stack/wire/addresses.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/segment.h"

namespace braid::stack {

inline constexpr unsigned kMaxClusters = 64;
inline constexpr unsigned kMaxProxiesPerCluster = 32;

// One remote proxy to have a sub-connection with.
struct RemoteStack {
  StackId id;
  Ipv4Address address;
  std::uint16_t udp_port = 0;  // of that proxy
  LinkId link;
  std::optional<MacAddress> mac;  // of it, or of the gateway before it; static: no ARP
  std::uint64_t incarnation = 0;  // of this node, as that cluster's proxies shall know it
  bool preferred = true;          // for its driver: of those of its cluster, send to this one while it lives
};

// What the stack is on one link. Links that each lead to one peer may share an address.
struct Interface {
  Ipv4Address address;
  MacAddress mac;
  // Addresses that begin with so many bits of ours are on the link; all others are reached through the
  // gateway. 0: every address is on the link.
  unsigned prefix_bits = 0;
  std::optional<Ipv4Address> gateway = std::nullopt;
};

struct StackConfig {
  StackId local;
  std::vector<Interface> interfaces;   // by link, at least one
  std::uint16_t udp_port_base = 7700;  // proxy i of this node listens on base + i
  std::uint16_t proxies = 1;           // of this node: whose ports are ours to hand over
  std::uint32_t mtu_bytes = 1500;
  SubConnectionConfig sub_connection;  // local, remote and max_payload_bytes are filled in
  std::vector<RemoteStack> remotes;
  std::uint64_t seed = 1;  // of epochs
};

struct StackStats {
  std::uint64_t packets_received = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t bad_frames = 0;
  std::uint64_t bad_ip = 0;
  std::uint64_t bad_udp = 0;
  std::uint64_t bad_packets = 0;
  std::uint64_t fragments_dropped = 0;
  std::uint64_t unknown_epoch = 0;
};

class Stack {
 public:
  // What became of a frame. For kRecords the driver walks `records`, puts each where it belongs, and calls
  // delivered(); if it cannot deliver them all it does not, and the packet will come again. The views point
  // into the frame.
  struct Received {
    enum class What : std::uint8_t { kNothing, kRecords, kMisdirected, kForAllProxies };
    // kForAllProxies: an ARP reply, which a NIC may have given to any queue; the others want to learn from it
    // too.
    What what = What::kNothing;
    ClusterId source;    // kRecords
    unsigned proxy = 0;  // kMisdirected: whose port it is
    ByteView records;    // kRecords: for RecordReader
    unsigned record_count = 0;
    SubConnection* sub_connection = nullptr;
    PacketHeader header;
  };

  Stack(const StackConfig& config, Instant now);

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

  // The sub-connections to a cluster; empty if there is none.
  std::span<SubConnection* const> to(ClusterId cluster) const {
    if (cluster.value() >= kMaxClusters) return {};
    return by_cluster_[cluster.value()];
  }

  // Could poll_transmit() have something for any link? Cheap: what an idle turn asks.
  bool wants_to_transmit(Instant now) const {
    if (neighbours_.next_deadline() <= now) return true;
    for (const auto& s : sub_connections_)
      if (s->wants_to_send(now)) return true;
    return false;
  }
  // Writes the next frame that should leave by `link` into `room` (mtu + Ethernet header) and returns its
  // length; 0 when there is none. Call for every link until 0.
  std::size_t poll_transmit(Instant now, LinkId link, MutableBytes room);

  // When poll_transmit() is due if nothing arrives.
  Instant next_deadline() const;
  void on_scheduling_gap(Instant now);
  void hurry_acknowledgements(Instant now);

  std::span<const std::unique_ptr<SubConnection>> sub_connections() const { return sub_connections_; }
  // The orderly end of all sub-connections (SC-11); closed() when nothing is left to be said.
  void close(Instant now);
  bool closed() const;
  bool all_established() const;
  const StackStats& stats() const { return stats_; }
  const StackConfig& config() const { return config_; }
  std::uint32_t frame_bytes() const { return config_.mtu_bytes + kEthernetHeader; }

 private:
  static constexpr std::uint32_t kEthernetHeader = 14;
  struct Route {
    RemoteStack remote;
    Ipv4Address next_hop;     // on the link: the remote itself, or the gateway
    bool unresolved = false;  // the last look-up gave nothing
  };

  SubConnection* find(StackId id);
  // Where a packet to `to` is handed to on this link; nullopt: nobody there takes it further.
  std::optional<Ipv4Address> next_hop(LinkId link, Ipv4Address to) const;
  void receive_arp(Instant now, LinkId link, ByteView payload, Received& received);
  void receive_ipv4(Instant now, LinkId link, ByteView payload, Received& received);
  void receive_udp(Instant now, const Ipv4Packet& ip, Received& received);
  std::size_t transmit_arp(Instant now, LinkId link, MutableBytes room);
  std::size_t transmit(Instant now, std::size_t index, const MacAddress& to, MutableBytes room);

  StackConfig config_;
  Neighbours neighbours_;
  std::vector<std::unique_ptr<SubConnection>> sub_connections_;
  std::vector<Route> routes_;  // beside sub_connections_
  std::array<std::vector<SubConnection*>, kMaxClusters> by_cluster_;
  std::array<std::array<SubConnection*, kMaxProxiesPerCluster>, kMaxClusters> by_id_{};
  std::size_t next_ = 0;  // whose turn it is to transmit
  Instant turn_began_;
  Duration unseen_;
  StackStats stats_;
};

}  // namespace braid::stack
