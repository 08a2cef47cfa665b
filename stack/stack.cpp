#include "stack/stack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "stack/datagram.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {

Stack::Stack(const StackConfig& config, Instant now)
    : config_(config),
      ports_(config.udp_port_base, config.local.proxy.value(), config.proxies),
      neighbours_(neighbours_config(config), local_links(config)),
      agenda_(config.remotes.size()),
      remotes_(config_.interfaces, ports_),
      next_by_link_(config.interfaces.size()),
      turn_began_(now),
      receiver_(config_.interfaces, ports_, config.reassembly),
      sender_(config_.interfaces, sender_config(config)),
      icmp_(config_.interfaces, sender_, config.icmp_errors_per_second, config.icmp_errors_at_once),
      hello_limits_(config.remotes.size()) {
  check(config);
  remotes_.reserve(config.remotes.size());
  moves_.reserve(config.remotes.size());
  std::size_t clusters = 0;
  for (const RemoteStack& remote : config.remotes)
    clusters = std::max(clusters, std::size_t{remote.id.cluster.value()} + 1);
  by_cluster_.resize(clusters);
  by_id_.resize(clusters);
  Prng prng(config.seed);
  // An epoch is never 0, which says "unknown".
  for (const RemoteStack& remote : config.remotes) add_remote(remote, prng.next() | 1, now);
  wipe(config_.sub_connection.security.seed);
  sender_.number_from(static_cast<std::uint16_t>(prng.next() * std::bit_ceil(unsigned{config.proxies}) +
                                                 config.local.proxy.value()));
}

void Stack::add_remote(const RemoteStack& remote, std::uint64_t epoch, Instant now) {
  sub_connections_.push_back(std::make_unique<SubConnection>(sub_connection_config(config_, remote), epoch,
                                                             now, agenda_.entry(sub_connections_.size())));
  SubConnection* const s = sub_connections_.back().get();
  by_cluster_[remote.id.cluster.value()].push_back(s);
  by_id_[remote.id.cluster.value()][remote.id.proxy.value()] = {s, remotes_.size()};
  remotes_.add(remote);
  let_move(remote, *s);
  if (remote.absent)
    CHECK(s->fence(now) == nullptr);
  else if (remote.mac)
    CHECK(neighbours_.add_static(remote.link, remotes_[remotes_.size() - 1].next_hop, *remote.mac));
}

// Only by a link without ARP, where the station on the way stays the same.
void Stack::let_move(const RemoteStack& remote, SubConnection& sub) {
  if (remote.absent || !remote.mac || !config_.interfaces[remote.link.value()].peers_move) return;
  CHECK(config_.fragmentation != Fragmentation::kIp);
  sub.let_move({remote.address, remote.udp_port}, remote.link);
}

bool Stack::set_remote(std::size_t index, const RemoteStack& remote) {
  if (!remotes_.replace(index, remote)) return false;
  const SubConnectionConfig ends = sub_connection_config(config_, remote);
  sub_connections_[index]->rename(ends.local, ends.remote, ends.shared_hash);
  return true;
}

SubConnection* Stack::find(StackId id) {
  if (id.cluster.value() >= by_id_.size() || id.proxy.value() >= kMaxProxiesPerCluster) return nullptr;
  return by_id_[id.cluster.value()][id.proxy.value()].sub_connection;
}

// ---------------------------------------------------------------- arrivals

Stack::Received Stack::receive(Instant now, LinkId link, ByteView bytes) {
  Received received;
  const ByteView payload = receiver_.match(link, bytes);
  if (payload.data() != nullptr)
    take_packet(
        now,
        config_.interfaces[link.value()].peers_move ? Origin{IpReceiver::sender_of(bytes), link} : Origin{},
        bytes.data() + detail::kIpSourceAt, payload, received);
  else
    receive_other(now, link, bytes, received);
  return received;
}

// Kept apart from what nearly all frames are, which needs little room on the stack.
void Stack::receive_other(Instant now, LinkId link, ByteView frame, Received& received) {
  const IpArrival arrival = receiver_.receive(now, link, frame);
  received.reassembled = arrival.reassembled;
  std::visit([&](const auto& what) { take(now, link, what, received); }, arrival.what);
  if (arrival.reassembled && received.what == Received::What::kMisdirected)
    sender_.begin_handover(std::get<Misdirected>(arrival.what).ip);
}

