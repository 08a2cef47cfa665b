#include "stack/stack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "stack/icmp_packets.h"
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
    // With static neighbours only no host learns from it. One proxy announces for the whole node.
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

IpSenderConfig sender_config(const StackConfig& config) {
  return {.mtu_bytes = config.mtu_bytes,
          .queued_packets = config.outgoing_packets,
          .patience = config.outgoing_patience,
          .proxies = config.proxies,
          .long_packets = config.fragmentation == Fragmentation::kIp};
}

// What every IPv4 host must take (RFC 791); below it no packet of ours is sure to fit.
constexpr std::uint32_t kMinMtuBytes = 576;
// The longest piece, and the longest headers before it.
constexpr std::size_t kWholePiecePacketBytes = kMaxPacketHeaderBytes + kPartRecordBytes + kMaxPieceBytes;
static_assert(kWholePiecePacketBytes <= kUdpMaxPayloadBytes);

}  // namespace

Stack::Stack(const StackConfig& config, Instant now)
    : config_(config),
      ports_(config.udp_port_base, config.local.proxy.value(), config.proxies),
      neighbours_(neighbours_config(config), local_links(config)),
      agenda_(config.remotes.size()),
      turn_began_(now),
      reassembly_(config.reassembly),
      sender_(config_.interfaces, sender_config(config)),
      icmp_errors_(config.icmp_errors_per_second, config.icmp_errors_at_once) {
  CHECK(!config.interfaces.empty());
  CHECK_GE(config.mtu_bytes, kMinMtuBytes);
  for (const Interface& own : config.interfaces)
    links_.push_back({.next = 0, .filter = FlowFilter(own.mac, own.address, ports_.own_port())});
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
    const std::optional<Ipv4Address> hop = next_hop(config_.interfaces[remote.link.value()], remote.address);
    CHECK(hop.has_value());
    if (remote.mac) CHECK(neighbours_.add_static(remote.link, *hop, *remote.mac));
    routes_.push_back({.remote = remote, .sub_connection = s, .header = {}, .next_hop = *hop});
  }
  sender_.number_from(static_cast<std::uint16_t>(prng.next() * std::bit_ceil(unsigned{config.proxies}) +
                                                 config.local.proxy.value()));
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
  const std::optional<Ipv4Address> hop = next_hop(config_.interfaces[remote.link.value()], remote.address);
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
  sender_.begin_handover(whole);
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

