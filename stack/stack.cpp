#include "stack/stack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {
namespace {

constexpr std::size_t kHeadersBytes = kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;

std::vector<LocalLink> local_links(const StackConfig& config) {
  std::vector<LocalLink> links;
  for (std::uint16_t i = 0; i < config.interfaces.size(); ++i) {
    const Interface& own = config.interfaces[i];
    // Who has static neighbours only has nobody to tell. One proxy speaks for all of the node's.
    const bool announce = config.local.proxy == ProxyId(0) &&
                          std::any_of(config.remotes.begin(), config.remotes.end(),
                                      [&](const auto& r) { return r.link == LinkId(i) && !r.mac; });
    links.push_back({LinkId(i), own.mac, own.address, announce});
  }
  return links;
}

NeighboursConfig neighbours_config(const StackConfig& config) {
  NeighboursConfig n;
  n.capacity = std::max<std::uint32_t>(n.capacity, static_cast<std::uint32_t>(2 * config.remotes.size()));
  return n;
}

bool on_link(const Interface& own, Ipv4Address address) {
  return own.prefix_bits == 0 || (own.address.value() ^ address.value()) >> (32 - own.prefix_bits) == 0;
}

}  // namespace

Stack::Stack(const StackConfig& config, Instant now)
    : config_(config), neighbours_(neighbours_config(config), local_links(config)), turn_began_(now) {
  CHECK(!config.interfaces.empty());
  Prng prng(config.seed);
  for (const RemoteStack& remote : config.remotes) {
    CHECK_LT(remote.id.cluster.value(), kMaxClusters);
    CHECK_LT(remote.id.proxy.value(), kMaxProxiesPerCluster);
    CHECK_LT(remote.link.value(), config.interfaces.size());
    SubConnectionConfig sub = config.sub_connection;
    sub.local = config.local;
    sub.remote = remote.id;
    sub.incarnation = remote.incarnation;
    sub.max_payload_bytes = config.mtu_bytes - kIpv4HeaderBytes - kUdpHeaderBytes;
    const std::uint64_t epoch = prng.next() | 1;  // never 0, which says "unknown"
    sub_connections_.push_back(std::make_unique<SubConnection>(sub, epoch, now));
    SubConnection* const s = sub_connections_.back().get();
    by_cluster_[remote.id.cluster.value()].push_back(s);
    by_id_[remote.id.cluster.value()][remote.id.proxy.value()] = s;
    const std::optional<Ipv4Address> hop = next_hop(remote.link, remote.address);
    CHECK(hop.has_value());
    if (remote.mac) CHECK(neighbours_.add_static(remote.link, *hop, *remote.mac));
    routes_.push_back({remote, *hop});
  }
}

SubConnection* Stack::find(StackId id) {
  if (id.cluster.value() >= kMaxClusters || id.proxy.value() >= kMaxProxiesPerCluster) return nullptr;
  return by_id_[id.cluster.value()][id.proxy.value()];
}

std::optional<Ipv4Address> Stack::next_hop(LinkId link, Ipv4Address to) const {
  const Interface& own = config_.interfaces[link.value()];
  if (on_link(own, to)) return to;
  return own.gateway;
}

// SC-9: what is not whole, well-formed and ours moves one counter and nothing else.
Stack::Received Stack::receive(Instant now, LinkId link, ByteView bytes) {
  Received received;
  EthernetFrame frame;
  if (parse_ethernet(bytes, frame) != EthernetParse::kOk ||
      (frame.destination != config_.interfaces[link.value()].mac && !frame.destination.is_broadcast())) {
    ++stats_.bad_frames;
  } else if (frame.type == EtherType::kIpv4) {
    receive_ipv4(now, link, frame.payload, received);
  } else if (frame.type == EtherType::kArp) {
    receive_arp(now, link, frame.payload, received);
  } else {
    ++stats_.bad_frames;
  }
  return received;
}

void Stack::receive_arp(Instant now, LinkId link, ByteView payload, Received& received) {
  ArpPacket packet;
  if (parse_arp(payload, packet) != ArpParse::kOk) {
    ++stats_.bad_frames;
    return;
  }
  (void)neighbours_.on_arp(now, link, packet);  // it counts what it does
  if (packet.operation == ArpOperation::kReply || packet.is_gratuitous())
    received.what = Received::What::kForAllProxies;
}

void Stack::receive_ipv4(Instant now, LinkId link, ByteView payload, Received& received) {
  Ipv4Packet ip;
  switch (parse_ipv4(payload, ip)) {
    case Ipv4Parse::kOk:
      break;
    case Ipv4Parse::kFragment:
      ++stats_.fragments_dropped;
      return;
    case Ipv4Parse::kTruncated:
    case Ipv4Parse::kBadVersion:
    case Ipv4Parse::kBadHeaderLength:
    case Ipv4Parse::kBadTotalLength:
    case Ipv4Parse::kBadChecksum:
    case Ipv4Parse::kTimeToLiveIsOver:
    case Ipv4Parse::kBadFragment:
      ++stats_.bad_ip;
      return;
  }
  if (ip.destination != config_.interfaces[link.value()].address || ip.protocol != IpProtocol::kUdp ||
      ip.payload.size() < kUdpHeaderBytes) {
    ++stats_.bad_frames;
    return;
  }
  // Whose is it? The port says; its own stack verifies the rest.
  const unsigned proxy = load_be<std::uint16_t>(ip.payload.data() + 2) - unsigned{config_.udp_port_base};
  if (proxy == config_.local.proxy.value()) {
    receive_udp(now, ip, received);
  } else if (proxy < config_.proxies) {
    received.what = Received::What::kMisdirected;
    received.proxy = proxy;
  } else {
    ++stats_.bad_frames;
  }
}

