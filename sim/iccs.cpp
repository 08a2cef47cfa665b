#include "sim/iccs.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "stack/wire/ethernet.h"

namespace braid::sim {

namespace {

// Wide enough for a queue that never overflows unless a link is asked to be slow.
constexpr std::uint64_t kLinkQueueBytes = 16u << 20;
// How often a ticket looks for the proxy that serves its lane while that changes, and an arrival for its connection.
constexpr Duration kHandOnPeriod = 100_us;

}  // namespace

// ---------------------------------------------------------------- setting up

Iccs::Iccs(const IccsConfig& config, const settings::CostModel& model, Events& events, Sink& sink)
    : config_(config),
      model_(model),
      events_(events),
      sink_(sink),
      shared_(events, StageCosts(model, config.proxy_speed, config.mutant != ModelMutant::kForgetsChecksums),
              model.time(model.handler), config.transport.mtu_bytes + kEthernetHeaderBytes,
              MessageLog(config.clusters, config.proxies, config.window_bytes / convergence::kGranuleBytes)),
      controls_(events, nodes_, proxies_, config.clusters),
      ways_(std::size_t{config.clusters} * config.clusters) {
  shared_.last_in_first_out = config.mutant == ModelMutant::kLastInFirstOut;
  if (!has_proxies()) {
    bypass_room_.resize(convergence::max_run_bytes(config.window_bytes));
    return;
  }
  make_network();
  make_nodes();
}

Iccs::~Iccs() = default;

void Iccs::make_network() {
  IccsNetworkConfig network;
  network.clusters = config_.clusters;
  network.proxies = config_.proxies;
  network.nis = config_.nis;
  network.link.bits_per_second =
      model_.wire_byte > 0 ? static_cast<std::uint64_t>(8 * model_.cycles_per_second / model_.wire_byte)
                           : std::uint64_t{1} << 40;
  network.link.propagation = model_.time(model_.latency);
  network.link.queue_bytes = kLinkQueueBytes;
  network.link.mtu_bytes = config_.transport.mtu_bytes;
  network.faults = config_.faults;
  network.seed = config_.seed;
  network_.emplace(network, shared_);
}

void Iccs::make_nodes() {
  VirtualNodesConfig nodes;
  nodes.clusters = config_.clusters;
  nodes.proxies = config_.proxies;
  nodes.nis = config_.nis;
  nodes.transport = config_.transport;
  nodes.window_bytes = config_.window_bytes;
  nodes.dispatch = config_.dispatch;
  nodes.seed = config_.seed;
  lanes_.resize(std::size_t{config_.clusters} * config_.proxies);
  ProxyRun::Owner& owner = *this;
  for (std::uint16_t k = 0; k < config_.clusters; ++k) {
    const ClusterId cluster(k);
    for (unsigned p = 0; p < config_.proxies; ++p)
      proxies_.push_back(std::make_unique<ProxyRun>(shared_, owner, cluster, p));
    VirtualNode::Driver driver{.clock = [this] { return events_.now(); },
                               .step = [this] { step(); },
                               .asked = [this, cluster] { controls_.wake(cluster, events_.now()); }};
    nodes_.push_back(
        std::make_unique<VirtualNode>(nodes, k, events_.now(), std::move(driver),
                                      [&](LinkId ni, unsigned p) { return proxy(k, p).make_nic(ni); }));
    for (unsigned p = 0; p < config_.proxies; ++p) proxy(k, p).start(nodes_[k]->worker(p));
  }
}

void Iccs::step() {
  CHECK(!events_.empty());
  on_event(events_.pop());
}

Result<void> Iccs::establish() {
  if (!has_proxies()) return {};
  for (const auto& p : proxies_) p->poke();
  const Result<void> done = connect_all(
      nodes_, [this] { return events_.now(); }, [this] { step(); });
  if (!done) return error("{}: {} frames were lost", done.error().text, frames_lost());
  // And nobody is still busy with what came of it.
  while (std::any_of(proxies_.begin(), proxies_.end(), [](const auto& p) { return p->busy(); })) step();
  established_ = events_.now();
  plan_incidents();
  return {};
}

void Iccs::plan_incidents() {
  for (std::uint32_t i = 0; i < config_.incidents.size(); ++i) {
    const Incident& incident = config_.incidents[i];
    events_.push(established_ + incident.at, {EventKind::kIncident, 0, incident.cluster.value(), i});
  }
  if (!config_.incidents.empty()) controls_.watch();
}

Duration Iccs::least_to_deliver() const {
  switch (config_.mode) {
    case Mode::kNoDelay:
      return shared_.notice;
    case Mode::kNoContention:
      return config_.fixed_delay + shared_.notice;
    case Mode::kReal:
      break;
  }
  return shared_.notice + shared_.costs.least_to_receive();
}

Duration Iccs::least_latency() const {
  if (!has_proxies()) return least_to_deliver();
  return shared_.costs.least_to_send() + model_.time(model_.latency) + least_to_deliver();
}

// ---------------------------------------------------------------- compute nodes

MutableBytes Iccs::reserve(ClusterId from, unsigned compute_node, ClusterId to, std::uint32_t bytes) {
  reserved_ = {from, to, compute_node};
  if (!has_proxies()) return MutableBytes(bypass_room_).first(bytes);
  Way& to_there = way(from, to);
  proxy::Connection* const connection = nodes_[from.value()]->connection(to);
  if (connection == nullptr) {
    to_there.waits_for_channel = true;
    return {};
  }
  proxy::SendStatus status = proxy::SendStatus::kSent;
  const MutableBytes room = connection->reserve(bytes, compute_node, &status);
  switch (status) {
    case proxy::SendStatus::kSent:
      return room;
    case proxy::SendStatus::kNoCredit:
      to_there.waits_for_credit = true;
      return {};
    case proxy::SendStatus::kChannelFull:
      to_there.waits_for_channel = true;
      return {};
    case proxy::SendStatus::kClosed:
      sink_.on_lost(events_.now(), from, to, proxy::to_string(connection->state()));
      return {};
    case proxy::SendStatus::kTooLong:
    case proxy::SendStatus::kTimeout:
      break;
  }
  CHECK(false);
}

void Iccs::commit(Instant at, std::uint32_t bytes, std::uint32_t kinds) {
  const auto [from, to, compute_node] = reserved_;
  const MessageLog::Index i = shared_.log.make();
  MessageReport& report = shared_.log[i].report;
  report.number = ++sent_;
  report.from = from;
  report.to = to;
  report.compute_node = compute_node;
  report.bytes = bytes;
  report.kinds = kinds;
  ++in_flight_;
  if (!has_proxies()) {
    shared_.log[i].bytes.assign(bypass_room_.begin(), bypass_room_.begin() + bytes);
    return bypass(at, i);
  }
  proxy::Connection& connection = *nodes_[from.value()]->connection(to);
  connection.commit(bytes);
  lane(from, connection.last_lane()).committed.push_back(i);
  if (config_.transport.train_messages == 1) flush(at, from);
}

bool Iccs::send(Instant at, ClusterId from, unsigned compute_node, ClusterId to, ByteView message) {
  const MutableBytes room = reserve(from, compute_node, to, static_cast<std::uint32_t>(message.size()));
  if (room.size() < message.size() || room.data() == nullptr) return false;
  if (!message.empty()) std::memcpy(room.data(), message.data(), message.size());
  commit(at, static_cast<std::uint32_t>(message.size()));
  flush(at, from);
  return true;
}

void Iccs::flush(Instant at, ClusterId from) {
  if (!has_proxies()) return;
  proxy::Endpoint& endpoint = nodes_[from.value()]->endpoint();
  for (unsigned l = 0; l < config_.proxies; ++l) {
    std::vector<MessageLog::Index>& committed = lane(from, l).committed;
    auto next = committed.begin();
    endpoint.for_each_unpublished(l, [&](const proxy::SendDescriptor& descriptor) {
      const bool is_credit = descriptor.kind == static_cast<std::uint8_t>(stack::RecordKind::kCredit);
      const MessageLog::Index first = is_credit ? shared_.log.make() : *next++;
      shared_.log[first].is_credit = is_credit;
      shared_.log[first].train = descriptor.messages;
      MessageLog::Index last = first;
      for (unsigned more = 1; more < descriptor.messages; ++more) last = shared_.log[last].next = *next++;
      hand_over(from, l, at, first);
    });
    CHECK(next == committed.end());
    committed.clear();
  }
  endpoint.flush();
}

// A descriptor is in the client's lane: a ticket for it comes into the queue of the proxy that serves that.
void Iccs::hand_over(ClusterId cluster, unsigned l, Instant at, MessageLog::Index first) {
  Instant& last = lane(cluster, l).last_handed;
  last = std::max(last, at);
  for (MessageLog::Index i = first; i != MessageLog::kNone; i = shared_.log[i].next)
    shared_.log[i].report.times.handed = last;
  shared_.log.hand(cluster, l, first);
  const unsigned server = nodes_[cluster.value()]->node().server_of(l);
  events_.push(last, {EventKind::kMessageArrives, static_cast<std::uint8_t>(server), cluster.value(), first});
}

// ---------------------------------------------------------------- without proxies

void Iccs::bypass(Instant at, MessageLog::Index i) {
  MessageReport& report = shared_.log[i].report;
  report.times.handed = at;
  const Instant there = config_.mode == Mode::kNoDelay ? at : at + config_.fixed_delay;
  report.times.delivered = there;
  events_.push(there + shared_.notice, {EventKind::kDelivery, 0, report.to.value(), i});
}

void Iccs::deliver_bypassing(MessageLog::Index i) {
  const MessageReport report = shared_.log[i].report;
  --in_flight_;
  sink_.on_delivered(report);
  (void)sink_.on_message(events_.now(), report.to, report.from, ByteView(shared_.log[i].bytes));
  shared_.log.release(i);
}

// ---------------------------------------------------------------- events

void Iccs::on_event(const Event& event) {
  const ClusterId cluster(event.cluster);
  switch (event.kind) {
    case EventKind::kFrameLeaves:
      return network_->send(cluster, event.index, event.item);
    case EventKind::kFrameArrives:
    case EventKind::kMessageArrives:
      return proxy(event.cluster, event.index).enqueue(event.kind, event.item);
    case EventKind::kServiceEnds:
      return proxy(event.cluster, event.index).on_service_ends();
    case EventKind::kTimer:
      return proxy(event.cluster, event.index).on_timer();
    case EventKind::kProxyResumes:
      return proxy(event.cluster, event.index).resume();
    case EventKind::kDelivery:
      return has_proxies() ? deliver(proxy(event.cluster, event.index)) : deliver_bypassing(event.item);
    case EventKind::kRoom:
      return offer_room(cluster);
    case EventKind::kControl:
      return run_control(cluster);
    case EventKind::kIncident:
      return begin_incident(event.item);
    case EventKind::kRequest:
      CHECK(false);
  }
}

void Iccs::worked(ProxyRun& p) {
  proxy::Worker& worker = p.worker();
  if (config_.dispatch == convergence::Dispatch::kLeastLoaded) worker.publish_load();
  if (worker.take_released()) {
    const ClusterId cluster = p.cluster();
    // The proxy may serve other lanes than that of its own number.
    for (unsigned lane = 0; lane < config_.proxies; ++lane) nodes_[cluster.value()]->endpoint().reclaim(lane);
    const Way* const first = &way(cluster, ClusterId(0));
    if (std::any_of(first, first + config_.clusters, [](const Way& w) { return w.waits_for_channel; }))
      events_.push(events_.now() + least_to_deliver(), {EventKind::kRoom, 0, cluster.value(), 0});
  }
  for (std::uint32_t woken = worker.take_woken(); woken != 0; woken &= woken - 1)
    proxy(p.cluster().value(), static_cast<unsigned>(std::countr_zero(woken))).poke();
  controls_.on_worked(p);
}

// The ticket goes to the proxy that serves the lane now. While none does, because the lane is being handed over, the
// ticket is queued again.
void Iccs::not_taken(ProxyRun& p, MessageLog::Index i) {
  const unsigned server = nodes_[p.cluster().value()]->node().server_of(shared_.log[i].lane);
  events_.push(events_.now() + kHandOnPeriod,
               {EventKind::kMessageArrives, static_cast<std::uint8_t>(server), p.cluster().value(), i});
}

// ---------------------------------------------------------------- the convergence layer at the destination

void Iccs::deliver(ProxyRun& p) {
  const Arrival arrival = p.next_arrival();
  if (arrival.cell != nullptr) {
    deliver_credit(p.cluster(), p.index(), arrival);
  } else if (!deliver_message(p.cluster(), p.index(), arrival)) {
    events_.push(events_.now() + kHandOnPeriod,
                 {EventKind::kDelivery, static_cast<std::uint8_t>(p.index()), p.cluster().value(), 0});
    return;
  }
  p.drop_arrival();
}

void Iccs::deliver_credit(ClusterId at, unsigned proxy, const Arrival& credit) {
  proxy::store_credit(*credit.cell, proxy, credit.position);
  Way& to_there = way(at, credit.source);
  if (std::exchange(to_there.waits_for_credit, false)) sink_.on_room(events_.now(), at);
}

// False: its connection is not announced yet.
bool Iccs::deliver_message(ClusterId at, unsigned proxy, const Arrival& a) {
  MessageLog::Index i = 0;
  MessageLog::Entry* const entry = shared_.log.find(a.source, at, a.position, &i);
  if (entry != nullptr) {
    MessageReport& report = entry->report;
    report.peer_proxy = proxy;
    report.peer_ahead = a.ahead;
    report.times.left = a.left;
    report.times.on_link = a.on_link;
    report.times.arrived = a.arrived;
    report.times.taken = a.taken;
    report.times.delivered = a.delivered;
  }
  const Instant now = events_.now();
  Instant until = now;
  proxy::Endpoint& endpoint = nodes_[at.value()]->endpoint();
  (void)endpoint.take_one(proxy, [&](proxy::Connection& from, ByteView message) {
    --in_flight_;
    CHECK(entry != nullptr);  // a connection hands up each message once
    const MessageReport report = entry->report;
    entry->is_delivered = true;
    shared_.log.release(i);
    sink_.on_delivered(report);
    until = sink_.on_message(now, at, from.peer(), message).until;
  });
  if (endpoint.awaits_connection(proxy)) return false;
  flush(until + model_.time(model_.hand_over), at);  // the credit
  return true;
}

// The proxies have freed room in the channels of a cluster.
void Iccs::offer_room(ClusterId at) {
  nodes_[at.value()]->endpoint().return_pending_credit();
  flush(events_.now() + model_.time(model_.hand_over), at);
  // Once for all that wait: a client that hears of room tries to send to each of them.
  bool any_waits = false;
  for (std::uint16_t to = 0; to < config_.clusters; ++to)
    any_waits |= std::exchange(way(at, ClusterId(to)).waits_for_channel, false);
  if (any_waits) sink_.on_room(events_.now(), at);
}

void Iccs::run_control(ClusterId cluster) {
  // Also where nobody sends any more, who would hear of it from reserve().
  if (const std::optional<VirtualNode::Lost> lost = controls_.on_event(cluster))
    sink_.on_lost(events_.now(), cluster, lost->peer, lost->why.c_str());
  if (nodes_[cluster.value()]->take_new_connections())
    events_.push(events_.now() + least_to_deliver(), {EventKind::kRoom, 0, cluster.value(), 0});
}

// ---------------------------------------------------------------- what happens to it

void Iccs::begin_incident(std::size_t index) {
  const Instant now = events_.now();
  const Incident& incident = config_.incidents[index];
  const std::uint16_t cluster = incident.cluster.value();
  const auto end_of = [&](const std::optional<Duration>& lasts) {
    return lasts ? now + *lasts : Instant::never();
  };
  if (const auto* const stops = std::get_if<ProxyStops>(&incident.what)) {
    proxy(cluster, stops->proxy).stop(end_of(stops->lasts));
    if (stops->lasts)
      events_.push(now + *stops->lasts,
                   {EventKind::kProxyResumes, static_cast<std::uint8_t>(stops->proxy), cluster, 0});
  } else if (const auto* const fails = std::get_if<NiFails>(&incident.what)) {
    network_->fail_ni(incident.cluster, fails->ni, end_of(fails->lasts));
  } else if (const auto* const active = std::get_if<ActiveProxies>(&incident.what)) {
    nodes_[cluster]->node().set_active_proxies(active->count);
    controls_.wake(incident.cluster, now);
  }
  if (config_.on_incident) config_.on_incident(now, index);
}

// ---------------------------------------------------------------- figures

void Iccs::start_measuring() {
  for (const auto& p : proxies_) p->start_measuring();
  shared_.measuring = true;
}

void Iccs::restart_measuring() {
  for (const auto& p : proxies_) p->restart_measuring();
  if (network_) network_->reset_figures();
}

void Iccs::stop_measuring(Instant end) {
  for (const auto& p : proxies_) p->stop_measuring(end);
  shared_.measuring = false;
}

const ProxyFigures& Iccs::figures(ClusterId cluster, unsigned index) const {
  return proxy(cluster.value(), index).figures();
}

const LinkFigures& Iccs::link_figures(ClusterId cluster, unsigned ni) const {
  return network_->figures(cluster, ni);
}

const proxy::ProxyCounters& Iccs::counters(ClusterId cluster, unsigned index) const {
  VirtualNode& node = *nodes_[cluster.value()];
  node.worker(index).publish_counters();
  return node.node().counters(index);
}

bool Iccs::at_rest() const {
  if (shared_.log.in_use() > 0) return false;
  for (const auto& node : nodes_)
    for (unsigned p = 0; p < config_.proxies; ++p)
      if (!node->worker(p).all_acknowledged()) return false;
  return true;
}

std::uint64_t Iccs::sum_of(Counter proxy::ProxyCounters::*counter) const {
  std::uint64_t sum = 0;
  for (std::uint16_t k = 0; k < nodes_.size(); ++k)
    for (unsigned p = 0; p < config_.proxies; ++p) sum += (counters(ClusterId(k), p).*counter).get();
  return sum;
}

}  // namespace braid::sim
