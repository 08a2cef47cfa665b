#include "sim/iccs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::sim {

namespace {

// What both ends of every sub-connection have in common: they are of one machine.
constexpr std::uint64_t kSharedHash = 1;
constexpr LinkId kOwnLink{0};
// Wide enough for a queue that never overflows unless a link is asked to be slow.
constexpr std::uint64_t kLinkQueueBytes = 16u << 20;

stack::Ipv4Address address_of(unsigned cluster, unsigned ni) {
  return {10, static_cast<std::uint8_t>(64 + (cluster >> 8)), static_cast<std::uint8_t>(cluster),
          static_cast<std::uint8_t>(ni + 1)};
}
stack::MacAddress mac_of(unsigned cluster, unsigned proxy) {
  return {0x02,
          0x62,
          0x72,
          static_cast<std::uint8_t>(cluster >> 8),
          static_cast<std::uint8_t>(cluster),
          static_cast<std::uint8_t>(proxy)};
}

// The port of a connection's end: which cluster is at the other one.
PortId port_of(ClusterId peer) {
  return PortId(peer.value() + 1u);
}

// What a frame of ours is, as far as it decides what it costs.
struct Kind {
  bool ip = false;
  bool first = false;  // fragment of a datagram, or the whole
  bool last = false;
  std::uint32_t offset = 0;  // of the fragment's payload in the datagram
  ByteView payload;          // of the fragment, behind the IP header
};

Kind kind_of(ByteView frame) {
  Kind k;
  stack::EthernetFrame ethernet;
  stack::Ipv4Packet ip;
  if (stack::parse_ethernet(frame, ethernet) != stack::EthernetParse::kOk ||
      ethernet.type != stack::EtherType::kIpv4)
    return k;
  const stack::Ipv4Parse parsed = stack::parse_ipv4(ethernet.payload, ip);
  if (parsed != stack::Ipv4Parse::kOk && parsed != stack::Ipv4Parse::kFragment) return k;
  k.ip = true;
  k.offset = ip.fragment_offset_bytes;
  k.first = k.offset == 0;
  k.last = !ip.more_fragments;
  k.payload = ip.payload;
  return k;
}

}  // namespace

// A message, or a credit, from when it is handed over until the other side has acknowledged it.
struct Iccs::Outgoing : stack::OutMessage {
  std::vector<std::byte> memory;
  std::uint32_t number = 0;  // in messages_
  bool delivered = false;    // only the sub-connection still needs it
  bool finished = false;     // by the sub-connection
  MessageReport report;
};

struct Iccs::Frame {
  std::uint32_t length = 0;
  ClusterId to;
  unsigned to_proxy = 0;
  std::uint32_t ahead = 0;  // in the receiving proxy's queue
  Instant left;
  Instant on_link;
  Instant arrived;
};

struct Iccs::Proxy {
  Proxy(const stack::StackConfig& config, Instant now) : stack(config, now) {}
  struct Item {
    EventKind kind;
    std::uint32_t item;
  };
  std::uint16_t cluster = 0;
  std::uint8_t index = 0;
  stack::Stack stack;
  // For each cluster, the sub-connections to it, those that are preferred first.
  struct Route {
    std::vector<stack::SubConnection*> subs;
    std::uint32_t preferred = 0;
    convergence::PeerTurns turns;
  };
  std::vector<Route> routes;
  std::deque<Item> queue;
  bool busy = false;
  Item in_service{};
  Instant timer = Instant::never();  // that is pushed
  bool timer_queued = false;
  ProxyFigures figures;
  Instant counted_until;  // in figures.queue

  std::uint32_t queued() const {
    return static_cast<std::uint32_t>(queue.size()) - (timer_queued && !timer_in_service() ? 1 : 0) +
           (busy && in_service.kind != EventKind::kTimer ? 1 : 0);
  }
  bool timer_in_service() const { return busy && in_service.kind == EventKind::kTimer; }
};