void Stack::take(Instant now, LinkId link, const ArpPacket& packet, Received& received) {
  (void)neighbours_.on_arp(now, link, packet);  // it counts what it does
  if (packet.operation == ArpOperation::kReply || packet.is_gratuitous())
    received.what = Received::What::kForAllProxies;
}

void Stack::take(Instant now, LinkId link, const ProxyPacket& packet, Received& received) {
  std::array<std::byte, 4> source{};
  packet.from.address.store(source.data());
  take_packet(now, config_.interfaces[link.value()].peers_move ? Origin{packet.from, link} : Origin{},
              source.data(), packet.payload, received);
}

void Stack::take(Instant /*now*/, LinkId /*link*/, const PlainDatagram& datagram, Received& received) {
  received.what = Received::What::kDatagram;
  received.port = datagram.port;
  received.peer = datagram.from;
  received.datagram = datagram.payload;
}

// IC-1
void Stack::take(Instant now, LinkId link, const EchoRequest& echo, Received& /*received*/) {
  icmp_.answer_echo(now, link, echo.ip, echo.message);
}

// IC-3. One that is about no remote is ignored.
void Stack::take(Instant /*now*/, LinkId link, const UnreachableReport& report, Received& received) {
  if (!report.port) {
    const std::optional<std::size_t> about =
        remotes_.on_unreachable(link, report.destination, report.reason, report.mtu_bytes);
    if (!about) {
      ++stats_.icmp_ignored;
      return;
    }
    agenda_.entry(*about).set_changed();
    received.sub_connection = sub_connections_[*about].get();
  }
  ++stats_.unreachables_received;
  received.what = Received::What::kUnreachable;
  received.reason = report.reason;
  received.port = report.port.value_or(0);
  received.peer = report.destination;
}

// IC-2
void Stack::take(Instant now, LinkId link, const Undeliverable& packet, Received& /*received*/) {
  icmp_.report_error(now, link, packet.ip, IcmpType::kUnreachable, static_cast<std::uint8_t>(packet.reason));
}

// UDP-2
void Stack::take(Instant /*now*/, LinkId /*link*/, const Misdirected& packet, Received& received) {
  received.what = Received::What::kMisdirected;
  received.proxy = packet.proxy;
}

// PS-7. Every version begins with a byte that names it.
void Stack::refuse_packet(ByteView payload) {
  if (payload.empty() || load<std::uint8_t>(payload.data()) == kWireVersion) {
    ++stats_.bad_packets;
    return;
  }
  ++stats_.other_versions;
  other_version_ = load<std::uint8_t>(payload.data());
}

void Stack::count_refusal(Refusal why) {
  refused_sender_ = why;
  stats_.refused_no_secret += why == Refusal::kNoSecret ? 1 : 0;
  stats_.refused_other_secret += why == Refusal::kOtherSecret ? 1 : 0;
  stats_.refused_sealed += why == Refusal::kUnexpectedSecret ? 1 : 0;
}

// SE-11
bool Stack::may_read_hello(Instant now, const SubConnection& sub, const PacketHeader& hello,
                           const std::byte* source) {
  using Kind = HelloLimits::Kind;
  const std::size_t index = by_id_[hello.source.cluster.value()][hello.source.proxy.value()].index;
  const bool at_home = Ipv4Address::load(source) == remotes_[index].remote.address;
  const Kind elsewhere = at_home ? Kind::kFromPeersAddress : Kind::kFromElsewhere;
  return hello_limits_.allow(now, sub.is_named_by(hello) ? Kind::kNamesUs : elsewhere);
}

