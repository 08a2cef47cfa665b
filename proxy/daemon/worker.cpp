#include "proxy/daemon/worker.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/mutant.h"
#include "convergence/position.h"
#include "proxy/daemon/worker_turn.h"

namespace braid::proxy {
namespace {

using convergence::granules_of;
using convergence::kGranuleBytes;

constexpr int kBurstsPerTurn = 4;
constexpr std::size_t kControlMessagesUnderWay = 256;
// A turn that comes so late was held up by the scheduler; what was not heard meanwhile says nothing about
// peers.
constexpr Duration kSchedulingGap = 50_ms;
// Between looks at what changes seldom, and between copies of the counters into memory that others read.
constexpr std::uint64_t kTurnsPerLook = 64;
// How long a client's ring of arrivals may be full.
constexpr Duration kFullRingPatience = 1_s;
// How long the last words to a cluster that is left may take to be acknowledged.
constexpr Duration kPartingPatience = 200_ms;
// What a proxy sends for all others at once.
constexpr std::size_t kBorrowed = Relay::kMessages;

bool lives(const stack::SubConnection& sub) {
  return sub.established() && !sub.path_dead() && sub.may_take();
}
bool is_fenced(const stack::SubConnection& sub) {
  return sub.state() == stack::SubConnection::State::kFenced;
}

}  // namespace

Channel::Channel(std::uint32_t client_id, const ChannelGeometry& g, std::byte* client_memory,
                 unsigned its_endpoint, unsigned its_lane, bool resumes)
    : client(client_id),
      endpoint(its_endpoint),
      lane(its_lane),
      memory(client_memory),
      again(resumes),
      send(memory + g.send_ring(endpoint, lane), g.send_descriptors, resumes),
      data(memory + g.send_data(endpoint, lane)),
      data_bytes(g.send_bytes),
      arrivals(memory + g.arrival_ring(endpoint, lane), g.arrivals, resumes),
      doorbell(reinterpret_cast<Doorbell*>(memory + g.doorbell(endpoint))),
      outgoing(g.send_descriptors),
      send_ring_(memory + g.send_ring(endpoint, lane)) {
  for (Outgoing& o : outgoing) o.channel = this;
  if (resumes) resume_sending();
}

void Channel::resume_sending() {
  send = SendConsumer(send_ring_, send.capacity(), true);
  // What was published until now may have been taken, and sent, by the proxy before.
  again = send.refresh() == Peer::kHonest;
  again_until = again ? send.taken() + send.readable() : 0;
  sends = true;
}

Worker::Worker(const stack::StackConfig& config, std::vector<Queue> queues, ProxyCounters& counters,
               ProxyStates& states, Instant now, std::uint32_t max_ports)
    : stack_(config, now),
      queues_(std::move(queues)),
      transmit_(config.interfaces.size(), nullptr),
      counters_(counters),
      states_(states),
      ports_(max_ports),
      control_pool_(kControlMessagesUnderWay),
      last_turn_(now) {
  for (Queue& q : queues_) {
    NicQueue*& transmit = transmit_[q.link.value()];
    if (transmit == nullptr) transmit = q.nic.get();
    CHECK_GE(q.nic->max_frame_bytes(), stack_.frame_bytes());
  }
  for (std::size_t i = 0; i < config.remotes.size(); ++i) {
    const stack::RemoteStack& remote = config.remotes[i];
    Path path;
    path.sub = stack_.sub_connections()[i].get();
    path.id = {config.local.proxy, remote.id.cluster, remote.id.proxy};
    path.known = !remote.absent;
    path.waits = remote.absent;
    paths_.push_back(path);
  }
  for (std::uint16_t cluster = 0; cluster < stack::kMaxClusters; ++cluster) make_route(ClusterId(cluster));
  peer_proxies_.fill(stack::kMaxProxiesPerCluster);
  for (Outgoing& o : control_pool_) control_free_.push_back(&o);
  for (std::size_t i = 0; i < kBorrowed; ++i) {
    borrow_pool_.push_back(std::make_unique<Outgoing>());
    borrow_free_.push_back(borrow_pool_.back().get());
  }
  pending_events_.reserve(kEvents);
  rung_.reserve(kMaxEndpoints);
}

void Worker::connect_relay(unsigned other, Relay* lend, Relay* borrow) {
  relay_peers_[other].lend = lend;
  relay_peers_[other].borrow = borrow;
}

// False: the others have given it up, and not yet cut it off from what they share.
bool Worker::begin(Instant now) {
  const ProxyState& state = states_[self()];
  if (state.fenced.load(std::memory_order_acquire)) {
    if (!state.isolated.load(std::memory_order_acquire)) return false;
    start_anew(now);
  }
  beat();
  stack_.begin_turn(now);
  return true;
}

int Worker::do_work(Instant now) {
  if (!begin(now)) return 0;
  if (now - last_turn_ > kSchedulingGap) {
    stack_.on_scheduling_gap(now);
    counters_.scheduling_gaps.add();
  }
  last_turn_ = now;
  int work = obey_commands(now);
  work += receive(now);
  publish_arrivals();
  NoMeter none;
  if (taking_) work += take_descriptors(none);
  work += run_relays();
  work += send_datagrams(now);
  work += transmit(now);
  work += finish();
  if (!partings_.empty()) end_partings(now);
  if (!drains_.empty()) answer_drains();
  if (!pending_events_.empty()) publish_events();
  if (work == 0)
    ++idle_turns_;
  else
    publish_load();
  if (turns_ % kTurnsPerLook == 0) {
    watch_sub_connections(now);
    publish_counters();
  }
  return work;
}

// What ends every unit of work. It leaves nothing that could leave now: nobody comes back before something
// happens.
void Worker::end_unit(Instant now) {
  publish_arrivals();
  while (transmit(now) > 0) {
  }
  finish();
  if (!partings_.empty()) end_partings(now);
  if (stack_.agenda().any_changed() || !stranded_.empty()) {
    stack_.agenda().clear_changed();
    watch_sub_connections(now);
    while (transmit(now) > 0) {  // what was stranded, or taken back
    }
  }
  if (!drains_.empty()) answer_drains();
  if (!pending_events_.empty()) publish_events();
}

Instant Worker::next_deadline() {
  Instant next = stack_.next_deadline();
  for (const Parting& parting : partings_) next = earlier(next, parting.until);
  return next;
}

// Those that are preferred first.
void Worker::make_route(ClusterId cluster) {
  Route& route = routes_[cluster.value()];
  route = Route{};
  for (const bool preferred : {true, false}) {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      if (paths_[i].id.cluster != cluster || !paths_[i].known || stack_.remote(i).preferred != preferred)
        continue;
      route.subs.push_back(paths_[i].sub);
      if (preferred) ++route.preferred;
    }
  }
}