struct Iccs::Connection {
  Connection(const IccsConfig& config, unsigned from, unsigned to)
      : sender(config.window_bytes),
        dispatcher(config.dispatch, config.proxies, from + to),
        window(config.window_bytes),
        receiver(window, false),
        numbers(config.window_bytes / convergence::kGranuleBytes) {}
  convergence::Sender sender;
  convergence::Dispatcher dispatcher;  // of what the sender sends
  std::vector<std::byte> window;       // at the receiver
  convergence::Receiver receiver;
  std::vector<std::uint32_t> numbers;  // of the message that begins at this granule, in messages_
  bool waiting = false;                // the sender wants to be told of room

  std::uint32_t& number_at(Position p) { return numbers[index(p)]; }
  // Puts a record's bytes where they belong. False: they do not fit there, and no sender of ours made them.
  bool put(Position p, ByteView bytes) {
    const std::size_t offset = index(p) * convergence::kGranuleBytes;
    if (!inside(offset, bytes.size(), window.size())) return false;
    if (!bytes.empty()) std::memcpy(window.data() + offset, bytes.data(), bytes.size());
    return true;
  }

 private:
  std::size_t index(Position p) const { return p.value() & (numbers.size() - 1); }
};

// A record of a packet that was received, until its time has come.
struct Iccs::Arrival {
  ClusterId from, to;
  stack::Record record;
  unsigned proxy = 0;
  std::uint32_t ahead = 0;
  Instant left, on_link, arrived, taken, delivered;
};

struct Iccs::Ni {
  Ni(const LinkConfig& link_config, const FaultConfig& fault_config, std::uint64_t seed)
      : link(link_config), faults(fault_config, seed) {}
  Link link;
  FaultModel faults;
  LinkFigures figures;
};

// --- Setting up

Iccs::Iccs(const IccsConfig& config, const CostModel& model, Events& events, Sink& sink)
    : config_(config),
      model_(model),
      events_(events),
      sink_(sink),
      frames_(config.mtu_bytes + kEthernetHeaderBytes),
      room_(config.mtu_bytes + kEthernetHeaderBytes) {
  for (unsigned from = 0; from < config.clusters; ++from)
    for (unsigned to = 0; to < config.clusters; ++to)
      connections_.push_back(from == to ? nullptr : std::make_unique<Connection>(config, from, to));
  if (config.mode != Mode::kReal) return;
  LinkConfig link;
  link.bits_per_second = model.wire_byte > 0
                             ? static_cast<std::uint64_t>(8 * model.cycles_per_second / model.wire_byte)
                             : std::uint64_t{1} << 40;
  link.propagation = model.time(model.latency);
  link.queue_bytes = kLinkQueueBytes;
  link.mtu_bytes = config.mtu_bytes;
  for (unsigned cluster = 0; cluster < config.clusters; ++cluster) {
    for (unsigned n = 0; n < config.nis; ++n)
      nis_.emplace_back(link, config.faults, config.seed * 0x9e3779b97f4a7c15 + cluster * config.nis + n);
    for (unsigned index = 0; index < config.proxies; ++index) {
      proxies_.push_back(std::make_unique<Proxy>(stack_config(cluster, index), events.now()));
      Proxy& p = *proxies_.back();
      p.cluster = static_cast<std::uint16_t>(cluster);
      p.index = static_cast<std::uint8_t>(index);
      p.routes.resize(config.clusters);
      for (const bool preferred : {true, false}) {
        const auto subs = p.stack.sub_connections();
        for (std::size_t i = 0; i < subs.size(); ++i) {
          if (p.stack.remote(i).preferred != preferred) continue;
          Proxy::Route& route = p.routes[p.stack.remote(i).id.cluster.value()];
          route.subs.push_back(subs[i].get());
          if (preferred) ++route.preferred;
        }
      }
    }
  }
}

Iccs::~Iccs() = default;

