#include "stack/stack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {
namespace {

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

// What every IPv4 host must take (RFC 791); below it no packet of ours is sure to fit.
constexpr std::uint32_t kMinMtuBytes = 576;
// The longest piece, and the longest headers before it.
constexpr std::size_t kWholePiecePacketBytes = kMaxPacketHeaderBytes + kPartRecordBytes + kMaxPieceBytes;
static_assert(kWholePiecePacketBytes <= kUdpMaxPayloadBytes);

bool on_link(const Interface& own, Ipv4Address address) {
  return own.prefix_bits == 0 || (own.address.value() ^ address.value()) >> (32 - own.prefix_bits) == 0;
}

// To all hosts on the link (RFC 922). A link of two or without a prefix has no such address.
bool is_subnet_broadcast(const Interface& own, Ipv4Address address) {
  if (own.prefix_bits == 0 || own.prefix_bits > 30 || !on_link(own, address)) return false;
  const std::uint32_t host_bits = 0xffffffffu >> own.prefix_bits;
  return (address.value() & host_bits) == host_bits || (address.value() & host_bits) == 0;
}

// An address that no other host sends from (RFC 1122, 3.2.1.3; RFC 1812, 5.3.7).
bool is_martian(const Interface& own, Ipv4Address source) {
  const std::uint32_t network = source.value() >> 24;
  return network - 1 >= 223 || network == 127 || source == own.address || is_subnet_broadcast(own, source);
}

}  // namespace

std::optional<LinkId> link_to(std::span<const Interface> links, Ipv4Address to) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (on_link(links[i], to) && (!best || links[i].prefix_bits > links[*best].prefix_bits)) best = i;
  for (std::size_t i = 0; i < links.size() && !best; ++i)
    if (links[i].gateway) best = i;
  return best ? std::optional(LinkId(static_cast<std::uint16_t>(*best))) : std::nullopt;
}

Stack::Stack(const StackConfig& config, Instant now)
    : config_(config),
      neighbours_(neighbours_config(config), local_links(config)),
      agenda_(config.remotes.size()),
      turn_began_(now),
      reassembly_(config.reassembly),
      outgoing_(config.outgoing_packets),
      again_room_(frame_bytes()),
      icmp_errors_(config.icmp_errors_per_second, config.icmp_errors_at_once) {
  CHECK(!config.interfaces.empty());
  CHECK_GE(config.mtu_bytes, kMinMtuBytes);
  for (const Interface& own : config.interfaces)
    links_.push_back({.next = 0, .filter = FlowFilter(own.mac, own.address, own_port())});
  routes_.reserve(config.remotes.size());
  Prng prng(config.seed);
  for (const RemoteStack& remote : config.remotes) {
    CHECK_LT(remote.id.cluster.value(), kMaxClusters);
    CHECK_LT(remote.id.proxy.value(), kMaxProxiesPerCluster);
    CHECK_LT(remote.link.value(), config.interfaces.size());
    SubConnectionConfig sub = config.sub_connection;
    name_ends(sub, remote);
    sub.incarnation = remote.incarnation;
    sub.wanted_source_port = remote.wanted_source_port;
    sub.max_payload_bytes = max_payload_bytes();
    const std::uint64_t epoch = prng.next() | 1;  // never 0, which says "unknown"
    sub_connections_.push_back(
        std::make_unique<SubConnection>(sub, epoch, now, agenda_.entry(sub_connections_.size())));
    SubConnection* const s = sub_connections_.back().get();
    by_cluster_[remote.id.cluster.value()].push_back(s);
    by_id_[remote.id.cluster.value()][remote.id.proxy.value()] = s;
    if (remote.absent) {
      CHECK(s->fence(now) == nullptr);
      routes_.push_back({.remote = remote, .sub_connection = s, .header = {}, .next_hop = {}});
      continue;
    }
    const std::optional<Ipv4Address> hop = next_hop(remote.link, remote.address);
    CHECK(hop.has_value());
    if (remote.mac) CHECK(neighbours_.add_static(remote.link, *hop, *remote.mac));
    routes_.push_back({.remote = remote, .sub_connection = s, .header = {}, .next_hop = *hop});
  }
  identification_ = static_cast<std::uint16_t>(prng.next() * std::bit_ceil(unsigned{config.proxies}) +
                                               config.local.proxy.value());
  if (config.fragmentation == Fragmentation::kIp) {
    cuts_.resize(config.interfaces.size());
    cut_memory_ = std::make_unique_for_overwrite<std::byte[]>(cuts_.size() * kIpv4MaxPacketBytes);
    for (std::size_t i = 0; i < cuts_.size(); ++i)
      cuts_[i].packet.payload = cut_memory_.get() + i * kIpv4MaxPacketBytes;
  }
}

