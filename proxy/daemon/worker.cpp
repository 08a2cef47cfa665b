#include "proxy/daemon/worker.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "convergence/position.h"

namespace braid::proxy {
namespace {

using convergence::granules_of;
using convergence::kGranuleBytes;

// Descriptors of one channel that a turn takes: a busy client does not keep the others waiting.
constexpr std::uint32_t kDescriptorsPerTurn = 64;
constexpr int kBurstsPerTurn = 4;
constexpr std::size_t kControlMessagesUnderWay = 256;
// A turn that comes so late was held up by the scheduler; what was not heard meanwhile says nothing about
// peers.
constexpr Duration kSchedulingGap = 50_ms;
// Between looks at what changes seldom, and between copies of the counters into memory that others read.
constexpr std::uint64_t kTurnsPerLook = 64;
// How long a client's ring of arrivals may be full.
constexpr Duration kFullRingPatience = 1_s;
constexpr std::uint32_t kLongestPiece = 32768;

}  // namespace

Channel::Channel(std::uint32_t client_id, const ChannelGeometry& g, std::byte* memory, unsigned endpoint,
                 unsigned proxy)
    : client(client_id),
      send(memory + g.send_ring(endpoint, proxy), g.send_descriptors),
      data(memory + g.send_data(endpoint, proxy)),
      data_bytes(g.send_bytes),
      arrivals(memory + g.arrival_ring(endpoint, proxy), g.arrivals),
      doorbell(reinterpret_cast<Doorbell*>(memory + g.doorbell(endpoint))),
      outgoing(g.send_descriptors) {
  for (std::uint32_t i = 0; i < g.send_descriptors; ++i) {
    outgoing[i].channel = this;
    outgoing[i].index = i;
  }
}

Worker::Worker(const stack::StackConfig& config, std::vector<Queue> queues, ProxyCounters& counters,
               Instant now)
    : stack_(config, now),
      queues_(std::move(queues)),
      transmit_(config.interfaces.size(), nullptr),
      counters_(counters),
      ports_(kMaxPorts),
      control_pool_(kControlMessagesUnderWay),
      last_turn_(now) {
  for (Queue& q : queues_) {
    NicQueue*& transmit = transmit_[q.link.value()];
    if (transmit == nullptr) transmit = q.nic.get();
    CHECK_GE(q.nic->max_frame_bytes(), stack_.frame_bytes());
  }
  for (Outgoing& o : control_pool_) control_free_.push_back(&o);
  owed_.reserve(kEvents);
  rung_.reserve(kMaxEndpoints);
}

int Worker::do_work(Instant now) {
  if (now - last_turn_ > kSchedulingGap) {
    stack_.on_scheduling_gap(now);
    counters_.scheduling_gaps.add();
  }
  last_turn_ = now;
  int work = obey_commands();
  work += receive(now);
  publish_arrivals();
  work += take_descriptors();
  work += transmit(now);
  work += finish();
  if (!drains_.empty() || !owed_.empty()) settle();
  ++turns_;
  if (work == 0) ++idle_turns_;
  if (turns_ % kTurnsPerLook == 0) {
    watch_sub_connections();
    publish_counters();
  }
  return work;
}

// ---------------------------------------------------------------- commands

int Worker::obey_commands() {
  int obeyed = 0;
  for (WorkerCommand c; commands_.pop(c); ++obeyed) obey(c);
  if (obeyed > 0) obeyed_.store(obeyed_.load(std::memory_order_relaxed) + obeyed, std::memory_order_release);
  return obeyed;
}

void Worker::obey(const WorkerCommand& c) {
  switch (c.kind) {
    case WorkerCommand::Kind::kAttach:
      channels_.push_back(c.channel);
      return;
    case WorkerCommand::Kind::kDetach:
      c.channel->detaching = true;
      drains_.push_back({PortId(), c.channel, 0});
      return;
    case WorkerCommand::Kind::kInstallPort:
      ports_[c.port.id.value() % kMaxPorts] = c.port;
      return;
    case WorkerCommand::Kind::kRemovePort:
      if (PortEntry* const port = find(c.port.id)) *port = PortEntry{};
      return;
    case WorkerCommand::Kind::kDrainPort: {
      PortEntry* const port = find(c.port.id);
      Channel* const channel = port != nullptr ? port->channel : nullptr;
      std::uint32_t mark = 0;
      if (channel != nullptr) {
        (void)channel->send.refresh();
        mark = channel->send.taken() + channel->send.readable();
      }
      drains_.push_back({c.port.id, channel, mark});
      return;
    }
    case WorkerCommand::Kind::kSendControl:
      control_waiting_.push_back(c);
      send_control();
      return;
  }
}

void Worker::send_control() {
  while (!control_waiting_.empty() && !control_free_.empty()) {
    const WorkerCommand c = control_waiting_.front();
    control_waiting_.pop_front();
    stack::SubConnection* const sub = route(c.cluster);
    if (sub == nullptr) continue;
    Outgoing& out = *control_free_.back();
    control_free_.pop_back();
    convergence::write_control(out.control, c.control);
    out.record = {};
    out.record.kind = stack::RecordKind::kControl;
    out.record.message_bytes = convergence::kControlBytes;
    out.data = out.control.data();
    out.bytes = convergence::kControlBytes;
    sub->send(out);
  }
}

PortEntry* Worker::find(PortId id) {
  if (id == PortId()) return nullptr;
  PortEntry& port = ports_[id.value() % kMaxPorts];
  return port.id == id ? &port : nullptr;
}

// ---------------------------------------------------------------- arrivals

int Worker::receive(Instant now) {
  int frames = 0;
  for (Queue& q : queues_) {
    MutableBytes burst[kMaxBurst];
    const std::size_t n = q.nic->receive(burst);
    for (std::size_t i = 0; i < n; ++i) receive_frame(now, q.link, burst[i], true);
    frames += static_cast<int>(n);
  }
  for (Handoff* in : handoff_from_)
    frames += in->drain([&](LinkId link, ByteView frame) { receive_frame(now, link, frame, false); });
  return frames;
}

void Worker::receive_frame(Instant now, LinkId link, ByteView frame, bool may_hand_over) {
  counters_.frame_bytes_received.add(frame.size());
  const stack::Stack::Received received = stack_.receive(now, link, frame);
  switch (received.what) {
    case stack::Stack::Received::What::kNothing:
      return;
    case stack::Stack::Received::What::kMisdirected: {
      counters_.misdirected.add();
      Handoff* const out = may_hand_over ? handoff_to_[received.proxy] : nullptr;
      if (out == nullptr || !out->push(link, frame)) counters_.handoff_drops.add();
      return;
    }
    case stack::Stack::Received::What::kForAllProxies:
      for (Handoff* out : handoff_to_)
        if (may_hand_over && out != nullptr && !out->push(link, frame)) counters_.handoff_drops.add();
      return;
    case stack::Stack::Received::What::kRecords:
      break;
  }
  // If there is no room for all of them the packet stays unacknowledged and comes again. What was delivered
  // of it is then a duplicate, which connections know and the control plane does not: so control messages go
  // last, and all or none.
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  std::size_t control_messages = 0;
  while (reader.next(&record, &bytes)) {
    if (record.kind == stack::RecordKind::kControl)
      ++control_messages;
    else if (!deliver(received.source, record, bytes))
      return;
  }
  if (reader.broken()) {
    stack_.malformed();
    return;
  }
  if (control_messages > 0 && !deliver_control(received, control_messages)) return;
  stack_.delivered(now, received);
}

bool Worker::deliver_control(const stack::Stack::Received& received, std::size_t messages) {
  if (!owed_.empty() || events_.write_available() < messages) {
    counters_.arrival_ring_full.add();
    return false;
  }
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  while (reader.next(&record, &bytes)) {
    if (record.kind != stack::RecordKind::kControl) continue;
    WorkerEvent event{WorkerEvent::Kind::kControl, received.source, {}, PortId(), nullptr};
    if (convergence::parse_control(bytes, &event.control))
      CHECK(events_.push(event));
    else
      stack_.malformed();
  }
  return true;
}

// True when the record needs no more: it lies where it belongs, or nobody will ever take it.
bool Worker::deliver(ClusterId source, const stack::Record& r, ByteView bytes) {
  PortEntry* const port = find(r.destination);
  if (port == nullptr || port->peer != source || port->peer_port != r.source) {
    counters_.no_port.add();
    return true;
  }
  if (r.kind == stack::RecordKind::kCredit) {
    // Records overtake each other: only a newer position counts.
    std::atomic<std::uint32_t>& credit = port->cell->credit[stack_.config().local.proxy.value()];
    if (r.position > Position(credit.load(std::memory_order_relaxed)))
      credit.store(r.position.value(), std::memory_order_release);
    return true;
  }
  return deliver_message(*port, r, bytes);
}

bool Worker::deliver_message(PortEntry& port, const stack::Record& r, ByteView bytes) {
  // The client's word on what it has consumed can only hurt itself: whatever it says, the bytes go into its
  // own buffer.
  const Position consumed(port.cell->consumed.load(std::memory_order_acquire));
  const std::int32_t ahead = r.position - consumed;
  const std::uint32_t granules = granules_of(r.bytes);
  const std::uint32_t index = r.position.value() & (port.window_granules - 1);
  if (ahead < 0 || static_cast<std::uint32_t>(ahead) + granules > port.window_granules ||
      index + granules > port.window_granules) {
    counters_.stale_records.add();
    return true;
  }
  Channel& channel = *port.channel;
  if (channel.closed || channel.detaching) {
    counters_.no_port.add();
    return true;
  }
  if (consumed != port.forgotten) forget_consumed(port, consumed);
  std::uint64_t& word = port.reported[index / 64];
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  if ((word & bit) != 0) {
    counters_.stale_records.add();
    return true;
  }
  if (channel.arrivals.room() == 0) {
    if (channel.arrivals.peer() == Peer::kCheats) {
      client_cheats(channel);
      return true;
    }
    counters_.arrival_ring_full.add();
    // It has an entry for every granule that was promised. Who keeps it full (it says that it consumed what
    // it does not take) keeps the whole sub-connection waiting, so not for long.
    if (channel.full_since == Instant::never()) channel.full_since = last_turn_;
    if (last_turn_ - channel.full_since < kFullRingPatience) return false;
    client_cheats(channel);
    return true;
  }
  if (channel.full_since != Instant::never()) channel.full_since = Instant::never();
  word |= bit;
  std::memcpy(port.window + std::size_t{index} * kGranuleBytes, bytes.data(), bytes.size());
  ArrivalDescriptor d{};
  d.destination_port = r.destination.value();
  d.position = r.position.value();
  d.message_bytes = r.message_bytes;
  d.message_offset = r.message_offset;
  d.message = r.message.value();
  d.bytes = r.bytes;
  d.skip = r.skip;
  d.many_pieces = r.many_pieces ? 1 : 0;
  if (!channel.arrivals.unpublished()) rung_.push_back(&channel);
  channel.arrivals.push(d);
  counters_.messages_received.add();
  counters_.message_bytes_received.add(r.bytes);
  return true;
}

void Worker::forget_consumed(PortEntry& port, Position consumed) {
  const std::int32_t moved = consumed - port.forgotten;
  if (moved <= 0) return;  // a lie, which costs its client what arrives now
  if (static_cast<std::uint32_t>(moved) >= port.window_granules) {
    std::fill_n(port.reported, reported_words(port.window_granules), 0);
  } else {
    std::uint32_t at = port.forgotten.value() & (port.window_granules - 1);
    for (auto left = static_cast<std::uint32_t>(moved); left > 0;) {
      const std::uint32_t bits = std::min(left, 64 - at % 64);
      const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
      port.reported[at / 64] &= ~(mask << (at % 64));
      at = (at + bits) & (port.window_granules - 1);
      left -= bits;
    }
  }
  port.forgotten = consumed;
}

void Worker::publish_arrivals() {
  for (Channel* channel : rung_) {
    channel->arrivals.publish();
    channel->doorbell->ring();
  }
  rung_.clear();
}

// ---------------------------------------------------------------- departures

int Worker::take_descriptors() {
  int taken = 0;
  for (Channel* channel : channels_) {
    if (!channel->closed && !channel->detaching) taken += take_descriptors(*channel);
  }
  return taken;
}

int Worker::take_descriptors(Channel& channel) {
  const std::uint32_t readable = std::min(channel.send.readable(), kDescriptorsPerTurn);
  if (channel.send.peer() == Peer::kCheats) {
    client_cheats(channel);
    return 0;
  }
  bool unsent = false;
  for (std::uint32_t i = 0; i < readable; ++i) {
    Outgoing& out = channel.outgoing[channel.send.taken() & (channel.send.capacity() - 1)];
    const SendDescriptor d = channel.send.take();  // copied, then checked, then used
    ++channel.unfinished;
    const PortEntry* const port = permitted(channel, d);
    if (port == nullptr) {
      finish(out);
      client_cheats(channel);
      return static_cast<int>(i);
    }
    if (port->peer_lost) {  // nobody will ever take it, and nobody waits until the peer comes back
      finish(out);
      unsent = true;
      continue;
    }
    stack::Record& r = out.record;
    r.destination = port->peer_port;
    r.source = port->id;
    r.position = Position(d.position);
    r.kind = static_cast<stack::RecordKind>(d.kind);
    r.many_pieces = d.many_pieces != 0;
    r.skip = d.skip;
    r.message_bytes = d.message_bytes;
    r.message_offset = d.message_offset;
    r.message = Position(d.message);
    out.data = channel.data + d.data_offset;
    out.bytes = d.bytes;
    stack::SubConnection* const sub = route(port->peer);
    if (sub == nullptr) {
      finish(out);
      unsent = true;
      continue;
    }
    sub->send(out);
  }
  if (unsent) release(channel);
  return static_cast<int>(readable);
}

PortEntry* Worker::permitted(const Channel& channel, const SendDescriptor& d) {
  PortEntry* const port = find(PortId(d.source_port));
  if (port == nullptr || port->channel != &channel) return nullptr;
  if (d.kind == static_cast<std::uint8_t>(stack::RecordKind::kCredit)) {
    return d.bytes == 0 && d.message_bytes == 0 && d.message_offset == 0 ? port : nullptr;
  }
  if (d.kind != static_cast<std::uint8_t>(stack::RecordKind::kMessage) || d.many_pieces > 1) return nullptr;
  if (d.bytes > kLongestPiece || !inside(d.data_offset, d.bytes, channel.data_bytes)) return nullptr;
  if (d.message_bytes > convergence::kMaxMessageBytes || d.message_offset % kGranuleBytes != 0)
    return nullptr;
  if (!inside(d.message_offset, d.bytes, d.message_bytes)) return nullptr;
  if (d.many_pieces == 0 && (d.message_offset != 0 || d.bytes != d.message_bytes)) return nullptr;
  return port;
}

// The sending proxy picks the destination proxy (paper, section 3.5): one of those that it has a
// sub-connection with.
stack::SubConnection* Worker::route(ClusterId cluster) {
  if (cluster.value() >= stack::kMaxClusters) return nullptr;
  const std::span<stack::SubConnection* const> subs = stack_.to(cluster);
  if (subs.empty()) return nullptr;
  for (std::size_t tried = 0; tried < subs.size(); ++tried) {
    stack::SubConnection* const sub = subs[next_route_++ % subs.size()];
    if (!sub->path_dead()) return sub;
  }
  return subs[0];
}

int Worker::transmit(Instant now) {
  if (!stack_.wants_to_transmit(now)) return 0;
  int frames = 0;
  for (std::uint16_t link = 0; link < transmit_.size(); ++link) {
    NicQueue* const nic = transmit_[link];
    if (nic == nullptr) continue;
    for (int burst = 0; burst < kBurstsPerTurn; ++burst) {
      TxFrame room[kMaxBurst];
      const std::size_t offered = nic->reserve(room);
      std::size_t used = 0;
      while (used < offered) {
        const std::size_t length =
            stack_.poll_transmit(now, LinkId(link), {room[used].data, room[used].capacity});
        if (length == 0) break;
        room[used].length = static_cast<std::uint32_t>(length);
        counters_.frame_bytes_sent.add(length);
        ++used;
      }
      if (used > 0) nic->commit(std::span(room, used));
      frames += static_cast<int>(used);
      if (used < kMaxBurst) break;
    }
  }
  return frames;
}

int Worker::finish() {
  int finished = 0;
  for (const auto& sub : stack_.sub_connections()) {
    stack::OutMessage* m = sub->take_finished();
    while (m != nullptr) {
      stack::OutMessage* const next = m->next;
      finish(static_cast<Outgoing&>(*m));
      m = next;
      ++finished;
    }
  }
  if (finished > 0) {
    for (Channel* channel : channels_) release(*channel);
  }
  return finished;
}

void Worker::finish(Outgoing& m) {
  if (m.channel == nullptr) {
    control_free_.push_back(&m);
    send_control();
    return;
  }
  m.done = true;
  --m.channel->unfinished;
}

// Gives the client back what is finished, in the order in which it was taken.
void Worker::release(Channel& channel) {
  std::uint32_t upto = channel.send.released();
  while (upto != channel.send.taken()) {
    Outgoing& m = channel.outgoing[upto & (channel.send.capacity() - 1)];
    if (!m.done) break;
    m.done = false;
    ++upto;
  }
  channel.send.release(upto);
}

// ---------------------------------------------------------------- the rest

void Worker::client_cheats(Channel& channel) {
  if (channel.closed) return;
  channel.closed = true;
  counters_.bad_descriptors.add();
  owed_.push_back({WorkerEvent::Kind::kClientCheats, ClusterId(), {}, PortId(), &channel});
}

void Worker::watch_sub_connections() {
  std::uint64_t lost = 0;
  for (const auto& sub : stack_.sub_connections()) {
    lost += sub->stats().peers_lost;
    if (sub->refused_hash()) refused_peer_.store(true, std::memory_order_relaxed);
  }
  if (lost != peers_lost_) {
    peers_lost_ = lost;
    for (const auto& sub : stack_.sub_connections()) {
      if (!sub->take_lost()) continue;
      const ClusterId cluster = sub->config().remote.cluster;
      for (PortEntry& port : ports_) port.peer_lost = port.peer_lost || port.peer == cluster;
      owed_.push_back({WorkerEvent::Kind::kPeerLost, cluster, {}, PortId(), nullptr});
    }
  }
  const bool ready = stack_.all_established();
  if (ready != ready_.load(std::memory_order_relaxed)) ready_.store(ready, std::memory_order_release);
}

void Worker::settle() {
  std::erase_if(drains_, [&](const Drain& drain) {
    Channel* const channel = drain.channel;
    if (channel != nullptr) release(*channel);
    if (channel != nullptr && channel->detaching && drain.port == PortId()) {
      // The control plane asks for it when all of the client's ports are drained.
      if (channel->unfinished > 0) return false;
      std::erase(channels_, channel);
      owed_.push_back({WorkerEvent::Kind::kDetached, ClusterId(), {}, PortId(), channel});
      return true;
    }
    const bool sent =
        channel == nullptr ||
        (channel->closed ? channel->unfinished == 0
                         : static_cast<std::int32_t>(channel->send.released() - drain.mark) >= 0);
    if (!sent) return false;
    owed_.push_back({WorkerEvent::Kind::kDrained, ClusterId(), {}, drain.port, nullptr});
    return true;
  });
  std::size_t told = 0;
  while (told < owed_.size() && events_.push(owed_[told])) ++told;
  owed_.erase(owed_.begin(), owed_.begin() + static_cast<std::ptrdiff_t>(told));
}

void Worker::publish_counters() {
  counters_.turns.set(turns_);
  counters_.idle_turns.set(idle_turns_);
  const stack::StackStats& s = stack_.stats();
  counters_.packets_received.set(s.packets_received);
  counters_.duplicates.set(s.duplicates);
  counters_.bad_frames.set(s.bad_frames);
  counters_.bad_ip.set(s.bad_ip);
  counters_.bad_udp.set(s.bad_udp);
  counters_.bad_packets.set(s.bad_packets);
  counters_.fragments_dropped.set(s.fragments_dropped);
  counters_.unknown_epoch.set(s.unknown_epoch);
  stack::SubConnectionStats sum;
  for (const auto& sub : stack_.sub_connections()) {
    const stack::SubConnectionStats& t = sub->stats();
    sum.packets_sent += t.packets_sent;
    sum.retransmissions += t.retransmissions;
    sum.timeouts += t.timeouts;
    sum.fast_retransmissions += t.fast_retransmissions;
    sum.acknowledgements_sent += t.acknowledgements_sent;
    sum.messages_sent += t.messages_sent;
    sum.message_bytes_sent += t.message_bytes_sent;
    sum.peers_lost += t.peers_lost;
  }
  counters_.packets_sent.set(sum.packets_sent);
  counters_.retransmissions.set(sum.retransmissions);
  counters_.timeouts.set(sum.timeouts);
  counters_.fast_retransmissions.set(sum.fast_retransmissions);
  counters_.acknowledgements_sent.set(sum.acknowledgements_sent);
  counters_.messages_sent.set(sum.messages_sent);
  counters_.message_bytes_sent.set(sum.message_bytes_sent);
  counters_.peers_lost.set(sum.peers_lost);
  std::uint64_t drops = 0;
  for (const NicQueue* nic : transmit_) drops += nic != nullptr ? nic->transmit_drops() : 0;
  counters_.transmit_drops.set(drops);
}

}  // namespace braid::proxy