void Stack::receive_udp(Instant now, const Ipv4Packet& ip, Received& received) {
  UdpDatagram udp;
  // Our peers always compute a checksum.
  if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk || !udp.has_checksum) {
    ++stats_.bad_udp;
    return;
  }
  std::size_t header_bytes = 0;
  if (!parse_packet_header(udp.payload, &received.header, &header_bytes)) {
    ++stats_.bad_packets;
    return;
  }
  SubConnection* const s = find(received.header.source);
  if (s == nullptr || received.header.destination != config_.local) {
    ++stats_.unknown_epoch;
    return;
  }
  ++stats_.packets_received;
  const ByteView rest = udp.payload.subspan(header_bytes);
  switch (s->on_packet(now, received.header, rest, unseen_)) {
    case PacketFate::kRecords:
      received.what = Received::What::kRecords;
      received.source = received.header.source.cluster;
      received.records = rest;
      received.record_count = received.header.records;
      received.sub_connection = s;
      return;
    case PacketFate::kNothing:
      return;
    case PacketFate::kDuplicate:
      ++stats_.duplicates;
      return;
    case PacketFate::kUnknownEpoch:
      ++stats_.unknown_epoch;
      return;
    case PacketFate::kRefused:
      ++stats_.bad_packets;
      return;
  }
}

std::size_t Stack::poll_transmit(Instant now, LinkId link, MutableBytes room) {
  CHECK_GE(room.size(), frame_bytes());
  if (neighbours_.next_deadline() <= now) {
    if (const std::size_t length = transmit_arp(now, link, room)) return length;
  }
  const std::size_t count = sub_connections_.size();
  for (std::size_t visited = 0; visited < count; ++visited) {
    const std::size_t index = next_;
    next_ = next_ + 1 == count ? 0 : next_ + 1;  // packet by packet: a busy one does not keep others waiting
    Route& route = routes_[index];
    if (route.remote.link != link || !sub_connections_[index]->wants_to_send(now)) continue;
    const std::optional<MacAddress> hop =
        route.remote.mac ? route.remote.mac : neighbours_.lookup(link, route.next_hop, now);
    route.unresolved = !hop;
    if (!hop) continue;
    if (const std::size_t length = transmit(now, index, *hop, room)) return length;
  }
  // A look-up may just have begun to ask.
  return neighbours_.next_deadline() <= now ? transmit_arp(now, link, room) : 0;
}

std::size_t Stack::transmit_arp(Instant now, LinkId link, MutableBytes room) {
  const std::optional<OutgoingArp> arp = neighbours_.poll(now, link);
  if (!arp) return 0;
  const std::size_t length =
      write_ethernet(room, arp->destination, config_.interfaces[link.value()].mac, EtherType::kArp);
  const std::size_t end = length + write_arp(room.subspan(length), arp->packet);
  std::memset(room.data() + end, 0, kEthernetMinFrameBytes - end);
  return kEthernetMinFrameBytes;
}

std::size_t Stack::transmit(Instant now, std::size_t index, const MacAddress& to, MutableBytes room) {
  SubConnection& s = *sub_connections_[index];
  const RemoteStack& remote = routes_[index].remote;
  const Interface& own = config_.interfaces[remote.link.value()];
  std::uint64_t sum = 0;
  const std::size_t payload = s.poll(now, room.subspan(kHeadersBytes), &sum);
  if (payload == 0) return 0;
  const auto source_port = static_cast<std::uint16_t>(config_.udp_port_base + config_.local.proxy.value());
  write_ethernet(room, to, own.mac, EtherType::kIpv4);
  write_ipv4(
      room.subspan(kEthernetHeaderBytes),
      {.source = own.address, .destination = remote.address, .payload_bytes = payload + kUdpHeaderBytes});
  write_udp(room.subspan(kEthernetHeaderBytes + kIpv4HeaderBytes),
            {.source = own.address,
             .destination = remote.address,
             .source_port = source_port,
             .destination_port = remote.udp_port,
             .payload_bytes = payload},
            sum);
  return kHeadersBytes + payload;
}

Instant Stack::next_deadline() const {
  Instant next = neighbours_.next_deadline();
  for (std::size_t i = 0; i < sub_connections_.size(); ++i) {
    // Who waits for ARP's answer can do nothing before it arrives, or before ARP asks again.
    if (!routes_[i].unresolved) next = earlier(next, sub_connections_[i]->next_deadline());
  }
  return next;
}

void Stack::on_scheduling_gap(Instant now) {
  for (const auto& s : sub_connections_) s->on_scheduling_gap(now);
}

void Stack::hurry_acknowledgements(Instant now) {
  for (const auto& s : sub_connections_) s->hurry_acknowledgement(now);
}

void Stack::close(Instant now) {
  for (const auto& s : sub_connections_) s->close(now);
}

bool Stack::closed() const {
  return std::all_of(sub_connections_.begin(), sub_connections_.end(),
                     [](const auto& s) { return s->state() == SubConnection::State::kClosed; });
}

bool Stack::all_established() const {
  return std::all_of(sub_connections_.begin(), sub_connections_.end(),
                     [](const auto& s) { return s->established(); });
}

}  // namespace braid::stack