void Stack::name_ends(SubConnectionConfig& sub, const RemoteStack& remote) const {
  sub.local = remote.names ? remote.names->us : config_.local;
  sub.remote = remote.names ? remote.names->it : remote.id;
  sub.shared_hash = remote.names ? remote.names->shared_hash : config_.sub_connection.shared_hash;
}

bool Stack::set_remote(std::size_t index, const RemoteStack& remote) {
  Route& route = routes_[index];
  CHECK(route.remote.id == remote.id);
  CHECK_LT(remote.link.value(), links_.size());
  const std::optional<Ipv4Address> hop = next_hop(remote.link, remote.address);
  if (!hop) return false;
  SubConnectionConfig ends = route.sub_connection->config();
  name_ends(ends, remote);
  route.sub_connection->rename(ends.local, ends.remote, ends.shared_hash);
  // Its station too is another one, though it may be the same gateway.
  route = {.remote = remote, .sub_connection = route.sub_connection, .header = {}, .next_hop = *hop};
  route.remote.mac.reset();
  return true;
}

std::size_t Stack::max_payload_bytes() const {
  if (config_.fragmentation == Fragmentation::kIp) return kWholePiecePacketBytes;
  return config_.mtu_bytes - kIpv4HeaderBytes - kUdpHeaderBytes;
}

SubConnection* Stack::find(StackId id) {
  if (id.cluster.value() >= kMaxClusters || id.proxy.value() >= kMaxProxiesPerCluster) return nullptr;
  return by_id_[id.cluster.value()][id.proxy.value()];
}

// ARP-2
std::optional<Ipv4Address> Stack::next_hop(LinkId link, Ipv4Address to) const {
  const Interface& own = config_.interfaces[link.value()];
  if (on_link(own, to)) return to;
  return own.gateway;
}

// SC-9: what is not whole, well-formed and ours moves one counter and nothing else.
Stack::Received Stack::receive(Instant now, LinkId link, ByteView bytes) {
  Received received;
  Ipv4Address source;
  if (const ByteView payload = links_[link.value()].filter.match(bytes, source);
      payload.data() != nullptr && !is_martian(config_.interfaces[link.value()], source)) {
    take_packet(now, payload, received);
  } else {
    receive_other(now, link, bytes, received);
  }
  return received;
}

// Kept apart from what nearly all frames are, which needs little room on the stack.
void Stack::receive_other(Instant now, LinkId link, ByteView bytes, Received& received) {
  EthernetFrame frame;
  if (parse_ethernet(bytes, frame) != EthernetParse::kOk) {
    ++stats_.bad_frames;
    return;
  }
  const bool to_us = frame.destination == config_.interfaces[link.value()].mac;
  if (!to_us && !frame.destination.is_broadcast()) {
    ++stats_.bad_frames;
  } else if (frame.type == EtherType::kIpv4) {
    // RFC 1122, 3.3.6: what comes to everybody on the link is for one host only by mistake.
    if (to_us)
      receive_ipv4(now, link, frame.payload, received);
    else
      ++stats_.broadcasts;
  } else if (frame.type == EtherType::kArp) {
    receive_arp(now, link, frame.payload, received);
  } else {
    ++stats_.bad_frames;
  }
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
      if (is_for_us(config_.interfaces[link.value()], ip)) take(now, link, ip, received);
      return;
    case Ipv4Parse::kFragment:
      // Judged before it takes memory.
      if (is_for_us(config_.interfaces[link.value()], ip)) receive_fragment(now, link, ip, received);
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
}