// This proxy stood still, and the others have gone on without it (FO-6). Nothing that it had is of any use.
void Worker::start_anew(Instant now) {
  std::uint64_t discarded = 0;
  for (WorkerCommand c; commands_.pop(c);) ++discarded;
  obeyed_.store(obeyed_.load(std::memory_order_relaxed) + discarded, std::memory_order_release);
  ++generation_;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (stack_.remote(i).names && std::exchange(path.known, false)) make_route(path.id.cluster);
    (void)path.sub->fence(now);
    (void)path.sub->take_finished();
    (void)path.sub->take_lost();
    path.told = Path::Told::kNothing;
    path.held = nullptr;
    path.waits = true;
  }
  partings_.clear();
  channels_.clear();
  for (PortEntry& port : ports_) port = PortEntry{};
  drains_.clear();
  rung_.clear();
  pending_events_.clear();
  stranded_.clear();
  deferred_.clear();
  memories_.clear();
  control_waiting_.clear();
  control_free_.clear();
  for (Outgoing& o : control_pool_) control_free_.push_back(&o);
  borrow_free_.clear();
  for (const auto& o : borrow_pool_) borrow_free_.push_back(o.get());
  for (RelayPeer& n : relay_peers_) {
    if (n.lend == nullptr) continue;
    n.borrow->there.consume_all([](const RelayedMessage&) {});
    n.lend->back.consume_all([](const RelayReturn&) {});
    n.lent = n.borrowed = n.dropped = 0;
    n.forgetting = false;
  }
  last_turn_ = now;
  report(ProxyResumed{});
  ProxyState& state = states_[self()];
  state.writing.store(0, std::memory_order_relaxed);
  state.reaches.store(0, std::memory_order_relaxed);
  state.isolated.store(false, std::memory_order_relaxed);
  state.fenced.store(false, std::memory_order_release);
}

// ---------------------------------------------------------------- commands

// Every turn comes here, and to send_datagrams(): an empty place to take one to costs more than the look.
int Worker::obey_commands(Instant now) {
  if (commands_.read_available() == 0) return 0;
  int obeyed = 0;
  for (WorkerCommand command; commands_.pop(command); ++obeyed)
    std::visit([&](const auto& c) { obey(now, c); }, command);
  if (obeyed > 0) obeyed_.store(obeyed_.load(std::memory_order_relaxed) + obeyed, std::memory_order_release);
  return obeyed;
}

void Worker::obey(Instant, const AttachChannel& c) {
  channels_.push_back(c.channel);
  inherited_ = true;
}

void Worker::obey(Instant, const DetachChannel& c) {
  c.channel->detaching = true;
  drains_.push_back({PortId(), c.channel, 0});
}

void Worker::obey(Instant, const InstallPort& c) {
  ports_[c.port.id.value() & (ports_.size() - 1)] = c.port;
}

void Worker::obey(Instant, const RemovePort& c) {
  if (PortEntry* const port = find(c.port)) *port = PortEntry{};
}

void Worker::obey(Instant, const DrainPort& c) {
  const PortEntry* const port = find(c.port);
  for (Channel* channel : channels_) {
    if (port == nullptr || !channel->sends || channel->client != port->channel->client ||
        channel->endpoint != port->channel->endpoint)
      continue;
    (void)channel->send.refresh();
    drains_.push_back({c.port, channel, channel->send.taken() + channel->send.readable()});
  }
  // Answered when the last of them is done; at once where there is none.
  drains_.push_back({c.port, nullptr, 0});
}

void Worker::obey(Instant, const SendControl& c) {
  control_waiting_.push_back(c);
  send_control();
}

void Worker::obey(Instant, const ReleaseLane& c) {
  c.channel->leaving = true;
  drains_.push_back({PortId(), c.channel, 0});
}

void Worker::obey(Instant, const ServeLane& c) {
  c.channel->resume_sending();
  inherited_ = true;
}

void Worker::obey(Instant, const MapClient& c) {
  memories_.push_back({c.client, c.memory});
}

void Worker::obey(Instant, const UnmapClient& c) {
  std::erase_if(memories_, [&](const Memory& m) { return m.client == c.client; });
}