stack::StackConfig Iccs::stack_config(unsigned cluster, unsigned index) const {
  const unsigned ni = index % config_.nis;
  stack::StackConfig s;
  s.local = {ClusterId(static_cast<std::uint16_t>(cluster)), ProxyId(static_cast<std::uint8_t>(index))};
  s.interfaces = {{address_of(cluster, ni), mac_of(cluster, index)}};
  s.proxies = config_.proxies;
  s.mtu_bytes = config_.mtu_bytes;
  s.fragmentation = config_.fragmentation;
  s.outgoing_packets = 1;  // no datagrams are sent
  s.seed = config_.seed * 1000003 + cluster * 64 + index;
  s.sub_connection = config_.sub_connection;
  s.sub_connection.shared_hash = kSharedHash;
  for (unsigned peer = 0; peer < config_.clusters; ++peer) {
    if (peer == cluster) continue;
    for (unsigned theirs = 0; theirs < config_.proxies; ++theirs) {
      const bool aligned = convergence::are_aligned(index, config_.proxies, theirs, config_.proxies);
      if (!aligned && !config_.all_pairs) continue;
      stack::RemoteStack remote;
      remote.id = {ClusterId(static_cast<std::uint16_t>(peer)), ProxyId(static_cast<std::uint8_t>(theirs))};
      remote.address = address_of(peer, theirs % config_.nis);
      remote.udp_port = static_cast<std::uint16_t>(s.udp_port_base + theirs);
      remote.mac = mac_of(peer, theirs);
      remote.link = kOwnLink;
      remote.preferred = convergence::is_preferred(config_.peer, aligned);
      s.remotes.push_back(remote);
    }
  }
  return s;
}

void Iccs::establish() {
  if (config_.mode != Mode::kReal) return;
  for (const auto& p : proxies_) enqueue(*p, EventKind::kTimer, 0);
  // A sub-connection that is up stays so: those before this one are not asked again.
  std::size_t established = 0;
  // And nobody is still busy with what he was told.
  const auto all_rest = [&] {
    while (established < proxies_.size() && proxies_[established]->stack.all_established()) ++established;
    return established == proxies_.size() &&
           std::none_of(proxies_.begin(), proxies_.end(), [](const auto& p) { return p->busy; });
  };
  while (!all_rest()) {
    CHECK(!events_.empty());
    on_event(events_.pop());
  }
}

Duration Iccs::least_to_deliver() const {
  switch (config_.mode) {
    case Mode::kNoDelay:
      return notice();
    case Mode::kNoContention:
      return config_.fixed_delay + notice();
    case Mode::kReal:
      break;
  }
  return notice() + proxy_time(model_.ni_receive + model_.ip_receive + model_.udp_receive +
                               model_.window_receive + model_.deliver);
}

Duration Iccs::least_latency() const {
  if (config_.mode != Mode::kReal) return least_to_deliver();
  return proxy_time(model_.window_send + model_.udp_send + model_.ip_send + model_.ni_send) +
         model_.time(model_.latency) + least_to_deliver();
}

Iccs::Outgoing& Iccs::new_message() {
  if (free_messages_.empty()) {
    messages_.emplace_back();
    messages_.back().number = static_cast<std::uint32_t>(messages_.size() - 1);
    free_messages_.push_back(messages_.back().number);
  }
  Outgoing& m = messages_[free_messages_.back()];
  free_messages_.pop_back();
  m.data = nullptr;
  m.bytes = 0;
  m.record = {};
  m.delivered = m.finished = false;
  m.report = {};
  return m;
}

std::uint32_t Iccs::new_arrival() {
  if (free_arrivals_.empty()) {
    arrivals_.emplace_back();
    free_arrivals_.push_back(static_cast<std::uint32_t>(arrivals_.size() - 1));
  }
  const std::uint32_t item = free_arrivals_.back();
  free_arrivals_.pop_back();
  arrivals_[item] = {};
  return item;
}

std::uint32_t Iccs::new_frame() {
  const std::uint32_t number = frames_.take();
  if (frame_facts_.size() <= number) frame_facts_.resize(number + 1);
  return number;
}

// --- Compute nodes