// IP-1. An address is its link's alone (IP-5).
bool Stack::is_for_us(const Interface& own, const Ipv4Packet& ip) {
  if (ip.destination != own.address) {
    const bool to_many = !ip.destination.is_unicast() || is_subnet_broadcast(own, ip.destination);
    ++(to_many ? stats_.broadcasts : stats_.not_for_us);
    return false;
  }
  if (is_martian(own, ip.source)) {
    ++stats_.martians;
    return false;
  }
  return true;
}

// IP-2
void Stack::receive_fragment(Instant now, LinkId link, const Ipv4Packet& fragment, Received& received) {
  ++stats_.fragments_received;
  Ipv4Packet whole;
  switch (reassembly_.add(now, fragment, whole)) {
    case FragmentFate::kKept:
      return;
    case FragmentFate::kDuplicate:
    case FragmentFate::kOverlap:
    case FragmentFate::kGivenUp:
      ++stats_.fragments_dropped;
      return;
    case FragmentFate::kComplete:
      break;
  }
  ++stats_.packets_reassembled;
  received.reassembled = true;
  take(now, link, whole, received);
  if (received.what != Received::What::kMisdirected) return;
  again_.source = whole.source;
  again_.destination = whole.destination;
  again_.protocol = whole.protocol;
  again_.type_of_service = whole.type_of_service;
  again_.identification = whole.identification;
  again_.payload = const_cast<std::byte*>(whole.payload.data());  // read only
  again_.bytes = static_cast<std::uint32_t>(whole.payload.size());
  again_.left = 0;
}

std::size_t Stack::next_frame_again(LinkId link) {
  if (again_.done()) return 0;
  const MacAddress& own = config_.interfaces[link.value()].mac;
  return write_next_frame(again_, own, own, config_.mtu_bytes, again_room_);
}

// A whole packet for us.
void Stack::take(Instant now, LinkId link, const Ipv4Packet& ip, Received& received) {
  if (ip.protocol == IpProtocol::kUdp) {
    take_udp(now, link, ip, received);
  } else if (ip.protocol == IpProtocol::kIcmp) {
    take_icmp(now, link, ip, received);
  } else {
    ++stats_.bad_frames;
    complain(now, link, ip, IcmpType::kUnreachable, static_cast<std::uint8_t>(Unreachable::kProtocol));
  }
}

// Whose is it? The port says; its own stack verifies the rest. UDP-2
void Stack::take_udp(Instant now, LinkId link, const Ipv4Packet& ip, Received& received) {
  if (ip.payload.size() < kUdpHeaderBytes) {
    ++stats_.bad_udp;
    return;
  }
  const unsigned proxy = load_be<std::uint16_t>(ip.payload.data() + 2) - unsigned{config_.udp_port_base};
  const unsigned own = config_.local.proxy.value();
  if (proxy == own) {
    UdpDatagram udp;
    // UDP-1: our peers always compute a checksum.
    if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk || !udp.has_checksum)
      ++stats_.bad_udp;
    else
      take_packet(now, udp.payload, received);
  } else if (proxy < config_.proxies || own != kDatagramProxy) {
    received.what = Received::What::kMisdirected;
    received.proxy = proxy < config_.proxies ? proxy : kDatagramProxy;
  } else {
    take_datagram(now, link, ip, received);
  }
}

void Stack::take_packet(Instant now, ByteView payload, Received& received) {
  std::size_t header_bytes = 0;
  if (!parse_packet_header(payload, &received.header, &header_bytes)) {
    ++stats_.bad_packets;
    return;
  }
  SubConnection* const s = find(received.header.source);
  if (s == nullptr || received.header.destination != config_.local) {
    ++stats_.unknown_epoch;
    return;
  }
  ++stats_.packets_received;
  const ByteView rest = payload.subspan(header_bytes);
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

void Stack::take_datagram(Instant now, LinkId link, const Ipv4Packet& ip, Received& received) {
  UdpDatagram udp;
  if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk) {
    ++stats_.bad_udp;
    return;
  }
  if (!is_bound(udp.destination_port)) {
    ++stats_.closed_ports;
    complain(now, link, ip, IcmpType::kUnreachable, static_cast<std::uint8_t>(Unreachable::kPort));
    return;
  }
  ++stats_.datagrams_received;
  received.what = Received::What::kDatagram;
  received.port = udp.destination_port;
  received.peer = {ip.source, udp.source_port};
  received.datagram = udp.payload;
}