void Worker::obey(Instant, const PreferProxies& c) {
  peer_proxies_[c.cluster.value()] = static_cast<std::uint8_t>(c.active);
}

void Worker::obey(Instant, const ForgetProxy& c) {
  RelayPeer& n = relay_peers_[c.proxy.value()];
  ++n.generation;
  n.dropped += std::exchange(n.borrowed, 0);
  n.lent = 0;
  n.forgetting = true;
  std::erase_if(stranded_, [&](Outgoing* m) {
    if (m->borrowed_from != c.proxy.value() + 1) return false;
    give_back(*m, RelayReturn::Outcome::kFailed);
    return true;
  });
}

void Worker::obey(Instant, const ReclaimLent& c) {
  const std::uint32_t generation = relay_peers_[c.proxy.value()].generation;
  const auto take_back = [&](Outgoing& m) {
    if (m.lent_to != c.proxy.value() + 1 || m.generation == generation) return;
    m.lent_to = 0;
    m.record.maybe_duplicate = true;
    stranded_.push_back(&m);
  };
  for (Channel* channel : channels_)
    for (Outgoing& m : channel->outgoing) take_back(m);
  for (Outgoing& m : control_pool_) take_back(m);
  retry_stranded();
}

void Worker::obey(Instant, const SetProxyGenerations& c) {
  for (unsigned p = 0; p < proxies(); ++p) relay_peers_[p].generation = c.generations[p];
}

// ---------------------------------------------------------------- clusters of other machines

void Worker::obey(Instant now, const ConnectPath& c) {
  Path* const path = find(c.path);
  if (path == nullptr) return;
  CHECK(path->waits);
  // The control plane asked before: it knows of none that cannot be set.
  if (!stack_.set_remote(static_cast<std::size_t>(path - paths_.data()), c.remote)) return;
  path->known = true;
  path->unreachables = 0;
  make_route(path->id.cluster);
  if (!c.opens) return;  // that comes with kResume
  path->waits = false;
  path->sub->reopen(now, c.remote.incarnation);
}

// No connection with it is left: what is still to be said are control messages.
void Worker::obey(Instant now, const DrainCluster& c) {
  for (Path& path : paths_) {
    if (path.id.cluster != c.cluster || !path.known) continue;
    path.known = false;
    path.told = Path::Told::kNothing;
    fail(std::exchange(path.held, nullptr));
    path.waits = true;
    path.sub->close(now);
  }
  make_route(c.cluster);
  std::erase_if(control_waiting_, [&](const SendControl& waiting) { return waiting.to == c.cluster; });
  fail_stranded(c.cluster);
  partings_.push_back({c.cluster, now + kPartingPatience});
}

// Messages that are not with a sub-connection of ours.
bool Worker::has_anything_for(ClusterId cluster) const {
  const auto is_lent = [&](const Outgoing& m) { return m.lent_to != 0 && m.to == cluster; };
  return std::any_of(control_pool_.begin(), control_pool_.end(), is_lent) ||
         std::any_of(channels_.begin(), channels_.end(), [&](const Channel* channel) {
           return std::any_of(channel->outgoing.begin(), channel->outgoing.end(), is_lent);
         });
}

void Worker::end_partings(Instant now) {
  std::erase_if(partings_, [&](const Parting& parting) {
    fail_stranded(parting.cluster);  // given back by who had borrowed it
    bool closed = true;
    for (const Path& path : paths_) {
      if (path.id.cluster != parting.cluster) continue;
      const stack::SubConnection::State state = path.sub->state();
      closed = closed && (state == stack::SubConnection::State::kClosed ||
                          state == stack::SubConnection::State::kFenced);
    }
    if ((!closed && now < parting.until) || has_anything_for(parting.cluster)) return false;
    for (const Path& path : paths_) {
      if (path.id.cluster != parting.cluster) continue;
      fail(path.sub->fence(now));
      (void)path.sub->take_lost();
    }
    report(ClusterDrained{parting.cluster});
    return true;
  });
}

int Worker::send_datagrams(Instant now) {
  if (datagrams_out_.read_available() == 0) return 0;
  int sent = 0;
  for (Datagram d; datagrams_out_.pop(d); ++sent)
    (void)stack_.send_datagram(now, d.port, d.peer, ByteView(d.data).first(d.bytes));  // it counts drops
  return sent;
}

void Worker::hand_up(const stack::Stack::Received& received) {
  Datagram d;
  d.port = received.port;
  d.peer = received.peer;
  if (received.what == stack::Stack::Received::What::kUnreachable) {
    d.unreachable = received.reason;
  } else {
    if (received.datagram.size() > d.data.size()) return;
    d.bytes = static_cast<std::uint32_t>(received.datagram.size());
    std::copy(received.datagram.begin(), received.datagram.end(), d.data.begin());
  }
  (void)datagrams_in_.push(d);
}

// What convergence::Paths decided.
void Worker::obey(Instant now, const ControlPath& control) {
  using Kind = convergence::Paths::Command::Kind;
  const convergence::Paths::Command& c = control.command;
  if (c.kind == Kind::kForgetPeer) return forget_peer(now, c);
  Path* const path = find(c.path);
  CHECK(path != nullptr);
  switch (c.kind) {
    case Kind::kClose:
      return close_path(now, *path, c);
    case Kind::kHandshake:
      if (path->known && path->waits && is_fenced(*path->sub)) path->sub->reopen(now, c.own, c.epoch);
      return;
    case Kind::kResume:
      if (!path->known || !std::exchange(path->waits, false)) return;
      if (is_fenced(*path->sub)) path->sub->reopen(now, c.own, c.epoch);
      return dispatch_again(std::exchange(path->held, nullptr), true);
    case Kind::kForgetPeer:
      return;
  }
}

