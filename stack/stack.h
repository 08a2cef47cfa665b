// One whole replicated protocol stack: Ethernet, ARP, IPv4, ICMP, UDP, the sub-connections of one proxy
// (paper, section 2.2) and plain datagrams.
//
// Pure: the driver gives it frames and time, asks it link by link what should leave, delivers the records
// that it hands up, and owns every message until it is finished. Owned by one proxy's worker. After construction
// only sub-connections allocate, as more of their packets are in flight than since they were quiet (SC-8).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ethernet.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/prng.h"
#include "base/time.h"
#include "stack/agenda.h"
#include "stack/hello_limits.h"
#include "stack/icmp_sender.h"
#include "stack/interface.h"
#include "stack/ip_receiver.h"
#include "stack/ip_sender.h"
#include "stack/neighbours.h"
#include "stack/reassembly.h"
#include "stack/remote.h"
#include "stack/remotes.h"
#include "stack/stack_config.h"
#include "stack/sub_connection.h"
#include "stack/udp_ports.h"
#include "stack/wire/icmp.h"
#include "stack/wire/segment.h"

namespace braid::stack {

struct StackStats {
  std::uint64_t packets_received = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t bad_frames = 0;
  std::uint64_t bad_ip = 0;
  std::uint64_t bad_udp = 0;
  std::uint64_t bad_packets = 0;
  std::uint64_t other_versions = 0;  // packets of another version of the transport
  std::uint64_t unknown_epoch = 0;
  // Sealed packets (SE-2, SE-5, SE-6)
  std::uint64_t refused_no_secret = 0;     // hellos of senders without a secret
  std::uint64_t refused_other_secret = 0;  // and with another
  std::uint64_t refused_sealed = 0;        // with one, and we have none
  std::uint64_t hellos_unread = 0;         // more came than are read (SE-11)
  std::uint64_t forged_packets = 0;        // of our connections' epochs, but not sealed with their keys
  std::uint64_t replayed_packets = 0;
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

// A peer was found at another address than it had, or than its configuration says (SE-8, SE-10).
struct AddressMove {
  StackId peer;
  Endpoint from;
  Endpoint to;
  bool operator==(const AddressMove&) const = default;
};

// The result of sending a datagram.
enum class Sent : std::uint8_t {
  kQueued,   // it leaves when ARP knows where to
  kTooLong,  // more than kUdpMaxPayloadBytes
  kNoWay,    // no link leads there
  kNoRoom,   // too many are waiting: try again
};

class Stack {
 public:
  // The result of a received frame. For kRecords the driver delivers each of `records` and calls delivered(). If
  // it cannot deliver all it does not call it, and the peer retransmits the packet. The views point
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

  // Gives remote number `index`, whose sub-connection is fenced or closed, another address (and no static
  // neighbour); its cluster and proxy stay. Not on the message path. False: its link does not lead to that
  // address.
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
  // The version of the last packet that was not of ours (PS-7); 0: there was none, or it was 0.
  std::uint8_t other_version() const { return other_version_; }
  // Why the last sender was refused that has no secret, another, or one where we have none (SE-2); kNone: there was
  // no such sender.
  Refusal refused_sender() const { return refused_sender_; }

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
    if (cluster.value() >= by_cluster_.size()) return {};
    return by_cluster_[cluster.value()];
  }

  // Could poll_transmit() have something for any link? Cheap: what an idle turn asks.
  bool wants_to_transmit(Instant now) {
    if (neighbours_.next_deadline() <= now || receiver_.next_deadline() <= now) return true;
    if (!sender_.idle()) return true;
    agenda_.collect(now);
    return agenda_.any_ready();
  }
  // Writes the next frame that should leave by `link` into `room` (mtu + Ethernet header) and returns its
  // length; 0 when there is none. Call for every link until 0.
  std::size_t poll_transmit(Instant now, LinkId link, MutableBytes room);

  // A peer that has moved, once for each that did since the last call; where it began, and where it is.
  std::optional<AddressMove> take_address_move();
  // Two stations that claim one address, once, and at most one in ten seconds: for the log.
  std::optional<AddressConflict> take_address_conflict() { return neighbours_.take_conflict(); }

  // When poll_transmit() is due if nothing arrives.
  Instant next_deadline();
  // The worker did not run for `gap` until now (SC-8).
  void on_scheduling_gap(Instant now, Duration gap);
  void flush_acks(Instant now);