// ---------------------------------------------------------------- ICMP

void Stack::take_icmp(Instant now, LinkId link, const Ipv4Packet& ip, Received& received) {
  IcmpMessage icmp;
  if (parse_icmp(ip.payload, icmp) != IcmpParse::kOk) {
    ++stats_.bad_icmp;
  } else if (icmp.type == IcmpType::kEcho) {
    answer_echo(now, link, ip, icmp);
  } else if (icmp.type == IcmpType::kUnreachable) {
    take_unreachable(link, icmp, received);
  } else {
    ++stats_.icmp_ignored;
  }
}

// IC-1
void Stack::answer_echo(Instant now, LinkId link, const Ipv4Packet& ip, const IcmpMessage& echo) {
  OutgoingPacket* const packet = outgoing_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(link, ip.source);
  if (packet == nullptr || !hop) {
    ++stats_.outgoing_dropped;
    return;
  }
  const MutableBytes room = packet->room();
  const std::uint64_t sum = copy_and_sum(room.data() + kIcmpHeaderBytes, echo.body.data(), echo.body.size());
  write_icmp(room, IcmpType::kEchoReply, 0, echo.rest, sum);
  packet->link = link;
  packet->next_hop = *hop;
  packet->source = ip.destination;
  packet->destination = ip.source;
  packet->protocol = IpProtocol::kIcmp;
  packet->type_of_service = ip.type_of_service;
  packet->bytes = static_cast<std::uint32_t>(kIcmpHeaderBytes + echo.body.size());
  push(now, *packet);
  ++stats_.echoes_answered;
}

// IC-3
void Stack::take_unreachable(LinkId link, const IcmpMessage& icmp, Received& received) {
  IcmpQuote quote;
  if (!parse_icmp_quote(icmp.body, quote)) {
    ++stats_.bad_icmp;
    return;
  }
  if (quote.source != config_.interfaces[link.value()].address || quote.protocol != IpProtocol::kUdp) {
    ++stats_.icmp_ignored;  // of another incarnation of this address, or made up
    return;
  }
  const unsigned own = config_.local.proxy.value();
  const std::optional<unsigned> proxy = proxy_of(quote.source_port);
  const unsigned whose = proxy.value_or(kDatagramProxy);
  if (whose != own) {
    received.what = Received::What::kMisdirected;
    received.proxy = whose;
    return;
  }
  received.peer = {quote.destination, quote.destination_port};
  received.reason = Unreachable{icmp.code};
  if (!proxy) {
    if (!is_bound(quote.source_port)) {
      ++stats_.icmp_ignored;
      return;
    }
    ++stats_.unreachables_received;
    received.what = Received::What::kUnreachable;
    received.port = quote.source_port;
    return;
  }
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    Route& route = routes_[i];
    if (route.remote.link != link || received.peer != Endpoint{route.remote.address, route.remote.udp_port})
      continue;
    ++stats_.unreachables_received;
    ++route.report.unreachables;
    agenda_.entry(i).set_changed();
    route.report.reason = received.reason;
    if (received.reason == Unreachable::kTooBig)
      route.report.mtu_bytes = static_cast<std::uint16_t>(icmp.rest);
    received.what = Received::What::kUnreachable;
    received.sub_connection = sub_connections_[i].get();
    return;
  }
  ++stats_.icmp_ignored;
}

// IC-2. It is about a whole packet that came to us alone from one host.
void Stack::complain(Instant now, LinkId link, const Ipv4Packet& about, IcmpType type, std::uint8_t code) {
  if (about.protocol == IpProtocol::kIcmp && !about.payload.empty() &&
      is_error(IcmpType{load<std::uint8_t>(about.payload.data())}))
    return;
  OutgoingPacket* const packet = outgoing_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(link, about.source);
  if (packet == nullptr || !hop || !icmp_errors_.allow(now)) {
    ++stats_.icmp_errors_withheld;
    return;
  }
  const MutableBytes room = packet->room();
  const MutableBytes body = room.subspan(kIcmpHeaderBytes);
  const std::size_t quoted = std::min(about.payload.size(), kIcmpQuotedPayloadBytes);
  std::memcpy(body.data(), about.header.data(), about.header.size());
  std::memcpy(body.data() + about.header.size(), about.payload.data(), quoted);
  const std::size_t body_bytes = about.header.size() + quoted;
  write_icmp(room, type, code, 0, checksum_add(0, body.first(body_bytes)));
  packet->link = link;
  packet->next_hop = *hop;
  packet->source = about.destination;
  packet->destination = about.source;
  packet->protocol = IpProtocol::kIcmp;
  packet->type_of_service = 0;
  packet->bytes = static_cast<std::uint32_t>(kIcmpHeaderBytes + body_bytes);
  push(now, *packet);
  ++stats_.icmp_errors_sent;
}