void Worker::close_path(Instant now, Path& path, const convergence::Paths::Command& c) {
  watch(now, path);  // what it has to tell comes first
  const stack::SubConnection& sub = *path.sub;
  PathClosed answer{path.id, false, sub.epoch(), sub.established() ? sub.peer_epoch() : 0};
  // Our own judgement was about a peer that was there; a peer's word is about the epoch that it names,
  // and where we have not heard of that yet, it must not come to life either.
  answer.closed = path.known && !is_fenced(sub) &&
                  (!c.by_peer ? sub.established() && sub.path_dead()
                   : c.before ? !sub.has_met(c.epoch)
                              : !sub.established() || answer.peer_epoch == c.epoch);
  if (answer.closed) fence(now, path);
  report(answer);
}

void Worker::forget_peer(Instant now, const convergence::Paths::Command& c) {
  end_ports(c.path.cluster, c.association.peer);
  for (Path& path : paths_) {
    if (path.id.cluster != c.path.cluster || !path.known) continue;
    watch(now, path);
    stack::SubConnection& sub = *path.sub;
    fail(std::exchange(path.held, nullptr));
    path.waits = false;
    const bool goes_on = !is_fenced(sub) && sub.config().incarnation == c.own;
    if (goes_on && sub.established() && sub.peer_incarnation() != c.association.peer)
      continue;  // with the successor
    if (goes_on && !sub.established()) {
      fail(sub.recall());  // it may be known to the successor already
      continue;
    }
    if (!is_fenced(sub)) fail(sub.fence(now));
    path.told = Path::Told::kNothing;
    sub.reopen(now, c.own);
  }
  fail_stranded(c.path.cluster);
}

void Worker::send_control() {
  while (!control_waiting_.empty() && !control_free_.empty()) {
    const SendControl c = control_waiting_.front();
    control_waiting_.pop_front();
    Outgoing& out = *control_free_.back();
    control_free_.pop_back();
    convergence::write_control(out.control, c.message);
    out.record = {};
    out.record.kind = stack::RecordKind::kControl;
    out.record.message_bytes = convergence::kControlBytes;
    out.data = out.control.data();
    out.bytes = convergence::kControlBytes;
    out.to = c.to;
    dispatch(out);
  }
}

Worker::Path* Worker::find(const convergence::PathId& id) {
  const auto path = std::find_if(paths_.begin(), paths_.end(), [&](const Path& p) { return p.id == id; });
  return path == paths_.end() ? nullptr : &*path;
}

PortEntry* Worker::find(PortId id) {
  if (id == PortId()) return nullptr;
  PortEntry& port = ports_[id.value() & (ports_.size() - 1)];
  return port.id == id ? &port : nullptr;
}

// ---------------------------------------------------------------- arrivals

int Worker::receive(Instant now) {
  int frames = 0;
  NoMeter none;
  for (Queue& q : queues_) {
    const std::size_t n = q.nic->receive(arriving_);
    for (std::size_t i = 0; i < n; ++i) receive_frame(now, q.link, arriving_[i], true, none);
    frames += static_cast<int>(n);
  }
  for (Handoff* in : handoff_from_)
    frames += in->drain([&](LinkId link, ByteView frame) { receive_frame(now, link, frame, false, none); });
  return frames;
}

// A frame that came to this proxy's queue and is for another one's port.
void Worker::hand_over(LinkId link, ByteView frame, const stack::Stack::Received& received,
                       bool may_hand_over) {
  counters_.misdirected.add();
  Handoff* const out = may_hand_over ? handoff_to_[received.proxy] : nullptr;
  if (out != nullptr) woken_ |= 1u << received.proxy;
  stack_.for_each_frame(link, received, frame, [&](ByteView f) {
    if (out == nullptr || !out->push(link, f)) counters_.handoff_drops.add();
  });
}

void Worker::tell_all_proxies(LinkId link, ByteView frame) {
  for (unsigned p = 0; p < proxies(); ++p) {
    if (handoff_to_[p] == nullptr) continue;
    woken_ |= 1u << p;
    if (!handoff_to_[p]->push(link, frame)) counters_.handoff_drops.add();
  }
}

bool Worker::deliver_control(const stack::Stack::Received& received, std::size_t messages) {
  if (!pending_events_.empty() || events_.write_available() < messages) {
    counters_.arrival_ring_full.add();
    return false;
  }
  stack::RecordReader reader(received.records, received.record_count);
  stack::Record record;
  ByteView bytes;
  while (reader.next(&record, &bytes)) {
    if (record.kind != stack::RecordKind::kControl) continue;
    ControlReceived event;
    event.from = received.source;
    event.association = {received.sub_connection->config().incarnation,
                         received.sub_connection->peer_incarnation()};
    if (convergence::parse_control(bytes, &event.message))
      CHECK(events_.push(event));
    else
      stack_.malformed();
  }
  return true;
}

void Worker::no_such_port(ClusterId source, const stack::Record& r) {
  counters_.no_port.add();
  if (PortEntry* const meant = meant_port(source, r)) mark_corrupted(*meant);
}