void Stack::take_packet(Instant now, const Origin& from, const std::byte* source, ByteView payload,
                        Received& received) {
  std::size_t header_bytes = 0;
  if (!parse_packet_header(payload, &received.header, &header_bytes)) {
    refuse_packet(payload);
    return;
  }
  SubConnection* const s = find(received.header.source);
  if (s == nullptr || received.header.destination != config_.local) {
    ++stats_.unknown_epoch;
    return;
  }
  ++stats_.packets_received;
  const ByteView rest = payload.subspan(header_bytes);
  if (received.header.type == PacketType::kHello && s->hashes_hello(rest.size()) &&
      !may_read_hello(now, *s, received.header, source)) {
    ++stats_.hellos_unread;
    return;
  }
  const PacketFate fate = s->on_packet(now, received.header, rest, unseen_, from);
  if (s->take_moved()) [[unlikely]]
    follow(*s);
  switch (fate) {
    case PacketFate::kRecords:
      received.what = Received::What::kRecords;
      received.source = received.header.source.cluster;
      received.records = s->records(rest);
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
    case PacketFate::kRefusedSender:
      count_refusal(s->refusal());
      return;
    case PacketFate::kForged:
      ++stats_.forged_packets;
      return;
    case PacketFate::kReplayed:
      ++stats_.replayed_packets;
      return;
  }
}

// SE-8, SE-10
void Stack::follow(const SubConnection& moved) {
  std::size_t i = 0;
  while (sub_connections_[i].get() != &moved) ++i;
  const RemoteStack& remote = remotes_[i].remote;
  const AddressMove move{remote.id, {remote.address, remote.udp_port}, moved.peer_address()};
  remotes_.move(i, move.to);
  const auto untold =
      std::find_if(moves_.begin(), moves_.end(), [&](const AddressMove& m) { return m.peer == move.peer; });
  if (untold == moves_.end())
    moves_.push_back(move);
  else
    untold->to = move.to;
}

std::optional<AddressMove> Stack::take_address_move() {
  if (moves_.empty()) return std::nullopt;
  const AddressMove move = moves_.back();
  moves_.pop_back();
  return move;
}

// IC-4
void Stack::give_up_fragments(Instant now) {
  Ipv4Packet first;
  while (receiver_.expire(now, first)) {
    if (first.payload.empty()) continue;
    if (const std::optional<Hop> hop = remotes_.hop_to(first.source))
      icmp_.report_error(now, hop->link, first, IcmpType::kTimeExceeded, kReassemblyTimeExceeded);
  }
}

// ---------------------------------------------------------------- plain datagrams

Sent Stack::send_datagram(Instant now, std::uint16_t from, const Endpoint& to, ByteView payload) {
  if (payload.size() > kUdpMaxPayloadBytes) return Sent::kTooLong;
  const std::optional<Hop> hop = to.address.is_unicast() ? remotes_.hop_to(to.address) : std::nullopt;
  if (!hop) return Sent::kNoWay;
  OutgoingPacket* const packet = sender_.reserve();
  if (packet == nullptr) return Sent::kNoRoom;
  packet->link = hop->link;
  packet->next_hop = hop->next;
  packet->source = config_.interfaces[hop->link.value()].address;
  write_datagram(*packet, from, to, payload);
  sender_.push(now, *packet);
  ++stats_.datagrams_sent;
  return Sent::kQueued;
}

// ---------------------------------------------------------------- departures