// IC-4
void Stack::give_up_fragments(Instant now) {
  Ipv4Packet first;
  while (reassembly_.expire(now, first)) {
    if (first.payload.empty()) continue;
    if (const std::optional<Way> way = way_to(first.source))
      complain(now, way->link, first, IcmpType::kTimeExceeded, kReassemblyTimeExceeded);
  }
}

// ---------------------------------------------------------------- plain datagrams

std::optional<unsigned> Stack::proxy_of(std::uint16_t port) const {
  const unsigned listens = port - unsigned{config_.udp_port_base};
  if (listens < config_.proxies) return listens;
  const unsigned sends = (port - unsigned{first_steered_port(0)}) / kSteeredPortsPerProxy;
  if (sends < config_.proxies) return sends;
  return std::nullopt;
}

// SC-12. A peer cannot make us send from a port that is somebody else's.
std::uint16_t Stack::source_port(std::uint16_t asked) const {
  const unsigned n = asked - unsigned{first_steered_port(config_.local.proxy.value())};
  return n < kSteeredPortsPerProxy ? asked : own_port();
}

bool Stack::is_bound(std::uint16_t port) const {
  return std::find(bound_.begin(), bound_.end(), port) != bound_.end();
}

bool Stack::bind(std::uint16_t port) {
  CHECK_EQ(config_.local.proxy.value(), kDatagramProxy);
  if (port == 0 || proxy_of(port) || is_bound(port)) return false;
  bound_.push_back(port);
  return true;
}

void Stack::unbind(std::uint16_t port) {
  std::erase(bound_, port);
}

// The link that leads to a remote at this address, else the one that it is on, else one with a gateway.
std::optional<Stack::Way> Stack::way_to(Ipv4Address to) const {
  for (const Route& route : routes_)
    if (route.remote.address == to) return Way{route.remote.link, route.next_hop};
  const std::optional<LinkId> link = link_to(config_.interfaces, to);
  return link ? std::optional(Way{*link, *next_hop(*link, to)}) : std::nullopt;
}

Sent Stack::send_datagram(Instant now, std::uint16_t from, const Endpoint& to, ByteView payload) {
  if (payload.size() > kUdpMaxPayloadBytes) return Sent::kTooLong;
  const std::optional<Way> way = to.address.is_unicast() ? way_to(to.address) : std::nullopt;
  if (!way) return Sent::kNoWay;
  OutgoingPacket* const packet = outgoing_.reserve();
  if (packet == nullptr) return Sent::kNoRoom;
  packet->link = way->link;
  packet->next_hop = way->next_hop;
  packet->source = config_.interfaces[way->link.value()].address;
  packet->destination = to.address;
  packet->protocol = IpProtocol::kUdp;
  packet->type_of_service = 0;
  packet->bytes = static_cast<std::uint32_t>(kUdpHeaderBytes + payload.size());
  const MutableBytes room = packet->room();
  const std::uint64_t sum = copy_and_sum(room.data() + kUdpHeaderBytes, payload.data(), payload.size());
  write_udp(room,
            {.source = packet->source,
             .destination = to.address,
             .source_port = from,
             .destination_port = to.port,
             .payload_bytes = payload.size()},
            sum);
  push(now, *packet);
  ++stats_.datagrams_sent;
  return Sent::kQueued;
}

void Stack::push(Instant now, OutgoingPacket& packet) {
  packet.until = now + config_.outgoing_patience;
  packet.identification = next_identification();
  outgoing_.push(packet);
}

// IP-4: the proxies of a node share its addresses, so each has numbers of its own.
std::uint16_t Stack::next_identification() {
  identification_ = static_cast<std::uint16_t>(identification_ + std::bit_ceil(unsigned{config_.proxies}));
  return identification_;
}