bool Iccs::may_send(ClusterId from, ClusterId to, std::uint32_t bytes) {
  Connection& way = connection(from, to);
  way.waiting = !way.sender.place(bytes).has_value();
  return !way.waiting;
}

void Iccs::send(Instant at, ClusterId from, unsigned lane, ClusterId to, ByteView bytes) {
  Connection& way = connection(from, to);
  const auto size = static_cast<std::uint32_t>(bytes.size());
  const std::optional<convergence::Sender::Place> place = way.sender.place(size);
  CHECK(place.has_value());
  Outgoing& m = new_message();
  m.memory.assign(bytes.begin(), bytes.end());
  m.data = m.memory.data();
  m.bytes = size;
  m.record.destination = port_of(from);
  m.record.source = port_of(to);
  m.record.position = m.record.message = place->position;
  m.record.skip = place->skip;
  m.record.message_bytes = size;
  way.sender.sent(*place, size);
  way.number_at(place->position) = m.number;
  ++sent_;
  ++under_way_;
  m.report.number = sent_;
  m.report.from = from;
  m.report.to = to;
  m.report.lane = lane;
  m.report.bytes = size;
  m.report.times.handed = at;
  submit(at, from, lane, m);
}

void Iccs::submit(Instant at, ClusterId from, unsigned lane, Outgoing& m) {
  Connection& way = connection(from, m.report.to);
  if (config_.mode != Mode::kReal) {
    m.finished = true;  // no sub-connection has it
    const std::uint32_t item = new_arrival();
    Arrival& a = arrivals_[item];
    a.from = from;
    a.to = m.report.to;
    a.record = m.record;
    a.record.bytes = static_cast<std::uint16_t>(m.bytes);
    const Instant there = config_.mode == Mode::kNoDelay ? at : at + config_.fixed_delay;
    a.left = a.on_link = a.arrived = a.taken = a.delivered = there;
    if (m.record.kind == stack::RecordKind::kMessage)
      CHECK(way.put(m.record.position, ByteView(m.memory)));
    else
      free_messages_.push_back(m.number);
    events_.push(there + notice(), {EventKind::kDelivery, 0, a.to.value(), item});
    return;
  }
  const unsigned picked =
      way.dispatcher.pick(lane, [&](unsigned p) { return std::uint64_t{proxy(from.value(), p).queued()}; });
  m.report.proxy = picked;
  events_.push(at, {EventKind::kMessageArrives, static_cast<std::uint8_t>(picked), from.value(), m.number});
}

// --- Proxies

void Iccs::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kFrameLeaves:
      return frame_leaves(proxy(event.cluster, event.index), event.item);
    case EventKind::kFrameArrives:
    case EventKind::kMessageArrives:
      return enqueue(proxy(event.cluster, event.index), event.kind, event.item);
    case EventKind::kServiceEnds: {
      Proxy& p = proxy(event.cluster, event.index);
      count_queue(p);
      if (p.in_service.kind == EventKind::kTimer) p.timer_queued = false;
      p.busy = false;
      if (p.queue.empty())
        arm_timer(p);
      else
        serve(p);
      return;
    }
    case EventKind::kTimer: {
      Proxy& p = proxy(event.cluster, event.index);
      if (p.timer != events_.now()) return;
      p.timer = Instant::never();
      if (p.timer_queued) return;
      if (p.stack.next_deadline() > events_.now()) return arm_timer(p);
      return enqueue(p, EventKind::kTimer, 0);
    }
    case EventKind::kDelivery:
      return deliver(event.item);
    case EventKind::kRequest:
      CHECK(false);
  }
}

void Iccs::count_queue(Proxy& p) {
  if (measuring_) p.figures.queue.add(events_.now() - p.counted_until, p.queued());
  p.counted_until = events_.now();
}