std::size_t Stack::poll_transmit(Instant now, LinkId link, MutableBytes room) {
  CHECK_GE(room.size(), frame_bytes());
  const bool others =
      neighbours_.next_deadline() <= now || receiver_.next_deadline() <= now || !sender_.idle();
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

[[gnu::always_inline]] inline std::size_t Stack::transmit_whole(Instant now, const Route& route,
                                                                SubConnection& sub, MutableBytes room) {
  std::uint64_t sum = 0;
  const std::size_t payload = sub.poll(now, room.subspan(kFlowHeaderBytes), &sum);
  if (payload == 0) return 0;
  if (sub.elsewhere() != nullptr) [[unlikely]]
    remotes_.header_to(route, *sub.elsewhere()).write(room.data(), payload, sum);
  else
    route.header.write(room.data(), payload, sum);
  return kFlowHeaderBytes + payload;
}

[[gnu::always_inline]] inline std::size_t Stack::transmit(Instant now, const Route& route, SubConnection& sub,
                                                          MutableBytes room) {
  return config_.fragmentation == Fragmentation::kIp ? transmit_long(now, route, sub, room)
                                                     : transmit_whole(now, route, sub, room);
}

std::size_t Stack::transmit_due(Instant now, LinkId link, MutableBytes room) {
  agenda_.collect(now);
  return agenda_.any_ready() ? transmit_sub_connections(now, link, room) : 0;
}

std::size_t Stack::transmit_sub_connections(Instant now, LinkId link, MutableBytes room) {
  std::size_t& next = next_by_link_[link.value()];
  bool asks = false;
  Agenda::Round round(agenda_, next);
  for (std::size_t i = 0; round.next(i);) {
    const Route& route = remotes_[i];
    if (route.remote.link != link) continue;
    SubConnection& sub = *sub_connections_[i];
    std::size_t length = 0;
    if (route.is_ready(sub.asked_source_port())) [[likely]] {
      length = transmit(now, route, sub, room);
    } else if (sub.wants_to_send(now)) {
      if (sub.silent(now)) [[unlikely]]
        doubt_silent(now, i);
      if (remotes_.resolve(i, sub.asked_source_port(), neighbours_, now))
        length = transmit(now, route, sub, room);
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

// ARP-5. One peer that answers proves that its next hop's station leads to it, and maybe to others behind it.
void Stack::doubt_silent(Instant now, std::size_t index) {
  const Route& route = remotes_[index];
  if (route.remote.mac) return;
  for (std::size_t i = 0; i < remotes_.size(); ++i) {
    const Route& other = remotes_[i];
    if (!other.remote.absent && other.remote.link == route.remote.link && other.next_hop == route.next_hop &&
        !sub_connections_[i]->silent(now))
      return;
  }
  neighbours_.doubt(route.remote.link, route.next_hop, now);
}

// A packet that may be longer than the MTU is written aside, and leaves from there (IP-3).
std::size_t Stack::transmit_long(Instant now, const Route& route, SubConnection& sub, MutableBytes room) {
  const RemoteStack& remote = route.remote;
  const MutableBytes aside = sender_.long_room(remote.link);
  std::uint64_t sum = 0;
  const std::size_t payload = sub.poll(now, aside.subspan(kUdpHeaderBytes), &sum);
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
  const Instant next = earlier(neighbours_.next_deadline(), receiver_.next_deadline());
  return earlier(earlier(next, sender_.next_deadline()), remotes_.next_due(agenda_));
}

StackStats Stack::stats() const {
  StackStats stats = stats_;
  const IpReceiver::Counters& in = receiver_.counters();
  stats.bad_frames = in.bad_frames;
  stats.bad_ip = in.bad_ip;
  stats.bad_udp = in.bad_udp;
  stats.bad_icmp = in.bad_icmp;
  stats.not_for_us = in.not_for_us;
  stats.broadcasts = in.broadcasts;
  stats.martians = in.martians;
  stats.fragments_received = in.fragments_received;
  stats.packets_reassembled = in.packets_reassembled;
  stats.fragments_dropped = in.fragments_dropped;
  stats.icmp_ignored += in.icmp_ignored;
  stats.datagrams_received = in.datagrams_received;
  stats.closed_ports = in.closed_ports;
  const IpSender::Counters& out = sender_.counters();
  stats.packets_fragmented = out.packets_fragmented;
  stats.fragments_sent = out.fragments_sent;
  const IcmpSender::Counters& icmp = icmp_.counters();
  stats.echoes_answered = icmp.echoes_answered;
  stats.icmp_errors_sent = icmp.errors_sent;
  stats.icmp_errors_withheld = icmp.errors_withheld;
  stats.outgoing_dropped = out.dropped + icmp.echoes_dropped;
  return stats;
}

void Stack::on_scheduling_gap(Instant now, Duration gap) {
  for (const auto& s : sub_connections_) s->on_scheduling_gap(now, gap);
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
  const auto missing = [this](std::size_t i) {
    const RemoteStack& remote = remotes_[i].remote;
    const SubConnection& sub = *sub_connections_[i];
    return !remote.absent && !remote.names && !sub.established() && !sub.asleep();
  };
  if (last_missing_ < sub_connections_.size() && missing(last_missing_)) return false;
  for (last_missing_ = 0; last_missing_ < sub_connections_.size(); ++last_missing_)
    if (missing(last_missing_)) return false;
  return true;
}

}  // namespace braid::stack