// ---------------------------------------------------------------- departures

std::size_t Stack::poll_transmit(Instant now, LinkId link, MutableBytes room) {
  CHECK_GE(room.size(), frame_bytes());
  const bool others = neighbours_.next_deadline() <= now || reassembly_.next_deadline() <= now ||
                      !outgoing_.empty() || unfinished_cuts_ > 0;
  if (others) [[unlikely]]
    return transmit_others(now, link, room);
  if (agenda_.any_due(now)) [[unlikely]]
    return transmit_due(now, link, room);
  return agenda_.any_ready() ? transmit_sub_connections(now, link, room) : 0;
}

// Whatever it is besides new packets of sub-connections, it is seldom.
std::size_t Stack::transmit_others(Instant now, LinkId link, MutableBytes room) {
  if (const std::size_t length = transmit_arp(now, link, room)) return length;
  give_up_fragments(now);
  if (unfinished_cuts_ > 0) {
    // A link carries one packet at a time: its fragments arrive together.
    Cut& cut = cuts_[link.value()];
    if (!cut.packet.done()) {
      const std::size_t length = write_frame_of(cut.packet, cut.to, room);
      unfinished_cuts_ -= cut.packet.done() ? 1 : 0;
      return length;
    }
  }
  std::size_t length = 0;
  outgoings_turn_ = !outgoings_turn_;
  agenda_.collect(now);
  if (outgoings_turn_) length = transmit_outgoing(now, link, room);
  if (length == 0) length = transmit_sub_connections(now, link, room);
  if (length == 0 && !outgoings_turn_) length = transmit_outgoing(now, link, room);
  // A look-up may just have begun to ask.
  return length > 0 ? length : transmit_arp(now, link, room);
}

// ARP-1
std::size_t Stack::transmit_outgoing(Instant now, LinkId link, MutableBytes room) {
  std::size_t length = 0;
  outgoing_.visit([&](OutgoingPacket& packet) {
    if (packet.link != link) return false;
    const std::optional<MacAddress> to = neighbours_.lookup(link, packet.next_hop, now);
    packet.unresolved = !to;
    if (to) {
      length = write_frame_of(packet, *to, room);
    } else if (packet.until <= now) {
      ++stats_.outgoing_dropped;
      packet.left = packet.bytes;
    }
    return length > 0;
  });
  return length;
}

[[gnu::always_inline]] inline std::size_t Stack::transmit(Instant now, Route& route, MutableBytes room) {
  std::uint64_t sum = 0;
  const std::size_t payload = route.sub_connection->poll(now, room.subspan(kFlowHeaderBytes), &sum);
  if (payload == 0) return 0;
  route.header.write(room.data(), payload, sum);
  return kFlowHeaderBytes + payload;
}

[[gnu::always_inline]] inline std::size_t Stack::transmit_route(Instant now, Route& route,
                                                                MutableBytes room) {
  return config_.fragmentation == Fragmentation::kIp ? transmit_long(now, route, route.header.to(), room)
                                                     : transmit(now, route, room);
}

std::size_t Stack::transmit_due(Instant now, LinkId link, MutableBytes room) {
  agenda_.collect(now);
  return agenda_.any_ready() ? transmit_sub_connections(now, link, room) : 0;
}

std::size_t Stack::transmit_sub_connections(Instant now, LinkId link, MutableBytes room) {
  std::size_t& next = links_[link.value()].next;
  bool asks = false;
  Agenda::Round round(agenda_, next);
  for (std::size_t i = 0; round.next(i);) {
    Route& route = routes_[i];
    if (route.remote.link != link) continue;
    SubConnection& sub = *route.sub_connection;
    std::size_t length = 0;
    if (route.settled && route.asked_source_port == sub.asked_source_port()) [[likely]] {
      length = transmit_route(now, route, room);
    } else if (sub.wants_to_send(now)) {
      if (resolve(now, route))
        length = transmit_route(now, route, room);
      else
        asks = true;
    }
    if (!sub.wants_to_send(now)) agenda_.clear_ready(i);  // most send one, and are asked no more
    if (length == 0) continue;
    next = i + 1 == agenda_.size() ? 0 : i + 1;  // a busy one does not keep others waiting
    return length;
  }
  return asks ? transmit_arp(now, link, room) : 0;
}