void Iccs::enqueue(Proxy& p, EventKind kind, std::uint32_t item) {
  count_queue(p);
  if (kind == EventKind::kTimer) {
    p.timer_queued = true;
  } else if (kind == EventKind::kMessageArrives) {
    MessageReport& report = messages_[item].report;
    report.ahead = p.queued();
    const Proxy::Item* last = !p.queue.empty() ? &p.queue.back() : p.busy ? &p.in_service : nullptr;
    if (last != nullptr && last->kind == EventKind::kMessageArrives)
      report.behind = messages_[last->item].report.number;
  } else {
    frame_facts_[item].ahead = p.queued();
    frame_facts_[item].arrived = events_.now();
  }
  p.queue.push_back({kind, item});
  if (!p.busy) serve(p);
  if (measuring_) p.figures.queue.touch(p.queued());
}

// Takes what is next: its stack decides now, and what comes of it happens when the stages' time is over.
void Iccs::serve(Proxy& p) {
  const Instant now = events_.now();
  if (config_.mistake == PlantedMistake::kLastInFirstOut) {
    p.in_service = p.queue.back();
    p.queue.pop_back();
  } else {
    p.in_service = p.queue.front();
    p.queue.pop_front();
  }
  p.busy = true;
  Instant until = now;
  p.stack.begin_turn(now);
  switch (p.in_service.kind) {
    case EventKind::kMessageArrives:
      serve_message(p, messages_[p.in_service.item]);
      break;
    case EventKind::kFrameArrives:
      serve_frame(p, p.in_service.item, until);
      break;
    default: {
      Service service;
      service.add(Stage::kTimer, model_.timer);
      until = until + spend(p, service);
      if (measuring_) ++p.figures.timers;
    }
  }
  transmit(p, until);
  take_back(p);
  if (measuring_) p.figures.busy += until - now;
  events_.push(until, {EventKind::kServiceEnds, p.index, p.cluster, 0});
}

void Iccs::arm_timer(Proxy& p) {
  const Instant due = std::max(p.stack.next_deadline(), events_.now());
  if (due == Instant::never() || p.timer <= due) return;
  p.timer = due;
  events_.push(due, {EventKind::kTimer, p.index, p.cluster, 0});
}

void Iccs::serve_message(Proxy& p, Outgoing& m) {
  m.report.times.served = events_.now();
  Proxy::Route& route = p.routes[m.report.to.value()];
  const std::optional<std::uint32_t> way =
      route.turns.next(route.preferred, static_cast<std::uint32_t>(route.subs.size()), [&](std::uint32_t i) {
        return route.subs[i]->may_take() ? convergence::Way::kGood : convergence::Way::kNone;
      });
  CHECK(way.has_value());
  route.subs[*way]->send(m);
  if (measuring_) ++p.figures.messages;
}

void Iccs::serve_frame(Proxy& p, std::uint32_t number, Instant& until) {
  const Frame frame = frame_facts_[number];
  const ByteView bytes(frames_.data(number), frame.length);
  const stack::Stack::Received received = p.stack.receive(events_.now(), kOwnLink, bytes);
  until = until + spend(p, receive_service(bytes, received));
  if (measuring_) ++p.figures.frames_received;
  if (received.what == stack::Stack::Received::What::kRecords && take_records(p, received, until, frame))
    p.stack.delivered(events_.now(), received);
  frames_.give(number);
}

Iccs::Service Iccs::receive_service(ByteView frame, const stack::Stack::Received& received) const {
  Service service;
  service.add(Stage::kNiReceive, model_.ni_receive + model_.ni_byte * static_cast<double>(frame.size()));
  const Kind kind = kind_of(frame);
  if (!kind.ip) return service;
  service.add(Stage::kIpReceive, model_.ip_receive);
  if (!kind.last && !received.reassembled) return service;  // the datagram is not complete
  service.add(Stage::kUdpReceive,
              model_.udp_receive + checksum_byte() * static_cast<double>(kind.offset + kind.payload.size()));
  if (received.what != stack::Stack::Received::What::kRecords) {
    service.add(Stage::kAckReceive, model_.ack_receive);
    return service;
  }
  service.add(Stage::kWindowReceive, model_.window_receive);
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  while (reader.next(&record, &bytes))
    service.add(Stage::kDeliver, model_.deliver + model_.deliver_byte * static_cast<double>(bytes.size()));
  return service;
}