  std::span<const std::unique_ptr<SubConnection>> sub_connections() const { return sub_connections_; }
  // Which of them, by their indices, have finished messages or another state than the driver saw last.
  Agenda& agenda() { return agenda_; }
  // The orderly end of all sub-connections (SC-11); closed() when all are closed.
  void close(Instant now);
  bool closed() const;
  // Of those of this machine that do not wait for their first use.
  bool all_established() const;
  StackStats stats() const;
  // `index` counts as sub_connections() does, here and below.
  const RemoteStack& remote(std::size_t index) const { return remotes_[index].remote; }
  const PathReport& path_report(std::size_t index) const { return remotes_[index].report; }
  const Reassembly& reassembly() const { return receiver_.reassembly(); }
  const Neighbours& neighbours() const { return neighbours_; }
  const StackConfig& config() const { return config_; }
  std::uint32_t frame_bytes() const { return config_.mtu_bytes + kEthernetHeaderBytes; }

 private:
  SubConnection* find(StackId id);
  void add_remote(const RemoteStack& remote, std::uint64_t epoch, Instant now);
  void let_move(const RemoteStack& remote, SubConnection& sub);

  [[gnu::noinline]] void receive_other(Instant now, LinkId link, ByteView frame, Received& received);
  // One for each kind of arrival.
  void take(Instant /*now*/, LinkId /*link*/, std::monostate, Received& /*received*/) {}
  void take(Instant now, LinkId link, const ArpPacket& packet, Received& received);
  void take(Instant now, LinkId link, const ProxyPacket& packet, Received& received);
  void take(Instant now, LinkId link, const PlainDatagram& datagram, Received& received);
  void take(Instant now, LinkId link, const EchoRequest& echo, Received& received);
  void take(Instant now, LinkId link, const UnreachableReport& report, Received& received);
  void take(Instant now, LinkId link, const Undeliverable& packet, Received& received);
  void take(Instant now, LinkId link, const Misdirected& packet, Received& received);
  // `source`: the sender's address, as IP headers have it.
  void take_packet(Instant now, const Origin& from, const std::byte* source, ByteView payload,
                   Received& received);
  [[gnu::noinline]] bool may_read_hello(Instant now, const SubConnection& sub, const PacketHeader& hello,
                                        const std::byte* source);
  [[gnu::noinline]] void follow(const SubConnection& moved);
  void refuse_packet(ByteView payload);
  void count_refusal(Refusal why);
  void give_up_fragments(Instant now);

  [[gnu::noinline]] std::size_t transmit_others(Instant now, LinkId link, MutableBytes room);
  [[gnu::noinline]] std::size_t transmit_due(Instant now, LinkId link, MutableBytes room);
  [[gnu::noinline]] std::size_t transmit_sub_connections(Instant now, LinkId link, MutableBytes room);
  std::size_t transmit(Instant now, const Route& route, SubConnection& sub, MutableBytes room);
  std::size_t transmit_whole(Instant now, const Route& route, SubConnection& sub, MutableBytes room);
  std::size_t transmit_long(Instant now, const Route& route, SubConnection& sub, MutableBytes room);
  void doubt_silent(Instant now, std::size_t index);
  std::size_t transmit_arp(Instant now, LinkId link, MutableBytes room);

  StackConfig config_;
  UdpPorts ports_;
  Neighbours neighbours_;
  Agenda agenda_;
  std::vector<std::unique_ptr<SubConnection>> sub_connections_;
  mutable std::size_t last_missing_ = 0;  // the one that kept all_established() from being true, if one did
  Remotes remotes_;                       // beside sub_connections_
  // By cluster, up to the last one that has a remote; and then by proxy.
  std::vector<std::vector<SubConnection*>> by_cluster_;
  struct Known {
    SubConnection* sub_connection = nullptr;
    std::size_t index = 0;  // of its remote
  };
  std::vector<std::array<Known, kMaxProxiesPerCluster>> by_id_;
  std::vector<std::size_t> next_by_link_;  // whose turn it is to transmit, of all remotes
  Instant turn_began_;
  Duration unseen_;
  IpReceiver receiver_;
  IpSender sender_;
  bool queueds_turn_ = false;  // the sender's queue and the sub-connections take turns, frame by frame
  IcmpSender icmp_;
  HelloLimits hello_limits_;
  StackStats stats_;                // of what the stack itself counts
  std::vector<AddressMove> moves_;  // not taken yet; of a peer one at most
  std::uint8_t other_version_ = 0;
  Refusal refused_sender_ = Refusal::kNone;
};

}  // namespace braid::stack