// The station that the route's packets go to now; false: ARP has still to tell.
bool Stack::resolve(Instant now, Route& route) {
  const RemoteStack& remote = route.remote;
  const std::optional<MacAddress> to =
      remote.mac ? remote.mac : neighbours_.lookup(remote.link, route.next_hop, now);
  route.unresolved = !to;
  any_unresolved_ = any_unresolved_ || !to;
  if (!to) return false;
  const std::uint16_t asked = route.sub_connection->asked_source_port();
  if (*to != route.header.to() || asked != route.asked_source_port) {
    route.asked_source_port = asked;
    const Interface& own = config_.interfaces[remote.link.value()];
    route.header = FlowHeader(*to, own.mac,
                              {.source = own.address,
                               .destination = remote.address,
                               .source_port = source_port(asked),
                               .destination_port = remote.udp_port});
  }
  route.settled = remote.mac.has_value();
  return true;
}

// IP-3
std::size_t Stack::write_frame_of(OutgoingPacket& packet, const MacAddress& to, MutableBytes room) {
  const bool first = packet.left == 0;
  const std::size_t length =
      write_next_frame(packet, to, config_.interfaces[packet.link.value()].mac, config_.mtu_bytes, room);
  if (!first || !packet.done()) {
    ++stats_.fragments_sent;
    stats_.packets_fragmented += first ? 1 : 0;
  }
  return length;
}

// A packet that may be longer than the MTU is written aside, and leaves from there.
std::size_t Stack::transmit_long(Instant now, Route& route, const MacAddress& to, MutableBytes room) {
  const RemoteStack& remote = route.remote;
  Cut& cut = cuts_[remote.link.value()];
  const MutableBytes aside = cut.packet.room();
  std::uint64_t sum = 0;
  const std::size_t payload = route.sub_connection->poll(now, aside.subspan(kUdpHeaderBytes), &sum);
  if (payload == 0) return 0;
  OutgoingPacket& packet = cut.packet;
  packet.link = remote.link;
  packet.source = config_.interfaces[remote.link.value()].address;
  packet.destination = remote.address;
  packet.protocol = IpProtocol::kUdp;
  packet.identification = next_identification();
  packet.bytes = static_cast<std::uint32_t>(kUdpHeaderBytes + payload);
  packet.left = 0;
  write_udp(aside,
            {.source = packet.source,
             .destination = packet.destination,
             .source_port = source_port(route.asked_source_port),
             .destination_port = remote.udp_port,
             .payload_bytes = payload},
            sum);
  cut.to = to;
  const std::size_t length = write_frame_of(packet, to, room);
  unfinished_cuts_ += packet.done() ? 0 : 1;
  return length;
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

Instant Stack::next_deadline() {
  Instant next = earlier(neighbours_.next_deadline(), reassembly_.next_deadline());
  if (unfinished_cuts_ > 0) return Instant();
  if (!outgoing_.empty()) next = earlier(next, outgoing_.next_deadline());
  if (!any_unresolved_) return earlier(next, agenda_.next_due());
  any_unresolved_ = false;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    // Who waits for ARP's answer can do nothing before it arrives, or before ARP asks again.
    any_unresolved_ = any_unresolved_ || routes_[i].unresolved;
    if (!routes_[i].unresolved) next = earlier(next, agenda_.due(i));
  }
  return next;
}

void Stack::on_scheduling_gap(Instant now) {
  for (const auto& s : sub_connections_) s->on_scheduling_gap(now);
}

void Stack::flush_acks(Instant now) {
  for (const auto& s : sub_connections_) s->flush_ack(now);
}

void Stack::close(Instant now) {
  for (const auto& s : sub_connections_) s->close(now);
}

bool Stack::closed() const {
  return std::all_of(sub_connections_.begin(), sub_connections_.end(),
                     [](const auto& s) { return s->state() == SubConnection::State::kClosed; });
}

bool Stack::all_established() const {
  return std::all_of(routes_.begin(), routes_.end(), [](const Route& r) {
    return r.remote.absent || r.remote.names || r.sub_connection->established();
  });
}

}  // namespace braid::stack