Iccs::Service Iccs::send_service(ByteView frame) const {
  Service service;
  service.add(Stage::kNiSend, model_.ni_send + model_.ni_byte * static_cast<double>(frame.size()));
  const Kind kind = kind_of(frame);
  if (!kind.ip) return service;
  service.add(Stage::kIpSend, model_.ip_send);
  if (!kind.first) return service;
  const std::byte* const udp = kind.payload.data();
  service.add(Stage::kUdpSend, model_.udp_send + checksum_byte() * load_be<std::uint16_t>(udp + 4));
  if (load<std::uint8_t>(udp + stack::kUdpHeaderBytes + 2) > 0)
    service.add(Stage::kWindowSend, model_.window_send);
  else
    service.add(Stage::kAckSend, model_.ack_send);
  return service;
}

Duration Iccs::spend(Proxy& p, const Service& service) {
  if (measuring_) {
    for (std::size_t s = 0; s < service.stages.size(); ++s)
      p.figures.stages[s] += service.stages[s] / config_.proxy_speed;
  }
  return proxy_time(service.cycles);
}

// Everything that the stack has to send now leaves as its stages are over, one after the other.
void Iccs::transmit(Proxy& p, Instant& until) {
  while (const std::size_t length = p.stack.poll_transmit(events_.now(), kOwnLink, room_)) {
    const ByteView bytes(room_.data(), length);
    until = until + spend(p, send_service(bytes));
    const std::uint32_t number = new_frame();
    std::memcpy(frames_.data(number), bytes.data(), length);
    Frame& frame = frame_facts_[number];
    frame.length = static_cast<std::uint32_t>(length);
    const std::array<std::uint8_t, 6> to = stack::MacAddress::load(bytes.data()).octets();
    frame.to = ClusterId(static_cast<std::uint16_t>(to[3] << 8 | to[4]));
    frame.to_proxy = to[5];
    if (measuring_) ++p.figures.frames_sent;
    events_.push(until, {EventKind::kFrameLeaves, p.index, p.cluster, number});
  }
}

void Iccs::frame_leaves(Proxy& p, std::uint32_t number) {
  const Instant now = events_.now();
  Frame& frame = frame_facts_[number];
  frame.left = now;
  Ni& ni = nis_[p.cluster * config_.nis + p.index % config_.nis];
  const Link::Transit transit = ni.link.offer(now, frame.length);
  if (measuring_ && transit.verdict == Link::Verdict::kCarried) {
    ++ni.figures.frames;
    ni.figures.bytes += frame.length;
    ni.figures.busy += transit.sent - transit.begins;
    ni.figures.waited += transit.begins - now;
  }
  const Fate fate = ni.faults.strike(now, frame.length);
  if (transit.verdict != Link::Verdict::kCarried || fate.copies == 0) {
    ++frames_lost_;
    frames_.give(number);
    return;
  }
  frame.on_link = transit.begins;
  fate.harm({frames_.data(number), frame.length});
  const Event arrival{EventKind::kFrameArrives, static_cast<std::uint8_t>(frame.to_proxy), frame.to.value(),
                      number};
  events_.push(transit.arrives + fate.delay[0], arrival);
  if (fate.copies < 2) return;
  const std::uint32_t copy = new_frame();
  frame_facts_[copy] = frame_facts_[number];
  std::memcpy(frames_.data(copy), frames_.data(number), frame_facts_[number].length);
  Event second = arrival;
  second.item = copy;
  events_.push(transit.arrives + fate.delay[1], second);
}

