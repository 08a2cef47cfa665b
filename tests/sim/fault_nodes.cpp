#include "tests/sim/fault_nodes.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "sim/virtual_config.h"
#include "tests/virtual_security.h"

namespace braid::sim {

namespace {

// The time of a worker's turn: without work, and for each unit of work.
constexpr Duration kTurn = 150_ns;
constexpr Duration kTurnWork = 80_ns;
// A worker that waits for something that no event tells of looks again after this.
constexpr Duration kLookAgain = 5_us;
constexpr Duration kQuietControl = 2_ms;
// A proxy with nothing to do turns all the time, or sleeps for fractions of a millisecond; here it turns so
// many times in a row every so often, which costs fewer events.
constexpr Duration kIdleTurns = 2_ms;
constexpr int kIdleTurnsAtOnce = 8;
// A node's peers may take so long to notice that it is another one.
constexpr Duration kNoticesRestart = 1_s;
// The time that the peers of a silent node may take beyond peer_death_ms, from its last frames on.
constexpr Duration kDeathSlack = 250_ms;
// Clients of a node have numbers from 1 up to this.
constexpr proxy::Node::ClientId kMaxClients = 100;

proxy::Protocols with_added_stream(unsigned /*node*/) {
  proxy::Protocols protocols;
  CHECK(protocols.add_of_connections(FaultNodes::kAddedStream, "added_stream").ok());
  return protocols;
}

}  // namespace

FaultNodes::FaultNodes(const WorldConfig& config, Prng& random, WorldEvents& events, WorldLog& log,
                       Network& network)
    : config_(config),
      random_(random),
      events_(events),
      log_(log),
      network_(network),
      make_protocols_(with_added_stream),
      nodes_(static_cast<std::size_t>(config.clusters)),
      lost_at_(nodes_.size(), std::vector<Instant>(nodes_.size(), Instant::from_ns(-1))),
      silence_(static_cast<unsigned>(config.clusters), from_ms(config.peer_death_ms) + kDeathSlack) {}

// ---------------------------------------------------------------- lives

proxy::NodeConfig FaultNodes::node_config(unsigned index) const {
  VirtualClusters clusters;
  for (unsigned c = 0; c < size(); ++c)
    clusters.proxies.push_back(static_cast<std::uint16_t>(config_.proxies(c)));
  clusters.static_macs = config_.static_mac != 0;
  proxy::TransportConfig& t = clusters.transport;
  t.mtu_bytes = static_cast<std::uint32_t>(config_.mtu);
  t.window_packets = static_cast<std::uint32_t>(config_.window_packets);
  t.min_rto_us = static_cast<std::uint32_t>(config_.min_rto_us);
  t.path_death_ms = static_cast<std::uint32_t>(config_.path_death_ms);
  t.train_messages = static_cast<std::uint32_t>(config_.train_messages);
  t.all_pairs = config_.all_pairs != 0;
  t.connect = config_.at_first_use != 0 ? settings::Connect::kAtFirstUse : settings::Connect::kAtStart;
  t.peer = config_.round_robin != 0 ? proxy::PeerChoice::kRoundRobin : proxy::PeerChoice::kAligned;
  t.peer_death_ms = static_cast<std::uint32_t>(config_.peer_death_ms);
  proxy::NodeConfig n = virtual_node_config(clusters, index);
  n.seed = mix(config_.seed * 64 + index, nodes_[index].life) | 1;
  n.misdirect = config_.misdirect != 0;
  return n;
}

void FaultNodes::start(unsigned index) {
  Node& n = nodes_[index];
  CHECK(n.node == nullptr);
  ++n.life;
  n.proxies.assign(config_.proxies(index), {});
  proxy::NodeSurroundings surroundings;
  surroundings.make_queue = [&](LinkId link, unsigned proxy) {
    return network_.make_nic(index, link.value(), proxy);
  };
  surroundings.protocols = make_protocols_(index);
  if (config_.sealed != 0) surroundings.security = virtual_security(mix(config_.seed * 64 + index, n.life));
  auto made = proxy::Node::create(node_config(index), now(index), surroundings);
  if (!made) {
    log_.fail(fmt::format("cluster {} does not start: {}", index, made.error().text));
    return;
  }
  n.node = std::move(made).value();
  if (n.life > 1) n.restarted = events_.now();
  n.control_wake = Instant::never();
  wake_proxies(index);
  wake_control(index, events_.now());
}

void FaultNodes::kill(unsigned index) {
  nodes_[index].node.reset();
  anybody_lost_ = true;
  ++nodes_[index].life;  // its clients find out
}

void FaultNodes::jump(unsigned index, Duration by) {
  nodes_[index].skew += by;
  wake_proxies(index);
  wake_control(index, events_.now());
}

void FaultNodes::set_active_proxies(unsigned index, unsigned count) {
  nodes_[index].node->set_active_proxies(count);
  nodes_[index].relays = true;
  wake_control(index, events_.now());
}

void FaultNodes::end_stalls() {
  for (Node& n : nodes_) {
    n.control_stalled_until = Instant();
    for (Proxy& p : n.proxies) p.stalled_until = Instant();
  }
  for (unsigned n = 0; n < size(); ++n) {
    wake_proxies(n);
    wake_control(n, events_.now());
  }
}

void FaultNodes::hold(unsigned index, Instant until) {
  Node& n = nodes_[index];
  for (Proxy& p : n.proxies) p.dead_until = std::max(p.dead_until, until);
  n.control_held_until = std::max(n.control_held_until, until);
}

void FaultNodes::stop(unsigned index, Instant until) {
  hold(index, until);
  silence_.begin(index, events_.now());
  if (config_.at_first_use != 0) return;  // a node is ready that has never heard of its peers
  for (unsigned peer = 0; peer < size(); ++peer)
    if (peer != index && is_running(peer) && nodes_[peer].node->ready())
      silence_.expect(peer, gaps_of(peer, false));
}

void FaultNodes::end_stop() {
  for (unsigned peer = 0; peer < size(); ++peer) check_silence(peer, false);
  silence_.end();
}

std::vector<Duration> FaultNodes::gaps_of(unsigned index, bool open) const {
  std::vector<Duration> gaps;
  for (const Proxy& p : nodes_[index].proxies) {
    const Duration since = events_.now() - p.last_turn;
    gaps.push_back(p.gaps + (open && since > kSchedulingGap ? since : Duration()));
  }
  return gaps;
}

void FaultNodes::check_silence(unsigned index, bool given_up) {
  if (!silence_.is_expected(index)) return;
  const std::string wrong = silence_.check(index, events_.now(), gaps_of(index, true), given_up);
  if (!wrong.empty()) log_.fail(wrong);
}

// ---------------------------------------------------------------- turns

void FaultNodes::push_worker(Instant at, unsigned index, unsigned proxy) {
  nodes_[index].proxies[proxy].wake = at;
  events_.push(at, {WorldEvent::Kind::kWorker, static_cast<std::uint8_t>(index),
                    static_cast<std::uint16_t>(proxy), 0, 0});
}

void FaultNodes::wake_proxy(unsigned index, unsigned proxy, Instant at) {
  if (!is_running(index)) return;
  const Proxy& p = nodes_[index].proxies[proxy];
  if (p.idle && config_.idle_us > 0 && at < p.wake) {
    // The proxy sleeps, and notices this when it wakes.
    at = at + from_us(random_.uniform() * config_.idle_us);
  }
  at = std::max({at, p.free_at, p.held_until(), events_.now()});
  if (at >= p.wake || at == Instant::never()) return;
  push_worker(at, index, proxy);
}

void FaultNodes::wake_proxies(unsigned index) {
  for (unsigned p = 0; p < nodes_[index].proxies.size(); ++p) wake_proxy(index, p, events_.now());
}

void FaultNodes::wake_control(unsigned index, Instant at) {
  Node& n = nodes_[index];
  if (n.node == nullptr) return;
  at = std::max({at, n.control_stalled_until, n.control_held_until, events_.now()});
  if (at >= n.control_wake) return;
  n.control_wake = at;
  events_.push(at, {WorldEvent::Kind::kControl, static_cast<std::uint8_t>(index), 0, 0, 0});
}

bool FaultNodes::on_worker(unsigned index, unsigned proxy) {
  const Node& n = nodes_[index];
  if (n.node == nullptr || proxy >= n.proxies.size() || n.proxies[proxy].wake != events_.now()) return false;
  worker_turn(index, proxy);
  return true;
}

void FaultNodes::worker_turn(unsigned index, unsigned proxy) {
  Node& n = nodes_[index];
  Proxy& p = n.proxies[proxy];
  if (p.held_until() > events_.now()) {
    p.wake = Instant::never();
    wake_proxy(index, proxy, p.held_until());
    return;
  }
  proxy::Worker& worker = n.node->worker(proxy);
  const Instant begin = now(index);
  if (begin - p.last_turn_by_its_clock > kSchedulingGap) p.gaps += events_.now() - p.last_turn;
  p.last_turn_by_its_clock = begin;
  p.last_turn = events_.now();
  int work = worker.do_work(begin);
  if (work == 0 && p.idle)
    for (int turn = 1; turn < kIdleTurnsAtOnce && work == 0; ++turn) work = worker.do_work(begin);
  p.free_at = events_.now() + kTurn + kTurnWork * work;
  p.wake = Instant::never();
  if (work > 0)
    after_work(index, proxy);
  else
    rest(index, proxy, begin);
}

void FaultNodes::after_work(unsigned index, unsigned proxy) {
  Node& n = nodes_[index];
  n.proxies[proxy].idle = false;
  wake_proxy(index, proxy, n.proxies[proxy].free_at);
  wake_control(index, events_.now() + from_us(config_.control_us));
  if (!n.relays && config_.steering == 0 && config_.static_mac != 0 && config_.misdirect == 0) return;
  for (unsigned other = 0; other < n.proxies.size(); ++other)
    if (other != proxy) wake_proxy(index, other, events_.now());
}

void FaultNodes::rest(unsigned index, unsigned proxy, Instant begin) {
  Node& n = nodes_[index];
  Proxy& p = n.proxies[proxy];
  proxy::Worker& worker = n.node->worker(proxy);
  if (!p.idle) {
    p.idle = true;
    if (config_.idle_us > 0) worker.about_to_sleep(begin);
  }
  const Instant deadline = worker.next_deadline();
  // Work that is overdue waits for something else: room, or a neighbour's address.
  const Instant due = deadline <= begin              ? events_.now() + kLookAgain
                      : deadline == Instant::never() ? deadline
                                                     : deadline - n.skew;
  push_worker(std::max({earlier(due, events_.now() + kIdleTurns), p.free_at, p.held_until()}), index, proxy);
}

bool FaultNodes::on_control(unsigned index) {
  if (!is_running(index) || nodes_[index].control_wake != events_.now()) return false;
  control_turn(index);
  return true;
}

void FaultNodes::control_turn(unsigned index) {
  Node& n = nodes_[index];
  n.control_wake = Instant::never();
  const Instant held = std::max(n.control_stalled_until, n.control_held_until);
  if (held > events_.now()) return wake_control(index, held);
  const int work = n.node->do_control(now(index));
  if (n.node->poll_expelled())
    log_.fail(fmt::format("cluster {} expelled a client that did nothing wrong", index));
  take_lost_peers(index);
  take_fenced_proxies(index);
  if (n.node->path_stats().fenced > 0) n.relays = true;
  if (work > 0) wake_proxies(index);
  wake_control(index, events_.now() + (work > 0 ? from_us(config_.control_us) : kQuietControl));
}

void FaultNodes::take_lost_peers(unsigned index) {
  while (const std::optional<ClusterId> lost = nodes_[index].node->poll_lost_peer()) {
    ++peers_lost_;
    log_.trace("c{} has lost c{}", index, lost->value());
    if (!may_lose(index, lost->value()))
      log_.fail(
          fmt::format("cluster {} gave up cluster {}, which never was away for long", index, lost->value()));
    anybody_lost_ = true;
    if (lost->value() == silence_.stopped()) check_silence(index, true);
    lost_at_[index][lost->value()] = lost_at_[lost->value()][index] = events_.now();
  }
}

void FaultNodes::take_fenced_proxies(unsigned index) {
  Node& n = nodes_[index];
  while (const std::optional<unsigned> fenced = n.node->poll_fenced_proxy()) {
    ++proxies_fenced_;
    n.relays = true;
    log_.trace("c{} goes on without its p{}", index, *fenced);
    if (n.proxies[*fenced].last_turn + from_ms(config_.path_death_ms) > events_.now() &&
        config_.jump_every_ms == 0)
      log_.fail(
          fmt::format("cluster {} gave up its proxy {}, which was not stalled for long", index, *fenced));
  }
}

// ---------------------------------------------------------------- what may be lost, and what is left

bool FaultNodes::may_lose(unsigned a, unsigned b) const {
  return config_.may_lose_peers() || nodes_[a].life > 1 || nodes_[b].life > 1;
}

bool FaultNodes::may_have_lost(unsigned a, unsigned b, Instant opened) const {
  if (config_.may_lose_peers() || lost_at_[a][b] >= opened) return true;
  for (const unsigned node : {a, b}) {
    const Node& n = nodes_[node];
    if (n.node == nullptr || (n.life > 1 && n.restarted + kNoticesRestart >= opened)) return true;
  }
  return false;
}

FaultNodes::Faults FaultNodes::faults() const {
  Faults all;
  all.anybody_lost = anybody_lost_;
  all.proxies_fenced = proxies_fenced_;
  for (const Node& n : nodes_) {
    if (n.node == nullptr) continue;
    all.paths_fenced += n.node->path_stats().fenced;
    for (unsigned p = 0; p < n.proxies.size(); ++p)
      all.datagrams_dropped += n.node->counters(p).datagrams_dropped.get();
  }
  return all;
}

proxy::ProtocolTraffic FaultNodes::traffic(unsigned index, stack::ProtocolId protocol) const {
  proxy::ProtocolTraffic sum;
  const proxy::NodeCounters& all = nodes_[index].node->all_counters();
  for (unsigned i = 0; i < proxy::kMaxProtocols; ++i) {
    if (all.protocol[i].id != protocol.value()) continue;
    for (unsigned p = 0; p < nodes_[index].proxies.size(); ++p) {
#define X(name, meaning) sum.name += all.proxy[p].protocol[i].name.get();
      BRAID_PROTOCOL_COUNTERS(X)
#undef X
    }
  }
  return sum;
}

bool FaultNodes::holds_clients() {
  if (found_held_.node < size() && nodes_[found_held_.node].node->has_client(found_held_.client)) return true;
  for (unsigned i = 0; i < size(); ++i)
    for (proxy::Node::ClientId id = 1; id < kMaxClients; ++id)
      if (nodes_[i].node->has_client(id)) {
        found_held_ = {.node = i, .client = id};
        return true;
      }
  return false;
}

std::string FaultNodes::held_clients() const {
  std::string who;
  for (unsigned i = 0; i < size(); ++i)
    for (proxy::Node::ClientId id = 1; id < kMaxClients; ++id)
      if (nodes_[i].node->has_client(id)) who += fmt::format(" c{} of its client {}", i, id);
  return who;
}

FaultNodes::Totals FaultNodes::check_counters() {
  Totals totals;
  for (const Node& n : nodes_) totals.paths_fenced += n.node->path_stats().fenced;
  std::uint64_t repeated = 0;
  for (unsigned i = 0; i < size() && !log_.has_failed(); ++i) {
    Node& n = nodes_[i];
    for (unsigned p = 0; p < n.proxies.size(); ++p) {
      n.node->worker(p).publish_counters();
      const proxy::ProxyCounters& counters = n.node->counters(p);
      totals.retransmissions += counters.retransmissions.get();
      totals.trains_sent += counters.trains_sent.get();
      totals.trains_received += counters.trains_received.get();
      // A packet that found a ring full has delivered some of its records, and is retransmitted with all.
      repeated += counters.arrival_ring_full.get() > 0 ? 0 : counters.stale_records.get();
      if (counters.bad_descriptors.get() > 0)
        log_.fail(fmt::format("c{}.p{} refused {} descriptors of honest clients", i, p,
                              counters.bad_descriptors.get()));
    }
  }
  const bool one_life =
      !anybody_lost_ && totals.paths_fenced == 0 && proxies_fenced_ == 0 && config_.resize_every_ms == 0;
  if (repeated > 0 && one_life)
    log_.fail(fmt::format("{} records were handed over again, and no path was given up", repeated));
  return totals;
}

}  // namespace braid::sim