// The port says which proxy's it is; that one's stack verifies the rest. UDP-2
void Stack::take_udp(Instant now, LinkId link, const Ipv4Packet& ip, Received& received) {
  if (ip.payload.size() < kUdpHeaderBytes) {
    ++stats_.bad_udp;
    return;
  }
  const std::optional<unsigned> listener = ports_.listener(load_be<std::uint16_t>(ip.payload.data() + 2));
  const unsigned owner = listener.value_or(kDatagramProxy);
  if (owner != ports_.own_proxy()) {
    received.what = Received::What::kMisdirected;
    received.proxy = owner;
  } else if (!listener) {
    take_datagram(now, link, ip, received);
  } else {
    UdpDatagram udp;
    // UDP-1: our peers always compute a checksum.
    if (parse_udp(ip.payload, ip.source, ip.destination, udp) != UdpParse::kOk || !udp.has_checksum)
      ++stats_.bad_udp;
    else
      take_packet(now, udp.payload, received);
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
  if (!ports_.is_bound(udp.destination_port)) {
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
  OutgoingPacket* const packet = sender_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(config_.interfaces[link.value()], ip.source);
  if (packet == nullptr || !hop) {
    ++stats_.outgoing_dropped;
    return;
  }
  write_echo_reply(*packet, ip, echo);
  packet->link = link;
  packet->next_hop = *hop;
  sender_.push(now, *packet);
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
  const std::optional<unsigned> sender = ports_.owner(quote.source_port);
  const unsigned owner = sender.value_or(kDatagramProxy);
  if (owner != ports_.own_proxy()) {
    received.what = Received::What::kMisdirected;
    received.proxy = owner;
    return;
  }
  received.peer = {quote.destination, quote.destination_port};
  received.reason = Unreachable{icmp.code};
  if (sender) {
    if (report_unreachable(link, icmp, received)) return;
  } else if (ports_.is_bound(quote.source_port)) {
    ++stats_.unreachables_received;
    received.what = Received::What::kUnreachable;
    received.port = quote.source_port;
    return;
  }
  ++stats_.icmp_ignored;
}

// False: it is about no remote of ours.
bool Stack::report_unreachable(LinkId link, const IcmpMessage& icmp, Received& received) {
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
    return true;
  }
  return false;
}

// IC-2. It is about a whole packet that came to us alone from one host.
void Stack::complain(Instant now, LinkId link, const Ipv4Packet& about, IcmpType type, std::uint8_t code) {
  if (is_icmp_error(about)) return;
  OutgoingPacket* const packet = sender_.reserve();
  const std::optional<Ipv4Address> hop = next_hop(config_.interfaces[link.value()], about.source);
  if (packet == nullptr || !hop || !icmp_errors_.allow(now)) {
    ++stats_.icmp_errors_withheld;
    return;
  }
  write_icmp_error(*packet, about, type, code);
  packet->link = link;
  packet->next_hop = *hop;
  sender_.push(now, *packet);
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

// The link that leads to a remote at this address, else the one that it is on, else one with a gateway.
std::optional<Stack::Way> Stack::way_to(Ipv4Address to) const {
  for (const Route& route : routes_)
    if (route.remote.address == to) return Way{route.remote.link, route.next_hop};
  const std::optional<LinkId> link = link_to(config_.interfaces, to);
  return link ? std::optional(Way{*link, *next_hop(config_.interfaces[link->value()], to)}) : std::nullopt;
}

Sent Stack::send_datagram(Instant now, std::uint16_t from, const Endpoint& to, ByteView payload) {
  if (payload.size() > kUdpMaxPayloadBytes) return Sent::kTooLong;
  const std::optional<Way> way = to.address.is_unicast() ? way_to(to.address) : std::nullopt;
  if (!way) return Sent::kNoWay;
  OutgoingPacket* const packet = sender_.reserve();
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
  sender_.push(now, *packet);
  ++stats_.datagrams_sent;
  return Sent::kQueued;
}

// ---------------------------------------------------------------- departures

std::size_t Stack::poll_transmit(Instant now, LinkId link, MutableBytes room) {
  CHECK_GE(room.size(), frame_bytes());
  const bool others =
      neighbours_.next_deadline() <= now || reassembly_.next_deadline() <= now || !sender_.idle();
  if (others) [[unlikely]]
    return transmit_others(now, link, room);
  if (agenda_.any_due(now)) [[unlikely]]
    return transmit_due(now, link, room);
  return agenda_.any_ready() ? transmit_sub_connections(now, link, room) : 0;
}

// Everything besides new packets of sub-connections; it is rare.
std::size_t Stack::transmit_others(Instant now, LinkId link, MutableBytes room) {
  if (const std::size_t length = transmit_arp(now, link, room)) return length;
  give_up_fragments(now);
  if (const std::size_t length = sender_.transmit_long(link, room)) return length;
  std::size_t length = 0;
  queueds_turn_ = !queueds_turn_;
  agenda_.collect(now);
  if (queueds_turn_) length = sender_.transmit_queued(now, link, neighbours_, room);
  if (length == 0) length = transmit_sub_connections(now, link, room);
  if (length == 0 && !queueds_turn_) length = sender_.transmit_queued(now, link, neighbours_, room);
  // A look-up may just have begun to ask.
  return length > 0 ? length : transmit_arp(now, link, room);
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
  return config_.fragmentation == Fragmentation::kIp ? transmit_long(now, route, room)
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
                               .source_port = ports_.source(asked),
                               .destination_port = remote.udp_port});
  }
  route.settled = remote.mac.has_value();
  return true;
}

// A packet that may be longer than the MTU is written aside, and leaves from there (IP-3).
std::size_t Stack::transmit_long(Instant now, Route& route, MutableBytes room) {
  const RemoteStack& remote = route.remote;
  const MutableBytes aside = sender_.long_room(remote.link);
  std::uint64_t sum = 0;
  const std::size_t payload = route.sub_connection->poll(now, aside.subspan(kUdpHeaderBytes), &sum);
  if (payload == 0) return 0;
  write_udp(aside,
            {.source = config_.interfaces[remote.link.value()].address,
             .destination = remote.address,
             .source_port = ports_.source(route.asked_source_port),
             .destination_port = remote.udp_port,
             .payload_bytes = payload},
            sum);
  return sender_.begin_long(remote.link, route.header.to(), remote.address, kUdpHeaderBytes + payload, room);
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
  next = earlier(next, sender_.next_deadline());
  if (!any_unresolved_) return earlier(next, agenda_.next_due());
  any_unresolved_ = false;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    // A route that waits for ARP can do nothing before the answer arrives, or before ARP asks again.
    any_unresolved_ = any_unresolved_ || routes_[i].unresolved;
    if (!routes_[i].unresolved) next = earlier(next, agenda_.due(i));
  }
  return next;
}

StackStats Stack::stats() const {
  StackStats stats = stats_;
  const IpSender::Counters& sent = sender_.counters();
  stats.packets_fragmented += sent.packets_fragmented;
  stats.fragments_sent += sent.fragments_sent;
  stats.outgoing_dropped += sent.dropped;
  return stats;
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