// Puts the records where they belong; they are told at `at`, when the stages are over. False: malformed, and
// none of it counts.
bool Iccs::take_records(Proxy& p, const stack::Stack::Received& received, Instant at, const Frame& frame) {
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  const ClusterId here(p.cluster);
  while (reader.next(&record, &bytes)) {
    if (record.kind == stack::RecordKind::kMessage) {
      Connection& way = connection(received.source, here);
      // What was delivered before may lie where something newer is by now.
      if (record.position - way.receiver.consumed() < 0 || !way.put(record.position, bytes)) continue;
    }
    const std::uint32_t item = new_arrival();
    arrivals_[item] = {received.source, here,          record,        p.index,       frame.ahead,
                       frame.left,      frame.on_link, frame.arrived, events_.now(), at};
    events_.push(at + notice(), {EventKind::kDelivery, p.index, here.value(), item});
  }
  if (!reader.broken()) return true;
  p.stack.malformed();
  return false;
}

void Iccs::take_back(Proxy& p) {
  for (const auto& sub : p.stack.sub_connections()) {
    CHECK(!sub->take_lost());  // nobody dies here
    for (stack::OutMessage* m = sub->take_finished(); m != nullptr;) {
      Outgoing& out = static_cast<Outgoing&>(*m);
      m = m->next;
      out.finished = true;
      if (out.delivered || out.record.kind != stack::RecordKind::kMessage)
        free_messages_.push_back(out.number);
    }
  }
}

// --- The convergence layer at the destination

void Iccs::deliver(std::uint32_t item) {
  const Arrival a = arrivals_[item];
  free_arrivals_.push_back(item);
  const Instant now = events_.now();
  if (a.record.kind == stack::RecordKind::kCredit) {
    // Of what this cluster sent: the connection in the other direction.
    Connection& own = connection(a.to, a.from);
    CHECK(own.sender.on_credit(a.record.position));
    if (own.waiting) {
      own.waiting = false;
      sink_.on_room(now, a.to, a.from);
    }
    return;
  }
  Connection& way = connection(a.from, a.to);
  if (way.receiver.on_arrival(a.record) != convergence::Accepted::kNew) return;
  Outgoing& m = messages_[way.number_at(a.record.message)];
  m.report.peer_proxy = a.proxy;
  m.report.peer_ahead = a.ahead;
  m.report.times.left = a.left;
  m.report.times.on_link = a.on_link;
  m.report.times.arrived = a.arrived;
  m.report.times.taken = a.taken;
  Sink::Handled handled{now, 0};
  while (const std::optional<ByteView> message = way.receiver.next()) {
    m.report.times.delivered = a.delivered;
    --under_way_;
    m.delivered = true;
    sink_.on_delivered(m.report);
    if (m.finished) free_messages_.push_back(m.number);
    handled = sink_.on_message(now, a.to, a.from, *message);
  }
  const std::optional<Position> credit = way.receiver.credit_due();
  if (!credit) return;
  way.receiver.credit_returned(*credit);
  Outgoing& c = new_message();
  c.record.kind = stack::RecordKind::kCredit;
  c.record.destination = port_of(a.to);
  c.record.source = port_of(a.from);
  c.record.position = *credit;
  c.report.from = a.to;
  c.report.to = a.from;
  submit(handled.until + model_.time(model_.hand_over), a.to, handled.lane, c);
}

// --- Figures

void Iccs::start_measuring() {
  for (const auto& p : proxies_) count_queue(*p);
  measuring_ = true;
}

void Iccs::stop_measuring(Instant end) {
  for (const auto& p : proxies_) {
    count_queue(*p);
    if (measuring_) p->figures.queue.add(end - events_.now(), 0);
  }
  measuring_ = false;
}

const ProxyFigures& Iccs::figures(ClusterId cluster, unsigned index) const {
  return proxy(cluster.value(), index).figures;
}

const LinkFigures& Iccs::link_figures(ClusterId cluster, unsigned ni) const {
  return nis_[cluster.value() * config_.nis + ni].figures;
}

std::size_t Iccs::held() const {
  return messages_.size() - free_messages_.size();
}

std::uint64_t Iccs::retransmissions() const {
  std::uint64_t sum = 0;
  for (const auto& p : proxies_)
    for (const auto& sub : p->stack.sub_connections()) sum += sub->stats().retransmissions;
  return sum;
}

}  // namespace braid::sim