// CV-10: a sender names both ends of one connection, so a record that names one of them belongs there. To a
// port that was closed records come as long as its peer has not heard of it; that names neither of an open
// one. (A peer that comes back may use again a number that it had; whose peer was lost does not count.) A
// peer that makes up records does not make us search more than once a turn.
PortEntry* Worker::meant_port(ClusterId source, const stack::Record& r) {
  PortEntry* const named = find(r.destination);
  if (named != nullptr && named->peer == source) return named;
  if (last_search_ == last_turn_) return nullptr;
  last_search_ = last_turn_;
  const auto meant = std::find_if(ports_.begin(), ports_.end(), [&](const PortEntry& port) {
    return port.id != PortId() && port.peer == source && port.peer_port == r.source && !port.peer_lost;
  });
  return meant == ports_.end() ? nullptr : &*meant;
}

// The message that came here was there before. Only what may have been delivered by another proxy, or in a
// packet that was turned away, comes again.
void Worker::repeated(PortEntry& port, const stack::Record& r) {
  counters_.stale_records.add();
  if (!r.maybe_duplicate && !turned_away_) mark_corrupted(port);
}

// CV-10
void Worker::mark_corrupted(PortEntry& port) {
  port.cell->corrupted.store(1, std::memory_order_release);
}

Worker::Delivery Worker::deliver_message(PortEntry& port, const stack::Record& r, ByteView bytes) {
  // The client's word on what it has consumed can only hurt itself: whatever it says, the bytes go into its
  // own buffer.
  const Position consumed(port.cell->consumed.load(std::memory_order_acquire));
  const std::int32_t ahead = r.position - consumed;
  const std::uint32_t granules = granules_of(r.bytes);
  const std::uint32_t index = r.position.value() & (port.window_granules - 1);
  if (ahead < 0) {
    repeated(port, r);
    return Delivery::kNothing;
  }
  if (static_cast<std::uint32_t>(ahead) + granules > port.window_granules ||
      index + granules > port.window_granules) {
    counters_.stale_records.add();
    mark_corrupted(port);
    return Delivery::kNothing;
  }
  Channel& channel = *port.channel;
  if (channel.closed || channel.detaching) {
    counters_.no_port.add();
    return Delivery::kNothing;
  }
  if (consumed != port.forgotten) forget_consumed(port, consumed);
  std::uint64_t& word = port.reported[index / 64];
  const std::uint64_t bit = std::uint64_t{1} << (index % 64);
  if ((word & bit) != 0) {
    repeated(port, r);
    return Delivery::kNothing;
  }
  if (channel.arrivals.room() == 0) {
    if (channel.arrivals.peer() == Peer::kViolates) {
      protocol_violation(channel);
      return Delivery::kNothing;
    }
    counters_.arrival_ring_full.add();
    // It has an entry for every granule that was promised. Who keeps it full (it says that it consumed what
    // it does not take) keeps the whole sub-connection waiting, so not for long.
    if (channel.full_since == Instant::never()) channel.full_since = last_turn_;
    if (last_turn_ - channel.full_since < kFullRingPatience) return Delivery::kNoRoom;
    protocol_violation(channel);
    return Delivery::kNothing;
  }
  if (channel.full_since != Instant::never()) channel.full_since = Instant::never();
  std::atomic<std::uint64_t>& writing = states_[self()].writing;
  if (r.maybe_duplicate) {
    // Another proxy may have delivered it, and its space may be granted again at this very moment. Either
    // this sees that it was consumed, or who grants it sees this (FO-9).
    writing.store(hazard(port.id, r.position), std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (r.position - Position(port.cell->consumed.load(std::memory_order_acquire)) < 0) {
      writing.store(0, std::memory_order_relaxed);
      counters_.stale_records.add();
      return Delivery::kNothing;
    }
    counters_.redelivered.add();
  }
  word |= bit;
  std::memcpy(port.window + std::size_t{index} * kGranuleBytes, bytes.data(), bytes.size());
  if (r.maybe_duplicate) writing.store(0, std::memory_order_release);
  ArrivalDescriptor d{};
  d.destination_port = r.destination.value();
  d.position = (mutant(Mutant::kMisorderAfterFailover) && r.maybe_duplicate ? consumed : r.position).value();
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
  return Delivery::kDelivered;
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

PortEntry* Worker::own_port(const Channel& channel, PortId id) {
  PortEntry* const port = find(id);
  const bool own = port != nullptr && port->channel->client == channel.client &&
                   port->channel->endpoint == channel.endpoint;
  return own ? port : nullptr;
}

bool Worker::permitted(const Channel& channel, const SendDescriptor& d) {
  if (d.kind == static_cast<std::uint8_t>(stack::RecordKind::kCredit))
    return d.bytes == 0 && d.message_bytes == 0 && d.message_offset == 0;
  if (d.kind != static_cast<std::uint8_t>(stack::RecordKind::kMessage) || d.many_pieces > 1) return false;
  if (d.bytes > stack::kMaxPieceBytes || !inside(d.data_offset, d.bytes, channel.data_bytes)) return false;
  if (d.message_bytes > convergence::kMaxMessageBytes || d.message_offset % kGranuleBytes != 0) return false;
  if (!inside(d.message_offset, d.bytes, d.message_bytes)) return false;
  return d.many_pieces != 0 || (d.message_offset == 0 && d.bytes == d.message_bytes);
}

// The sending proxy picks the destination proxy (paper, section 3.5): one of those that it has a
// sub-connection with.
stack::SubConnection* Worker::route(ClusterId cluster) {
  Route& route = routes_[cluster.value()];
  if (route.subs.size() == 1) return lives(*route.subs[0]) ? route.subs[0] : nullptr;
  // FO-8: those that the peer has set aside come last.
  const unsigned active = peer_proxies_[cluster.value()];
  const std::optional<std::uint32_t> way =
      route.turns.next(route.preferred, static_cast<std::uint32_t>(route.subs.size()), [&](std::uint32_t i) {
        if (!lives(*route.subs[i])) return convergence::Way::kNone;
        return route.subs[i]->config().remote.proxy.value() < active ? convergence::Way::kGood
                                                                     : convergence::Way::kLastResort;
      });
  return way ? route.subs[*way] : nullptr;
}

// A message without a sub-connection that lives, or before anybody looked.
void Worker::dispatch(Outgoing& m) {
  if (stack::SubConnection* const sub = route(m.to)) {
    sub->send(m);
    return;
  }
  if (m.borrowed_from == 0 && lend(m)) return;
  if (m.borrowed_from != 0) {  // its lender knows better than to pass it round
    give_back(m, RelayReturn::Outcome::kNoWay);
    return;
  }
  for (stack::SubConnection* const sub : routes_[m.to.value()].subs) {
    if (!sub->may_take()) continue;
    sub->send(m);  // it waits for the peer there
    return;
  }
  stranded_.push_back(&m);
}

void Worker::dispatch_again(stack::OutMessage* list, bool again) {
  while (list != nullptr) {
    Outgoing& m = static_cast<Outgoing&>(*list);
    list = list->next;
    m.record.maybe_duplicate = m.record.maybe_duplicate || again;
    counters_.failed_over.add();
    dispatch(m);
  }
}

void Worker::fail(stack::OutMessage* list) {
  while (list != nullptr) {
    Outgoing& m = static_cast<Outgoing&>(*list);
    list = list->next;
    m.failed = true;
    finish(m);
  }
}

void Worker::fail_stranded(ClusterId cluster) {
  for (auto* const list : {&stranded_, &deferred_}) {
    std::erase_if(*list, [&](Outgoing* m) {
      if (m->to != cluster) return false;
      m->failed = true;
      finish(*m);
      return true;
    });
  }
}

void Worker::retry_stranded() {
  std::vector<Outgoing*> again;
  again.swap(stranded_);
  for (Outgoing* m : again) dispatch(*m);
}

// FO-9: no proxy is writing to what the position grants.
bool Worker::may_grant(PortId port, Position position) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (unsigned p = 0; p < proxies(); ++p) {
    const ProxyState& state = states_[p];
    const std::uint64_t h = state.writing.load(std::memory_order_relaxed);
    if (h >> 32 == port.value() && position - Position(static_cast<std::uint32_t>(h)) > 0 &&
        !state.isolated.load(std::memory_order_acquire))
      return false;
  }
  return true;
}

// ---------------------------------------------------------------- other proxies of this node

bool Worker::lend(Outgoing& m) {
  for (unsigned p = 0; p < proxies(); ++p) {
    RelayPeer& n = relay_peers_[p];
    if (n.lend == nullptr || states_[p].fenced.load(std::memory_order_relaxed) || !reaches(p, m.to) ||
        n.lent == 2 * Relay::kMessages - 1)
      continue;
    RelayedMessage item;
    item.record = m.record;
    item.to = m.to;
    item.bytes = m.bytes;
    if (m.channel != nullptr) {
      item.client = m.channel->client;
      item.offset = static_cast<std::uint64_t>(m.data - m.channel->memory);
    } else {
      item.control = m.control;
    }
    item.lent = &m;
    item.generation = n.generation;
    item.lender_generation = generation_;
    if (!n.lend->there.push(item)) continue;
    woken_ |= 1u << p;
    m.lent_to = static_cast<std::uint8_t>(p + 1);
    m.generation = n.generation;
    ++n.lent;
    counters_.lent.add();
    return true;
  }
  return false;
}

int Worker::run_relays() {
  int work = 0;
  for (unsigned p = 0; p < proxies(); ++p) {
    RelayPeer& n = relay_peers_[p];
    if (n.lend == nullptr) continue;
    for (RelayReturn r; n.lend->back.pop(r); ++work) {
      // Of before this proxy, or that one, was fenced: it is on its way elsewhere.
      if (r.lender_generation != generation_ || r.generation != n.generation) continue;
      Outgoing& m = *r.lent;
      CHECK_EQ(m.lent_to, p + 1);
      --n.lent;
      m.lent_to = 0;
      if (r.outcome == RelayReturn::Outcome::kNoWay) {
        m.record.maybe_duplicate = true;
        stranded_.push_back(&m);
      } else {
        m.failed = r.outcome == RelayReturn::Outcome::kFailed;
        finish(m);
      }
    }
    while (!borrow_free_.empty() && n.borrow->there.read_available() > 0) {
      const RelayedMessage item = n.borrow->there.front();
      n.borrow->there.pop();
      take_borrowed(p, item);
      ++work;
    }
    if (n.forgetting && n.dropped == 0) {
      n.forgetting = false;
      report(ProxyForgotten{ProxyId(static_cast<std::uint8_t>(p))});
    }
  }
  return work;
}

void Worker::take_borrowed(unsigned from, const RelayedMessage& item) {
  RelayPeer& n = relay_peers_[from];
  if (item.generation != generation_ || static_cast<std::int32_t>(item.lender_generation - n.generation) < 0)
    return;
  Outgoing& m = *borrow_free_.back();
  borrow_free_.pop_back();
  ++n.borrowed;
  m.channel = nullptr;
  m.record = item.record;
  m.to = item.to;
  m.bytes = item.bytes;
  m.borrowed_from = static_cast<std::uint8_t>(from + 1);
  m.lent = item.lent;
  m.generation = item.lender_generation;
  if (item.client == 0) {
    m.control = item.control;
    m.data = m.control.data();
  } else {
    const auto memory = std::find_if(memories_.begin(), memories_.end(),
                                     [&](const Memory& x) { return x.client == item.client; });
    if (memory == memories_.end()) {  // it is being attached, or detached
      give_back(m, RelayReturn::Outcome::kNoWay);
      return;
    }
    m.data = memory->at + item.offset;
  }
  dispatch(m);
}

void Worker::give_back(Outgoing& m, RelayReturn::Outcome outcome) {
  const unsigned from = m.borrowed_from - 1u;
  RelayPeer& n = relay_peers_[from];
  if (static_cast<std::int32_t>(m.generation - n.generation) < 0) {
    --n.dropped;
  } else {
    --n.borrowed;
    RelayReturn r;
    r.lent = m.lent;
    r.outcome = outcome;
    r.generation = generation_;
    r.lender_generation = m.generation;
    CHECK(n.borrow->back.push(r));  // it has room for all that may be lent
    woken_ |= 1u << from;
  }
  m.borrowed_from = 0;
  borrow_free_.push_back(&m);
}

// ---------------------------------------------------------------- the wire

int Worker::transmit(Instant now) {
  if (!stack_.wants_to_transmit(now)) return 0;
  int frames = 0;
  for (std::uint16_t link = 0; link < transmit_.size(); ++link) {
    NicQueue* const nic = transmit_[link];
    if (nic == nullptr) continue;
    for (int burst = 0; burst < kBurstsPerTurn; ++burst) {
      const std::size_t offered = nic->reserve(leaving_);
      std::size_t used = 0;
      while (used < offered) {
        const std::size_t length =
            stack_.poll_transmit(now, LinkId(link), {leaving_[used].data, leaving_[used].capacity});
        if (length == 0) break;
        leaving_[used].length = static_cast<std::uint32_t>(length);
        counters_.frame_bytes_sent.add(length);
        ++used;
      }
      if (used > 0) nic->commit(std::span(leaving_).first(used));
      frames += static_cast<int>(used);
      if (used < kMaxBurst) break;
    }
  }
  return frames;
}

int Worker::finish() {
  int finished = 0;
  stack_.agenda().take_finished([&](std::size_t i) {
    stack::OutMessage* m = stack_.sub_connections()[i]->take_finished();
    while (m != nullptr) {
      stack::OutMessage* const next = m->next;
      finish(static_cast<Outgoing&>(*m));
      m = next;
      ++finished;
    }
  });
  if (!deferred_.empty()) {
    std::vector<Outgoing*> waiting;
    waiting.swap(deferred_);
    for (Outgoing* m : waiting) {
      const PortEntry* const port = find(m->record.source);
      if (port != nullptr && !may_grant(port->id, m->record.position))
        deferred_.push_back(m);
      else
        dispatch(*m);
    }
  }
  if (std::exchange(release_due_, false)) {
    for (Channel* channel : channels_) release(*channel);
  }
  return finished;
}

void Worker::finish(Outgoing& m) {
  if (m.borrowed_from != 0) {
    give_back(m, m.failed ? RelayReturn::Outcome::kFailed : RelayReturn::Outcome::kDelivered);
    return;
  }
  if (m.channel == nullptr) {
    control_free_.push_back(&m);
    send_control();
    return;
  }
  m.done = true;
  release_due_ = true;
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
  released_ = released_ || upto != channel.send.released();
  channel.send.release(upto);
}

// ---------------------------------------------------------------- the rest

void Worker::protocol_violation(Channel& channel) {
  if (channel.closed) return;
  channel.closed = true;
  counters_.bad_descriptors.add();
  report(ProtocolViolation{channel.client});
}

void Worker::end_ports(ClusterId peer, std::uint64_t incarnation) {
  for (PortEntry& port : ports_)
    port.peer_lost =
        port.peer_lost || (port.id != PortId() && port.peer == peer && port.peer_incarnation == incarnation);
}

// What it owes is kept beside what it owed when it was fenced before.
void Worker::fence(Instant now, Path& path) {
  stack::OutMessage** tail = &path.held;
  while (*tail != nullptr) tail = &(*tail)->next;
  *tail = path.sub->fence(now);
  path.waits = true;
  path.told = Path::Told::kNothing;
}

// Tells the control plane what is new.
void Worker::watch(Instant now, Path& path) {
  stack::SubConnection& sub = *path.sub;
  if (!path.known || is_fenced(sub)) return;
  if (sub.take_lost()) {
    // It can be told apart from its successor only by the incarnation that it had when it was up.
    const convergence::Association lost{sub.config().incarnation, sub.lost_incarnation()};
    if (path.told == Path::Told::kNothing && !(path.waits && lost == path.association)) {
      path.association = lost;
      report(PathUp{path.id, path.association});
    }
    const bool replaced = sub.established() && sub.peer_incarnation() != path.association.peer;
    end_ports(path.id.cluster, path.association.peer);
    report(PeerLost{path.id.cluster, path.association, !replaced, sub.peer_closed()});
    path.told = Path::Told::kNothing;
    if (!replaced)
      return fence(now, path);  // the control plane decides with which incarnation it starts again
  }
  // Who waits for the peer to close its end takes its word for that, and no less (FO-10).
  const Path::Told state = !sub.established() || (path.waits && !sub.confirmed()) ? Path::Told::kNothing
                           : sub.path_dead()                                      ? Path::Told::kDead
                                                                                  : Path::Told::kUp;
  if (state == path.told) return;
  if (state == Path::Told::kUp || path.told == Path::Told::kNothing) {
    path.association = {sub.config().incarnation, sub.peer_incarnation()};
    report(PathUp{path.id, path.association});
  }
  if (state == Path::Told::kDead) report(PathDead{path.id});
  path.told = state;
}

// Why a path does not come up: once for each reason, as long as it is not there.
void Worker::tell_unreachable(Path& path) {
  const stack::PathReport& unreachable = stack_.path_report(static_cast<std::size_t>(&path - paths_.data()));
  if (unreachable.unreachables == path.unreachables || !path.known) return;
  path.unreachables = unreachable.unreachables;
  if (lives(*path.sub)) return;
  report(PathUnreachable{path.id, unreachable.reason});
}

void Worker::watch_sub_connections(Instant now) {
  std::uint64_t reached = 0;
  for (Path& path : paths_) {
    watch(now, path);
    tell_unreachable(path);
    if (path.sub->refused_hash()) refused_peer_.store(true, std::memory_order_relaxed);
    if (lives(*path.sub)) reached |= std::uint64_t{1} << path.id.cluster.value();
  }
  std::atomic<std::uint64_t>& told = states_[self()].reaches;
  if (reached != told.load(std::memory_order_relaxed)) told.store(reached, std::memory_order_relaxed);
  // What waits at a peer that was never there need not wait there if there is another way.
  for (Path& path : paths_) {
    if (path.sub->state() != stack::SubConnection::State::kHandshake || !path.sub->has_unfinished()) continue;
    bool other = false;
    for (unsigned p = 0; p < proxies() && !other; ++p) other = reaches(p, path.id.cluster);
    if (other) dispatch_again(path.sub->recall(), false);
  }
  if (!stranded_.empty()) retry_stranded();
  const bool ready = stack_.all_established();
  if (ready != ready_.load(std::memory_order_relaxed)) ready_.store(ready, std::memory_order_release);
}

void Worker::answer_drains() {
  for (std::size_t i = 0; i < drains_.size();) {
    const Drain drain = drains_[i];
    Channel* const channel = drain.channel;
    std::optional<WorkerEvent> answer;
    bool done = true;
    if (channel == nullptr) {
      // The port's: when those of its channels, which stand before it, are done.
      answer = PortDrained{drain.port};
      done = std::none_of(drains_.begin(), drains_.begin() + static_cast<std::ptrdiff_t>(i),
                          [&](const Drain& d) { return d.port == drain.port && d.channel != nullptr; });
    } else {
      release(*channel);
      if (drain.port != PortId()) {
        // Who has given the lane away has told so before; the rest is the next one's.
        done = channel->closed
                   ? channel->unfinished == 0
                   : !channel->sends || static_cast<std::int32_t>(channel->send.released() - drain.mark) >= 0;
      } else {
        // The control plane asks to detach it when all of the client's ports are drained.
        done = channel->unfinished == 0;
        if (channel->detaching)
          answer = ChannelDetached{channel};
        else
          answer = LaneReleased{channel};
        if (done && channel->detaching) {
          std::erase(channels_, channel);
        } else if (done) {
          channel->leaving = false;
          channel->sends = false;
        }
      }
    }
    if (!done) {
      ++i;
      continue;
    }
    drains_.erase(drains_.begin() + static_cast<std::ptrdiff_t>(i));
    if (answer) report(*answer);
  }
}

void Worker::publish_events() {
  std::size_t told = 0;
  while (told < pending_events_.size() && events_.push(pending_events_[told])) ++told;
  pending_events_.erase(pending_events_.begin(), pending_events_.begin() + static_cast<std::ptrdiff_t>(told));
}

// What Dispatch::kLeastLoaded goes by: fresh, so at every turn that changed it.
void Worker::publish_load() {
  std::uint64_t queued = 0;
  for (const auto& sub : stack_.sub_connections()) queued += sub->queued_bytes();
  counters_.queued_bytes.set(queued);
}

bool Worker::all_acknowledged() const {
  return stranded_.empty() && control_waiting_.empty() &&
         std::none_of(stack_.sub_connections().begin(), stack_.sub_connections().end(),
                      [](const auto& sub) { return sub->has_unfinished(); });
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
  counters_.not_for_us.set(s.not_for_us + s.broadcasts);
  counters_.martians.set(s.martians);
  counters_.fragments_received.set(s.fragments_received);
  counters_.fragments_sent.set(s.fragments_sent);
  counters_.packets_reassembled.set(s.packets_reassembled);
  counters_.fragments_dropped.set(s.fragments_dropped);
  counters_.closed_ports.set(s.closed_ports);
  counters_.unreachables.set(s.unreachables_received);
  counters_.icmp_answers.set(s.echoes_answered + s.icmp_errors_sent);
  counters_.outgoing_dropped.set(s.outgoing_dropped);
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
