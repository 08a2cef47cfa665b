#include "tests/sim/world.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "convergence/position.h"
#include "sim/virtual_config.h"
#include "sim/virtual_service.h"
#include "stack/wire/arp.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/segment.h"

namespace braid::sim {
namespace {

using proxy::Connection;
using proxy::ConnectionState;
using proxy::SendStatus;

// What a turn of a worker takes: with nothing to do, and for each thing that it did.
constexpr Duration kTurn = 150_ns;
constexpr Duration kTurnWork = 80_ns;
// A worker that waits for something that no event tells of looks again after this.
constexpr Duration kLookAgain = 5_us;
constexpr Duration kQuietControl = 2_ms;
// A proxy with nothing to do turns all the time, or sleeps for fractions of a millisecond; here it turns so
// many times in a row every so often, which costs fewer events.
constexpr Duration kIdleTurns = 2_ms;
constexpr int kIdleTurnsAtOnce = 8;
// While a client waits it lets the world go on for so long at a time.
constexpr Duration kPatience = 10_us;
constexpr Duration kConnectTimeout = 300_ms;
// What was waited for in vain while the network was bad is tried again after this at the latest.
constexpr Duration kSettles = 500_ms;
// Clients that find nothing to do turn ever less often.
constexpr unsigned kMostQuietTurns = 6;
constexpr Duration kQuietClient = 300_us;
// Above what several connects that time out one after the other take: who waits inside another's wait keeps
// it from going on.
constexpr Duration kSendTimeout = 20_s;
// After the faults everything must come to its end within this time, and longer than a peer's death if peers
// die. Far above what any of it takes: the slowest timers are 200 ms.
constexpr Duration kLiveness = 30_s;
// A worker that was not scheduled for longer knows that it was not.
constexpr Duration kSchedulingGap = 50_ms;
// What a silent node's peers may take beyond peer_death_ms, from its last frames on.
constexpr Duration kJudges = 250_ms;
// A node's peers may take so long to notice that it is another one.
constexpr Duration kNoticesRestart = 1_s;
// What is wrong with a world that has more events is that it never ends.
constexpr std::uint64_t kMostEvents = 20'000'000;
constexpr std::uint32_t kMostFrames = 40'000;
constexpr std::size_t kMostHeap = std::size_t{256} << 20;
constexpr std::size_t kContentBytes = 512u << 10;
constexpr std::uint32_t kLongestMessage = 200'000;
// A node that comes back is noticed by each sub-connection for itself, so a connection to its new life can
// end at one side when the last of them notices.
constexpr bool kForgiveHalfOpen = false;
// Tag of a connection that came when nobody waited for it any more.
constexpr std::uint64_t kNobodys = ~std::uint64_t{0};

Duration us(double t) {
  return Duration::ns(static_cast<std::int64_t>(t * 1e3));
}
Duration ms(double t) {
  return Duration::ns(static_cast<std::int64_t>(t * 1e6));
}
std::size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}
std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15;
  return h ^ (h >> 29);
}

}  // namespace

// ---------------------------------------------------------------- the service of a client

// While the client waits the rest of the world goes on.
class FaultWorld::ClientService final : public VirtualService {
 public:
  ClientService(FaultWorld& world, unsigned node)
      : VirtualService(*world.nodes_[node].node),
        world_(world),
        index_(node),
        life_(world.nodes_[node].life) {}
  ~ClientService() override {
    if (proxy::Node* const here = node()) {
      here->client_gone(client());
      world_.wake_control(index_, world_.now());
      world_.wake_proxies(index_);
    }
  }

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override {
    const Depth depth(world_);
    return VirtualService::call(request, timeout, fd);
  }
  void wait_for_event(Duration timeout) override { world_.run_until(world_.now() + timeout); }
  int turn() override {
    if (!waiting) return 0;
    world_.wake_proxies(index_);
    world_.run_until(world_.now() + kPatience);
    return 1;  // virtual time went on: nothing to yield to
  }
  Instant now() override { return world_.node_now(index_); }

  // Its client waits for something in a loop of its own.
  bool waiting = false;

  // Somebody waits, and the world goes on below.
  struct Depth {
    explicit Depth(FaultWorld& w) : world(w) { ++world.depth_; }
    ~Depth() { --world.depth_; }
    FaultWorld& world;
  };

 private:
  proxy::Node* node() override {
    NodeRun& n = world_.nodes_[index_];
    return n.life == life_ ? n.node.get() : nullptr;
  }
  void on_posted() override { world_.wake_control(index_, world_.now()); }
  bool step() override { return world_.step(); }

  FaultWorld& world_;
  const unsigned index_;
  const unsigned life_;
};

// ---------------------------------------------------------------- making a world

FaultWorld::FaultWorld(const WorldConfig& config, bool trace)
    : config_(config), tracing_(trace), random_(config.seed), scratch_(kLongestMessage) {
  heap_at_start_ = heap_bytes();
  for (auto& row : lost_at_) row.fill(Instant::from_ns(-1));
  network_ = std::make_unique<Network>(config_, 1, static_cast<NetworkEvents&>(*this));
  faults_end_ = quiet_from_ = Instant() + ms(config_.fault_ms);
  contents_.resize(kContentBytes);
  Prng prng(config_.seed);
  for (std::size_t i = 0; i < contents_.size(); i += 8) store(contents_.data() + i, prng.next());
  nodes_.resize(static_cast<std::size_t>(config_.clusters));
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    // Some come later than others.
    const Duration late = random_.chance(0.5) ? 0_us : us(random_.uniform() * 3000);
    events_.push(Instant() + late, {Kind::kFault, static_cast<std::uint8_t>(n),
                                    static_cast<std::uint16_t>(Trouble::kBoot), 0, 0});
  }
  plan_flows();
  plan_faults();
  if (config_.shared_memory != 0)
    shared_memory_ = std::make_unique<SharedMemory>(static_cast<Stage&>(*this), random_.next(),
                                                    us(config_.pace_us), tracing_);
  events_.push(faults_end_, {Kind::kPhase, 0, 0, 0, 0});
}

FaultWorld::~FaultWorld() {
  shared_memory_.reset();
  for (ClientRun& c : clients_) c.client.reset();
  for (NodeRun& n : nodes_) n.node.reset();
}

proxy::NodeConfig FaultWorld::node_config(unsigned node) const {
  VirtualClusters clusters;
  for (unsigned c = 0; c < nodes_.size(); ++c)
    clusters.proxies.push_back(static_cast<std::uint16_t>(config_.proxies(c)));
  clusters.static_macs = config_.static_mac != 0;
  proxy::TransportConfig& t = clusters.transport;
  t.mtu_bytes = static_cast<std::uint32_t>(config_.mtu);
  t.window_packets = static_cast<std::uint32_t>(config_.window_packets);
  t.min_rto_us = static_cast<std::uint32_t>(config_.min_rto_us);
  t.path_death_ms = static_cast<std::uint32_t>(config_.path_death_ms);
  t.all_pairs = config_.all_pairs != 0;
  t.peer = config_.round_robin != 0 ? proxy::PeerChoice::kRoundRobin : proxy::PeerChoice::kAligned;
  t.peer_death_ms = static_cast<std::uint32_t>(config_.peer_death_ms);
  proxy::NodeConfig n = virtual_node_config(clusters, node);
  n.seed = mix(config_.seed * 64 + node, nodes_[node].life) | 1;
  n.misdirect = config_.misdirect != 0;
  return n;
}

void FaultWorld::boot(unsigned index) {
  NodeRun& n = nodes_[index];
  CHECK(n.node == nullptr);
  ++n.life;
  n.proxies.assign(config_.proxies(index), {});
  auto made = proxy::Node::create(node_config(index), node_now(index), [&](LinkId link, unsigned proxy) {
    return network_->make_nic(index, link.value(), proxy);
  });
  if (!made) {
    fail(fmt::format("cluster {} does not start: {}", index, made.error().text));
    return;
  }
  n.node = std::move(made).value();
  if (n.life > 1) n.restarted = now();
  n.control_wake = Instant::never();
  wake_proxies(index);
  wake_control(index, now());
}

void FaultWorld::plan_flows() {
  const auto per_node = static_cast<unsigned>(config_.clients);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    for (unsigned c = 0; c < per_node; ++c) {
      ClientRun run;
      run.node = n;
      run.slow = random_.chance(config_.slow);
      clients_.push_back(std::move(run));
    }
  }
  const auto endpoints = static_cast<unsigned>(config_.endpoints);
  for (unsigned id = 0; id < static_cast<unsigned>(config_.flows); ++id) {
    Flow flow;
    flow.id = id;
    flow.ordered = !random_.chance(config_.unordered);
    const auto from = static_cast<unsigned>(random_.below(clients_.size()));
    unsigned to = static_cast<unsigned>(random_.below(clients_.size()));
    while (clients_[to].node == clients_[from].node)
      to = static_cast<unsigned>(random_.below(clients_.size()));
    flow.options.ordered = flow.ordered;
    flow.options.dispatch =
        random_.chance(config_.fixed) ? convergence::Dispatch::kFixed : convergence::Dispatch::kRoundRobin;
    for (unsigned e = 0; e < 2; ++e) {
      End& end = flow.ends[e];
      end.client = e == 0 ? from : to;
      end.endpoint = static_cast<unsigned>(random_.below(endpoints));
      const auto doublings = static_cast<std::uint64_t>(std::log2(config_.window_kib / 4)) + 1;
      end.window_bytes = 4096u << random_.below(std::max<std::uint64_t>(doublings, 1));
      end.close_early = random_.chance(config_.closes);
      clients_[end.client].ends.push_back(id * 2 + e);
      clients_[end.client].receive_bytes += end.window_bytes;
      flow.streams[e].planned =
          1 + static_cast<std::uint32_t>(random_.below(static_cast<std::uint64_t>(config_.messages)));
    }
    const double when = random_.chance(0.3) ? 0 : random_.uniform() * config_.fault_ms * 0.8;
    flow.listen_at = Instant() + ms(when + (random_.chance(0.5) ? 0 : random_.uniform() * 5));
    flow.connect_at = Instant() + ms(when + (random_.chance(0.5) ? 0 : random_.uniform() * 5));
    flows_.push_back(std::move(flow));
  }
  for (unsigned c = 0; c < clients_.size(); ++c)
    if (!clients_[c].ends.empty()) wake_client(c, Instant() + us(random_.uniform() * 100));
}

void FaultWorld::again(Trouble what, double every_ms) {
  if (every_ms <= 0) return;
  const Instant at = now() + exponential(random_, ms(every_ms));
  if (at >= faults_end_) return;
  events_.push(at, {Kind::kFault, static_cast<std::uint8_t>(random_.below(nodes_.size())),
                    static_cast<std::uint16_t>(what), 0, 0});
}

void FaultWorld::plan_faults() {
  again(Trouble::kPartition, config_.partition_every_ms);
  again(Trouble::kPathCut, config_.path_cut_every_ms);
  again(Trouble::kLinkDown, config_.link_down_every_ms);
  again(Trouble::kResize, config_.resize_every_ms);
  again(Trouble::kStall, config_.stall_every_ms);
  again(Trouble::kControlStall, config_.control_stall_every_ms);
  again(Trouble::kJump, config_.jump_every_ms);
  again(Trouble::kGap, config_.gap_every_ms);
  again(Trouble::kForgedArp, config_.forge_every_ms);
  if (config_.stopped_ms > 0)
    events_.push(Instant() + ms(config_.fault_ms - config_.stopped_ms),
                 {Kind::kFault, static_cast<std::uint8_t>(random_.below(nodes_.size())),
                  static_cast<std::uint16_t>(Trouble::kStopNode), 0, 0});
  std::array<bool, Network::kMaxNodes> has_dead_path{};  // to the next node
  for (int i = 0; i < static_cast<int>(config_.dead_paths); ++i) {
    // One of each two nodes' at most, and never their only one.
    const auto node = static_cast<unsigned>(random_.below(nodes_.size()));
    const unsigned peer = (node + 1) % static_cast<unsigned>(nodes_.size());
    if (std::max(config_.proxies(node), config_.proxies(peer)) < 2) continue;
    if (std::exchange(has_dead_path[node], true) || (nodes_.size() == 2 && i > 0)) continue;
    const auto proxy = static_cast<unsigned>(random_.below(config_.proxies(node)));
    events_.push(Instant() + ms(random_.uniform() * config_.fault_ms),
                 {Kind::kFault, static_cast<std::uint8_t>(node),
                  static_cast<std::uint16_t>(Trouble::kPathDeath), peer, proxy});
  }
  const auto some = [&](Trouble what, double times, std::size_t of) {
    for (int i = 0; i < static_cast<int>(times); ++i)
      events_.push(Instant() + ms(random_.uniform() * config_.fault_ms),
                   {Kind::kFault, static_cast<std::uint8_t>(random_.below(of)),
                    static_cast<std::uint16_t>(what), 0, 0});
  };
  some(Trouble::kProxyDeath, config_.dead_proxies, nodes_.size());
  some(Trouble::kRestart, config_.restarts, nodes_.size());
  some(Trouble::kKill, config_.kills, clients_.size());
  some(Trouble::kStop, config_.stops, clients_.size());
}

// ---------------------------------------------------------------- running it

WorldResult FaultWorld::run() {
  const Duration patience = kLiveness + ms(2 * config_.peer_death_ms);
  while (!all_over() && now() < quiet_from_ + patience && step()) {
  }
  if (result_.failure.empty() && !all_over())
    fail(fmt::format("the network has been good for {:.1f} s, and this is still unfinished:{}",
                     (now() - quiet_from_).s(), unfinished()));
  if (result_.failure.empty()) check_end();
  result_.events = events_.popped();
  result_.virtual_time = now() - Instant();
  result_.network = network_->counts();
  return result_;
}

bool FaultWorld::step() {
  if (!result_.failure.empty() || events_.empty()) return false;
  const Event event = events_.pop();
  handle(event);
  if ((events_.popped() & 0xfff) == 0) note_memory();
  if (events_.popped() >= kMostEvents) fail(fmt::format("it does not end:{}", unfinished()));
  return result_.failure.empty();
}

bool FaultWorld::run_until(Instant end) {
  while (events_.next_time() <= end)
    if (!step()) return false;
  // An event of its own moves the clock there.
  if (now() < end) {
    events_.push(end, {Kind::kPhase, 1, 0, 0, 0});
    while (now() < end)
      if (!step()) return false;
  }
  return true;
}

void FaultWorld::handle(const Event& e) {
  switch (e.kind) {
    case Kind::kFrame: {
      const int proxy = network_->land(e.node, e.index, {e.a, e.b});
      if (proxy >= 0) wake_proxy(e.node, static_cast<unsigned>(proxy), now());
      break;
    }
    case Kind::kWorker:
      if (nodes_[e.node].node == nullptr || e.index >= nodes_[e.node].proxies.size() ||
          nodes_[e.node].proxies[e.index].wake != now())
        return;
      worker_turn(e.node, e.index);
      break;
    case Kind::kControl:
      if (nodes_[e.node].node == nullptr || nodes_[e.node].control_wake != now()) return;
      control_turn(e.node);
      break;
    case Kind::kClient:
      if (clients_[e.index].wake != now()) return;
      client_turn(e.index);
      break;
    case Kind::kProgram:
      if (shared_memory_ != nullptr) shared_memory_->turn(e.node);
      break;
    case Kind::kFault:
      trouble(e);
      break;
    case Kind::kPhase:
      if (e.node != 0) return;
      trace("--- the network is good from now on, and everybody takes what arrives");
      network_->stop_faults();
      for (NodeRun& n : nodes_) {
        n.control_stalled_until = Instant();
        for (ProxyRun& p : n.proxies) p.stalled_until = Instant();
      }
      for (unsigned n = 0; n < nodes_.size(); ++n) {
        wake_proxies(n);
        wake_control(n, now());
      }
      for (unsigned c = 0; c < clients_.size(); ++c) {
        clients_[c].slow = false;
        clients_[c].stopped_until = Instant();
        if (!clients_[c].ends.empty()) wake_client(c, now());
      }
      break;
  }
  result_.trace_hash = mix(mix(result_.trace_hash, static_cast<std::uint64_t>(now().ns())),
                           static_cast<std::uint64_t>(e.kind) << 56 | std::uint64_t{e.node} << 48 |
                               std::uint64_t{e.index} << 32 | (e.kind == Kind::kFrame ? e.b : e.a));
}

void FaultWorld::arrives(Instant at, unsigned node, unsigned link, FrameRef frame) {
  events_.push(at, {Kind::kFrame, static_cast<std::uint8_t>(node), static_cast<std::uint16_t>(link),
                    frame.buffer, frame.length});
}

// ---------------------------------------------------------------- a shared-memory program

std::unique_ptr<proxy::Service> FaultWorld::service(unsigned cluster) {
  if (nodes_[cluster].node == nullptr) return nullptr;
  return std::make_unique<ClientService>(*this, cluster);
}

void FaultWorld::call_at(Instant at, unsigned cluster) {
  events_.push(at, {Kind::kProgram, static_cast<std::uint8_t>(cluster), 0, 0, 0});
}

// ---------------------------------------------------------------- proxies and control planes

void FaultWorld::wake_proxy(unsigned node, unsigned proxy, Instant at) {
  NodeRun& n = nodes_[node];
  if (n.node == nullptr) return;
  ProxyRun& p = n.proxies[proxy];
  if (p.idle && config_.idle_us > 0 && at < p.wake) {
    // It sleeps: it hears of this when it next looks.
    at = at + us(random_.uniform() * config_.idle_us);
  }
  at = std::max({at, p.free_at, p.held_until(), now()});
  if (at >= p.wake || at == Instant::never()) return;
  p.wake = at;
  events_.push(at, {Kind::kWorker, static_cast<std::uint8_t>(node), static_cast<std::uint16_t>(proxy), 0, 0});
}

void FaultWorld::wake_proxies(unsigned node) {
  for (unsigned p = 0; p < nodes_[node].proxies.size(); ++p) wake_proxy(node, p, now());
}

void FaultWorld::wake_control(unsigned node, Instant at) {
  NodeRun& n = nodes_[node];
  if (n.node == nullptr) return;
  at = std::max({at, n.control_stalled_until, n.control_stopped_until, now()});
  if (at >= n.control_wake) return;
  n.control_wake = at;
  events_.push(at, {Kind::kControl, static_cast<std::uint8_t>(node), 0, 0, 0});
}

void FaultWorld::worker_turn(unsigned node, unsigned proxy) {
  NodeRun& n = nodes_[node];
  ProxyRun& p = n.proxies[proxy];
  if (p.held_until() > now()) {
    p.wake = Instant::never();
    wake_proxy(node, proxy, p.held_until());
    return;
  }
  proxy::Worker& worker = n.node->worker(proxy);
  const Instant begin = node_now(node);
  if (begin - p.last_turn_by_its_clock > kSchedulingGap) p.gaps += now() - p.last_turn;
  p.last_turn_by_its_clock = begin;
  p.last_turn = now();
  int work = worker.do_work(begin);
  if (work == 0 && p.idle)
    for (int turn = 1; turn < kIdleTurnsAtOnce && work == 0; ++turn) work = worker.do_work(begin);
  p.free_at = now() + kTurn + kTurnWork * work;
  p.wake = Instant::never();
  if (work > 0) {
    p.idle = false;
    wake_proxy(node, proxy, p.free_at);
    wake_control(node, now() + us(config_.control_us));
    if (n.relays || config_.steering != 0 || config_.static_mac == 0 || config_.misdirect != 0)
      for (unsigned other = 0; other < n.proxies.size(); ++other)
        if (other != proxy) wake_proxy(node, other, now());
    return;
  }
  if (!p.idle) {
    p.idle = true;
    if (config_.idle_us > 0) worker.about_to_sleep(begin);
  }
  const Instant deadline = worker.next_deadline();
  // What is overdue waits for something else: room, or a neighbour.
  const Instant due = deadline <= begin              ? now() + kLookAgain
                      : deadline == Instant::never() ? deadline
                                                     : deadline - nodes_[node].skew;
  const Instant at = std::max({earlier(due, now() + kIdleTurns), p.free_at, p.held_until()});
  p.wake = at;
  events_.push(at, {Kind::kWorker, static_cast<std::uint8_t>(node), static_cast<std::uint16_t>(proxy), 0, 0});
}

void FaultWorld::control_turn(unsigned node) {
  NodeRun& n = nodes_[node];
  n.control_wake = Instant::never();
  const Instant held = std::max(n.control_stalled_until, n.control_stopped_until);
  if (held > now()) return wake_control(node, held);
  const int work = n.node->do_control(node_now(node));
  if (n.node->poll_expelled()) fail(fmt::format("cluster {} expelled a client that did nothing wrong", node));
  while (const std::optional<ClusterId> lost = n.node->poll_lost_peer()) {
    ++result_.peers_lost;
    trace("c{} has lost c{}", node, lost->value());
    if (!may_lose(node, lost->value()))
      fail(fmt::format("cluster {} gave up cluster {}, which never was away for long", node, lost->value()));
    anybody_lost_ = true;
    if (lost->value() == stopped_) check_silence(node, true);
    lost_at_[node][lost->value()] = lost_at_[lost->value()][node] = now();
  }
  while (const std::optional<unsigned> fenced = n.node->poll_fenced_proxy()) {
    ++result_.proxies_fenced;
    n.relays = true;
    trace("c{} goes on without its p{}", node, *fenced);
    if (n.proxies[*fenced].last_turn + ms(config_.path_death_ms) > now() && config_.jump_every_ms == 0)
      fail(fmt::format("cluster {} gave up its proxy {}, which did not stand still for long", node, *fenced));
  }
  if (n.node->path_stats().fenced > 0) n.relays = true;
  if (work > 0) wake_proxies(node);
  wake_control(node, now() + (work > 0 ? us(config_.control_us) : kQuietControl));
}

// ---------------------------------------------------------------- trouble

void FaultWorld::trouble(const Event& e) {
  const unsigned node = e.node;
  const auto what = static_cast<Trouble>(e.index);
  switch (what) {
    case Trouble::kPartition: {
      const unsigned other = (node + 1 + static_cast<unsigned>(random_.below(nodes_.size() - 1))) %
                             static_cast<unsigned>(nodes_.size());
      const Instant until = std::min(now() + exponential(random_, ms(config_.partition_ms)), faults_end_);
      trace("--- c{} and c{} do not hear each other until {:.6f} ms", node, other, (until - Instant()).ms());
      network_->cut(node, other, 0, until);
      network_->cut(other, node, 0, until);
      return again(what, config_.partition_every_ms);
    }
    case Trouble::kPathCut: {
      const unsigned peer = (node + 1 + static_cast<unsigned>(random_.below(nodes_.size() - 1))) %
                            static_cast<unsigned>(nodes_.size());
      const auto proxy = static_cast<unsigned>(random_.below(config_.proxies(node)));
      const auto peer_proxy = static_cast<unsigned>(random_.below(config_.proxies(peer)));
      const Instant until = now() + exponential(random_, ms(config_.path_cut_ms));
      trace("--- c{}.p{} and c{}.p{} do not hear each other until {:.6f} ms", node, proxy, peer, peer_proxy,
            (until - Instant()).ms());
      network_->cut_path({node, proxy}, {peer, peer_proxy}, until);
      quiet_from_ = std::max(quiet_from_, until);
      return again(what, config_.path_cut_every_ms);
    }
    case Trouble::kPathDeath: {
      const unsigned peer_proxy = e.b % config_.proxies(e.a);
      trace("--- c{}.p{} and c{}.p{} never hear each other again", node, e.b, e.a, peer_proxy);
      network_->cut_path({node, e.b}, {e.a, peer_proxy}, Instant::never());
      return;
    }
    case Trouble::kLinkDown: {
      if (network_->link_up(node, 0)) {
        trace("--- the link of c{} is down", node);
        network_->set_link(node, 0, false);
        events_.push(std::min(now() + exponential(random_, ms(config_.link_down_ms)), faults_end_),
                     {Kind::kFault, e.node, static_cast<std::uint16_t>(Trouble::kLinkUp), 0, 0});
      }
      return again(what, config_.link_down_every_ms);
    }
    case Trouble::kLinkUp:
      trace("--- the link of c{} is up", node);
      network_->set_link(node, 0, true);
      return;
    case Trouble::kStall: {
      NodeRun& n = nodes_[node];
      if (n.node != nullptr) {
        const auto proxy = static_cast<unsigned>(random_.below(n.proxies.size()));
        n.proxies[proxy].stalled_until = now() + exponential(random_, ms(config_.stall_ms));
        trace("--- c{}.p{} is not scheduled until {:.6f} ms", node, proxy,
              (n.proxies[proxy].stalled_until - Instant()).ms());
      }
      return again(what, config_.stall_every_ms);
    }
    case Trouble::kProxyDeath: {
      NodeRun& n = nodes_[node];
      if (n.node == nullptr) return;
      const auto proxy = static_cast<unsigned>(random_.below(n.proxies.size()));
      ProxyRun& p = n.proxies[proxy];
      p.dead_until = now() + exponential(random_, ms(config_.death_ms));
      quiet_from_ = std::max(quiet_from_, p.dead_until);
      trace("--- c{}.p{} is dead until {:.6f} ms", node, proxy, (p.dead_until - Instant()).ms());
      return;
    }
    case Trouble::kResize: {
      NodeRun& n = nodes_[node];
      if (n.node != nullptr && n.proxies.size() > 1) {
        const auto count = 1 + static_cast<unsigned>(random_.below(n.proxies.size()));
        trace("--- c{} has {} active proxies", node, count);
        n.node->set_active_proxies(count);
        n.relays = true;
        wake_control(node, now());
      }
      return again(what, config_.resize_every_ms);
    }
    case Trouble::kControlStall: {
      NodeRun& n = nodes_[node];
      n.control_stalled_until = now() + exponential(random_, ms(config_.control_stall_ms));
      trace("--- the control plane of c{} is not scheduled until {:.6f} ms", node,
            (n.control_stalled_until - Instant()).ms());
      return again(what, config_.control_stall_every_ms);
    }
    case Trouble::kJump: {
      const Duration jump = std::min(exponential(random_, ms(config_.jump_ms)), 4_s);
      nodes_[node].skew += jump;
      trace("--- the clock of c{} jumps by {:.6f} ms", node, jump.ms());
      wake_proxies(node);
      wake_control(node, now());
      return again(what, config_.jump_every_ms);
    }
    case Trouble::kGap:
      hold(node, std::min(now() + kSchedulingGap + exponential(random_, ms(config_.gap_ms) - kSchedulingGap),
                          faults_end_));
      return again(what, config_.gap_every_ms);
    case Trouble::kForgedArp:
      forge_arp(node);
      return again(what, config_.forge_every_ms);
    case Trouble::kStopNode:
      return stop_node(node);
    case Trouble::kContinueNode:
      return continue_node();
    case Trouble::kRestart: {
      NodeRun& n = nodes_[node];
      if (n.node == nullptr) return;
      trace("--- c{} dies", node);
      n.node.reset();
      anybody_lost_ = true;
      ++n.life;  // its clients find out
      for (unsigned c = 0; c < clients_.size(); ++c) {
        if (clients_[c].node != node) continue;
        if (clients_[c].busy)
          clients_[c].doomed = true;
        else
          destroy(c);
      }
      events_.push(now() + exponential(random_, ms(config_.down_ms)),
                   {Kind::kFault, e.node, static_cast<std::uint16_t>(Trouble::kBoot), 0, 0});
      return;
    }
    case Trouble::kBoot:
      trace("--- c{} starts", node);
      return boot(node);
    case Trouble::kKill: {
      ClientRun& c = clients_[node];
      trace("--- client {} dies", node);
      if (c.busy)
        c.doomed = true;
      else
        destroy(node);
      return;
    }
    case Trouble::kStop: {
      ClientRun& c = clients_[node];
      c.stopped_until = std::min(now() + exponential(random_, ms(config_.stop_ms)), faults_end_);
      trace("--- client {} takes nothing until {:.6f} ms", node, (c.stopped_until - Instant()).ms());
      return;
    }
  }
}

// Nothing of the node runs until then.
void FaultWorld::hold(unsigned node, Instant until) {
  NodeRun& n = nodes_[node];
  trace("--- nothing of c{} is scheduled until {:.6f} ms", node, (until - Instant()).ms());
  for (ProxyRun& p : n.proxies) p.dead_until = std::max(p.dead_until, until);
  n.control_stopped_until = std::max(n.control_stopped_until, until);
}

// Another node hears that the node's address is at a station where nobody is.
void FaultWorld::forge_arp(unsigned node) {
  const auto nodes = static_cast<unsigned>(nodes_.size());
  const unsigned other = (node + 1 + static_cast<unsigned>(random_.below(nodes - 1))) % nodes;
  const stack::Ipv4Address address = *stack::Ipv4Address::parse(address_of(Station{node, 0}));
  const stack::MacAddress nobody(2, 0, 0, 0, 0, static_cast<std::uint8_t>(random_.below(3)));
  std::array<std::byte, kEthernetHeaderBytes + 46> frame{};
  const std::size_t at =
      stack::write_ethernet(frame, stack::MacAddress::broadcast(), nobody, stack::EtherType::kArp);
  const bool request = random_.chance(0.5);
  stack::write_arp(std::span(frame).subspan(at),
                   {.operation = request ? stack::ArpOperation::kRequest : stack::ArpOperation::kReply,
                    .sender_mac = nobody,
                    .sender_ip = address,
                    .target_mac = stack::MacAddress(),
                    .target_ip = address});
  trace("--- c{} hears that c{} is at {}", other, node, nobody.to_string());
  network_->inject(node, other, 0, frame);
}

void FaultWorld::stop_node(unsigned node) {
  if (nodes_[node].node == nullptr) return;
  stopped_ = node;
  stopped_at_ = now();
  hold(node, faults_end_);
  for (unsigned n = 0; n < nodes_.size(); ++n) {
    nodes_[n].gaps_at_stop.clear();
    if (n == node || nodes_[n].node == nullptr || !nodes_[n].node->ready()) continue;
    for (const ProxyRun& p : nodes_[n].proxies) nodes_[n].gaps_at_stop.push_back(p.gaps);
  }
  events_.push(faults_end_, {Kind::kFault, static_cast<std::uint8_t>(node),
                             static_cast<std::uint16_t>(Trouble::kContinueNode), 0, 0});
}

void FaultWorld::continue_node() {
  for (unsigned n = 0; n < nodes_.size(); ++n) check_silence(n, false);
  stopped_at_ = Instant::never();
}

// The stopped node was given up by `node` at this moment, or not yet.
void FaultWorld::check_silence(unsigned node, bool given_up) {
  const NodeRun& n = nodes_[node];
  if (n.gaps_at_stop.empty() || stopped_at_ == Instant::never()) return;
  if (lost_at_[node][stopped_] >= stopped_at_) return;  // it was given up before
  Duration gaps;
  for (std::size_t p = 0; p < n.proxies.size(); ++p) {
    const ProxyRun& proxy = n.proxies[p];
    const Duration held = now() - proxy.last_turn;  // and not counted before it runs
    gaps = std::max(gaps, proxy.gaps - n.gaps_at_stop[p] + (held > kSchedulingGap ? held : Duration()));
  }
  const Duration silence = now() - stopped_at_ - gaps;
  if (silence <= ms(config_.peer_death_ms) + kJudges) return;
  fail(fmt::format(
      "cluster {} {} cluster {}, which was silent for {:.0f} ms, {:.0f} ms of scheduling gaps aside", node,
      given_up ? "gave up only now" : "has not given up", stopped_, silence.ms(), gaps.ms()));
}

// ---------------------------------------------------------------- clients

void FaultWorld::wake_client(unsigned index, Instant at) {
  ClientRun& c = clients_[index];
  at = std::max(at, now());
  if (at >= c.wake) return;
  c.wake = at;
  events_.push(at, {Kind::kClient, 0, static_cast<std::uint16_t>(index), 0, 0});
}

void FaultWorld::client_turn(unsigned index) {
  ClientRun& c = clients_[index];
  c.wake = Instant::never();
  if (c.busy) return;  // it goes on when it has its answer
  if (c.stopped_until > now()) return wake_client(index, c.stopped_until);
  const bool wants_to_live = std::any_of(c.ends.begin(), c.ends.end(),
                                         [&](unsigned e) { return !flows_[e / 2].ends[e % 2].over(); });
  if (!wants_to_live && c.client == nullptr) return;
  c.busy = true;
  bool worked = false;
  if (c.client == nullptr) attach(index);
  if (c.client != nullptr) {
    take_messages(index, &worked);
    if (!c.doomed) begin_flows(index, &worked);
    for (std::size_t i = 0; i < c.ends.size() && !c.doomed && result_.failure.empty(); ++i) {
      Flow& flow = flows_[c.ends[i] / 2];
      const unsigned end = c.ends[i] % 2;
      if (flow.ends[end].state != End::State::kOpen) continue;
      send_some(flow, end, &worked);
      if (!c.doomed) watch(flow, end, &worked);
    }
    if (c.client != nullptr && !c.doomed)
      for (unsigned e = 0; e < static_cast<unsigned>(config_.endpoints); ++e) c.client->endpoint(e).flush();
  }
  c.busy = false;
  if (c.doomed) {
    c.doomed = false;
    destroy(index);
  }
  // What it wrote is seen when the proxies look; they look now and then if there is nothing.
  if (worked || ++c.turns % 16 == 0) wake_proxies(c.node);
  c.quiet = worked ? 0 : std::min(c.quiet + 1, kMostQuietTurns);
  const Duration pace = us(config_.pace_us * (c.slow ? 30 : 1));
  const Duration quiet = std::max(pace, std::min(pace * (1 << c.quiet), kQuietClient));
  wake_client(index, now() + std::max(exponential(random_, quiet), 1_us));
}

void FaultWorld::attach(unsigned index) {
  ClientRun& c = clients_[index];
  if (nodes_[c.node].node == nullptr) return;
  proxy::ClientOptions options;
  options.endpoints = static_cast<std::uint16_t>(config_.endpoints);
  options.receive_bytes = std::max(2 * c.receive_bytes, 64u << 10);
  options.send_bytes = 128u << 10;
  c.life = nodes_[c.node].life;
  auto made = proxy::Client::attach(std::make_unique<ClientService>(*this, c.node), options);
  if (made) {
    c.client = std::move(made).value();
    trace("client {} attaches to c{}", index, c.node);
  } else if (nodes_[c.node].life == c.life && !faulty() && result_.failure.empty()) {
    fail(fmt::format("client {} cannot attach to cluster {}: {}", index, c.node, made.error().text));
  }
}

// It dies, or is told to go: what it sent before arrives all the same.
void FaultWorld::destroy(unsigned index) {
  ClientRun& c = clients_[index];
  if (c.client == nullptr) return;
  for (const unsigned e : c.ends) {
    Flow& flow = flows_[e / 2];
    End& end = flow.ends[e % 2];
    if (end.state == End::State::kOpen || end.state == End::State::kListening) {
      end.state = End::State::kGone;
      end.connection = nullptr;
    }
  }
  for (unsigned e = 0; e < static_cast<unsigned>(config_.endpoints); ++e) {
    const proxy::EndpointCounts& counts = c.client->endpoint(e).counts();
    if (counts.bad_arrivals > 0 && config_.jump_every_ms == 0 && !anybody_lost_)
      fail(fmt::format("client {} was given {} arrivals that are none of its connections'", index,
                       counts.bad_arrivals));
  }
  c.client.reset();
  wake_client(index, now() + 1_us);
}

void FaultWorld::take_messages(unsigned index, bool* worked) {
  ClientRun& c = clients_[index];
  const int limit = c.slow ? 1 : static_cast<int>(1 + random_.below(64));
  for (unsigned e = 0; e < static_cast<unsigned>(config_.endpoints); ++e) {
    proxy::Endpoint& endpoint = c.client->endpoint(e);
    while (Connection* const accepted = endpoint.try_accept()) adopt(index, *accepted);
    const int handed =
        endpoint.poll([&](Connection& from, ByteView message) { on_message(index, from, message); }, limit);
    *worked = *worked || handed > 0;
  }
}

// A connection that a peer made to one of our listeners: whose port tells which flow it is.
void FaultWorld::adopt(unsigned client, Connection& connection) {
  if (connection.tag != 0) return;
  CHECK_GT(connection.listener().value(), 0u);
  Flow& flow = flows_[connection.listener().value() - 1];
  End& end = flow.ends[1];
  if (end.client == client && (flow.unopened || end.state == End::State::kGone)) {
    connection.tag = kNobodys;  // its caller gave up, or was lost; it ends with its client
    return;
  }
  connection.tag = flow.id * 2 + 1 + 1;
  if (end.client != client || end.state != End::State::kListening) {
    fail(fmt::format("client {} was given a second connection of flow {}", client, flow.id));
    return;
  }
  end.state = End::State::kOpen;
  end.connection = &connection;
  ++result_.connections;
  trace("client {} accepts flow {}", client, flow.id);
}

ByteView FaultWorld::content(const Flow& flow, unsigned direction, const Message& m) {
  const std::uint64_t at = mix(mix(flow.id, direction), m.number) % (contents_.size() - kLongestMessage);
  if (m.bytes < 4) return {contents_.data() + at, m.bytes};
  std::memcpy(scratch_.data(), contents_.data() + at, m.bytes);
  store(scratch_.data(), m.number);
  return {scratch_.data(), m.bytes};
}

void FaultWorld::on_message(unsigned client, Connection& from, ByteView message) {
  if (from.tag == 0) adopt(client, from);
  if (from.tag == kNobodys || !result_.failure.empty()) return;
  const unsigned id = static_cast<unsigned>(from.tag - 1) / 2;
  const unsigned end = static_cast<unsigned>(from.tag - 1) % 2;
  Flow& flow = flows_[id];
  Stream& stream = flow.streams[1 - end];
  const auto wrong = [&](const std::string& what) {
    fail(fmt::format("flow {} ({}, from client {} to {}): {}; {} of {} messages had arrived", id,
                     flow.ordered ? "ordered" : "unordered", flow.ends[1 - end].client, client, what,
                     stream.delivered, stream.sent));
  };
  if (flow.ends[end].client != client) return wrong("it came to another client");
  if (flow.ends[end].state != End::State::kOpen) return wrong("it came to an end that is not open");

  const std::uint32_t number = message.size() >= 4 ? load<std::uint32_t>(message.data()) : 0;
  const auto is_it = [&](const Message& m) {
    return !m.delivered && m.bytes == message.size() && (m.bytes < 4 || m.number == number);
  };
  if (stream.outstanding.empty())
    return wrong(fmt::format("message {} of {} bytes comes, and none is missing", number, message.size()));
  auto found = stream.outstanding.begin();
  if (flow.ordered) {
    if (!is_it(*found))
      return wrong(fmt::format("message {} of {} bytes comes where {} of {} bytes is next", number,
                               message.size(), found->number, found->bytes));
  } else if (message.size() >= 4) {
    const std::uint32_t index = number - found->number;
    if (index >= stream.outstanding.size() || !is_it(stream.outstanding[index]))
      return wrong(fmt::format("message {} of {} bytes comes, which is not missing", number, message.size()));
    found += static_cast<std::ptrdiff_t>(index);
  } else {
    found = std::find_if(found, stream.outstanding.end(), [&](const Message& m) {
      if (!is_it(m)) return false;
      const ByteView expected = content(flow, 1 - end, m);
      return std::equal(message.begin(), message.end(), expected.begin());
    });
    if (found == stream.outstanding.end())
      return wrong(fmt::format("a message of {} bytes comes, and none like it is missing", message.size()));
  }
  const ByteView expected = content(flow, 1 - end, *found);
  if (!std::equal(message.begin(), message.end(), expected.begin()))
    return wrong(fmt::format("message {} of {} bytes is not what was sent", found->number, message.size()));
  if (tracing_)
    trace("client {} takes message {} of flow {}.{}: {} bytes", client, found->number, id, 1 - end,
          found->bytes);
  if (config_.latency_us > 0 && now() - found->sent_at > us(config_.latency_us))
    return wrong(fmt::format("message {} took {:.3f} ms, though only one frame was lost", found->number,
                             (now() - found->sent_at).ms()));
  found->delivered = true;
  stream.granules -= found->granules;
  ++stream.delivered;
  ++result_.messages;
  while (!stream.outstanding.empty() && stream.outstanding.front().delivered) stream.outstanding.pop_front();
}

void FaultWorld::begin_flows(unsigned index, bool* worked) {
  ClientRun& c = clients_[index];
  for (std::size_t i = 0; i < c.ends.size(); ++i) {
    Flow& flow = flows_[c.ends[i] / 2];
    const unsigned e = c.ends[i] % 2;
    End& end = flow.ends[e];
    End& other = flow.ends[1 - e];
    // Who lost its peer before it was told of the connection is never told of it.
    if (end.state == End::State::kListening &&
        (flow.unopened || (other.over() && !faulty() && may_be_lost(flow))))
      end.state = End::State::kGone;
    if (end.state != End::State::kWaiting) continue;
    if (flow.unopened || other.state == End::State::kGone) {
      end.state = End::State::kGone;  // it will not come about
      flow.unopened = true;
      continue;
    }
    if (e == 1 && now() >= flow.listen_at) {
      proxy::ConnectionOptions options = flow.options;
      options.window_bytes = end.window_bytes;
      const Result<void> listening = c.client->endpoint(end.endpoint).listen(PortId(flow.id + 1), options);
      *worked = true;
      if (c.doomed) return;
      if (listening.ok()) {
        end.state = End::State::kListening;
      } else if (!faulty() && result_.failure.empty()) {
        return fail(fmt::format("client {}: {}", index, listening.error().text));
      }
    } else if (e == 0 && now() >= flow.connect_at) {
      connect(flow);
      *worked = true;
      if (c.doomed || !result_.failure.empty()) return;
    }
  }
}

void FaultWorld::connect(Flow& flow) {
  End& end = flow.ends[0];
  const Instant began = now();
  flow.opened = began;
  const bool must_succeed = began > quiet_from_ + kSettles && flow.ends[1].state == End::State::kListening;
  ClientRun& c = clients_[end.client];
  proxy::ConnectionOptions options = flow.options;
  options.window_bytes = end.window_bytes;
  const ClusterId cluster(static_cast<std::uint16_t>(clients_[flow.ends[1].client].node));
  const Result<Connection*> made =
      c.client->endpoint(end.endpoint).connect(cluster, PortId(flow.id + 1), options, kConnectTimeout);
  if (!result_.failure.empty()) return;
  if (made.ok()) {
    made.value()->tag = flow.id * 2 + 1;
    end.state = End::State::kOpen;
    end.connection = made.value();
    ++result_.connections;
    trace("client {} has connected flow {}", end.client, flow.id);
    return;
  }
  trace("client {} could not connect flow {}: {}", end.client, flow.id, made.error().text);
  end.state = End::State::kGone;
  flow.unopened = true;
  const ClientRun& listener = clients_[flow.ends[1].client];
  const bool listens = !listener.doomed && listener.life == nodes_[listener.node].life;
  if (must_succeed && listens && !may_be_lost(flow) && !may_lose(c.node, listener.node) &&
      !flow.ends[1].over())
    fail(fmt::format("client {} cannot connect flow {} on a good network: {}", end.client, flow.id,
                     made.error().text));
}

void FaultWorld::send_some(Flow& flow, unsigned e, bool* worked) {
  End& end = flow.ends[e];
  Stream& stream = flow.streams[e];
  for (auto burst = random_.below(9); burst > 0 && stream.sent < stream.planned; --burst) {
    if (!send_one(flow, e)) return;
    *worked = true;
    if (clients_[end.client].doomed || !result_.failure.empty() || end.state != End::State::kOpen) return;
  }
}

// False: not now.
bool FaultWorld::send_one(Flow& flow, unsigned e) {
  End& end = flow.ends[e];
  Stream& stream = flow.streams[e];
  ClientRun& c = clients_[end.client];
  Connection& connection = *end.connection;
  const std::uint32_t most = connection.max_message_bytes();
  // A client that waits in send() takes nothing meanwhile. Two that wait for each other would wait for ever,
  // so long messages go in one direction only; nor can the receiver take them if it waits for something
  // itself, further up on this stack.
  const bool is_long =
      end.client < flow.ends[1 - e].client && random_.chance(config_.long_messages) && depth_ == 0;
  Message m{stream.sent, 0, 0, false, now()};
  if (is_long) {
    m.bytes = most + 1 + static_cast<std::uint32_t>(random_.below(kLongestMessage - most));
  } else if (!random_.chance(0.05)) {
    m.bytes = static_cast<std::uint32_t>(std::pow(config_.max_bytes + 1, random_.uniform()));
    m.bytes = std::min(m.bytes, most);
    m.granules = convergence::granules_of(m.bytes);
  } else {
    m.granules = 1;
  }
  const ByteView bytes = content(flow, e, m);
  SendStatus status = SendStatus::kSent;
  stream.outstanding.push_back(m);
  stream.granules += m.granules;
  const auto not_sent = [&] {
    stream.outstanding.pop_back();
    stream.granules -= m.granules;
  };
  // With fixed dispatch the lane says which proxy.
  const unsigned lane = flow.options.dispatch == convergence::Dispatch::kFixed ? flow.id : 0;
  if (is_long) {
    const std::vector<std::byte> copy(bytes.begin(), bytes.end());
    auto& service = static_cast<ClientService&>(c.client->service());
    service.waiting = true;
    stream.has_long = true;
    const Instant began = now();
    {
      const ClientService::Depth depth(*this);
      status = connection.send(copy, kSendTimeout, lane);
    }
    service.waiting = false;
    if (!result_.failure.empty()) return false;
    if (status == SendStatus::kTimeout) {
      if (began > quiet_from_ && config_.jump_every_ms == 0 &&
          !may_lose(c.node, clients_[flow.ends[1 - e].client].node))
        fail(fmt::format("flow {}: message {} of {} bytes found no room in {:.1f} s of a good network",
                         flow.id, m.number, m.bytes, kSendTimeout.s()));
      note_lost(flow, e, "a long message found no room in time");
    }
  } else if (random_.chance(0.5)) {
    status = connection.try_send(bytes, lane);
  } else {
    // More room than is needed, at times.
    const auto room = std::min(most, m.bytes + static_cast<std::uint32_t>(random_.below(100)));
    const MutableBytes place = connection.reserve(room, lane, &status);
    if (status == SendStatus::kSent) {
      std::copy(bytes.begin(), bytes.end(), place.begin());
      connection.commit(m.bytes);
    }
  }
  switch (status) {
    case SendStatus::kSent:
      break;
    case SendStatus::kNoCredit:
    case SendStatus::kChannelFull:
    case SendStatus::kClosed:
    case SendStatus::kTimeout:
      not_sent();
      return false;
    case SendStatus::kTooLong:
      not_sent();
      fail(fmt::format("flow {}: {} bytes are too long", flow.id, m.bytes));
      return false;
  }
  ++stream.sent;
  if (tracing_)
    trace("client {} sends message {} of flow {}.{}: {} bytes", end.client, m.number, flow.id, e, m.bytes);
  const std::uint32_t window = flow.ends[1 - e].window_bytes / convergence::kGranuleBytes;
  if (!stream.has_long && stream.granules > window)
    fail(fmt::format("flow {}: {} granules are in flight into a window of {}", flow.id, stream.granules,
                     window));
  return true;
}

// What a peer's loss can come from: a death, or a silence of both for as long as that takes.
bool FaultWorld::may_lose(unsigned a, unsigned b) const {
  return config_.may_lose_peers() || nodes_[a].life > 1 || nodes_[b].life > 1;
}

bool FaultWorld::may_be_lost(const Flow& flow) const {
  const unsigned a = clients_[flow.ends[0].client].node;
  const unsigned b = clients_[flow.ends[1].client].node;
  const Instant opened = earlier(flow.opened, now());
  if (config_.may_lose_peers() || lost_at_[a][b] >= opened) return true;
  for (const unsigned node : {a, b}) {
    const NodeRun& n = nodes_[node];
    if (n.node == nullptr || (n.life > 1 && n.restarted + kNoticesRestart >= opened)) return true;
  }
  return false;
}

void FaultWorld::note_lost(Flow& flow, unsigned end, const char* how) {
  trace("client {}: flow {} is lost: {}", flow.ends[end].client, flow.id, how);
  flow.lost = true;
}

void FaultWorld::watch(Flow& flow, unsigned e, bool* worked) {
  End& end = flow.ends[e];
  End& other = flow.ends[1 - e];
  if (end.state != End::State::kOpen) return;
  const Stream& in = flow.streams[1 - e];
  const Stream& out = flow.streams[e];
  if (end.connection->corrupted())
    return fail(fmt::format("client {} is told that flow {} was damaged", end.client, flow.id));
  switch (end.connection->state()) {
    case ConnectionState::kOpen:
      if (flow.unopened || flow.lost) break;
      if (out.sent < out.planned) return;
      // All sent. The other end may be gone, and its word of it in flight.
      if (end.close_early || (in.outstanding.empty() && (in.sent == in.planned || other.over()))) break;
      return;
    case ConnectionState::kPeerClosed:
      if (!other.over() && !flow.unopened && !flow.lost)
        return fail(fmt::format("client {} is told that flow {} was closed, and its peer has it open",
                                end.client, flow.id));
      // What was sent before the close still comes; a peer that was lost meanwhile sends no more.
      if (!in.outstanding.empty() && !flow.unopened && !flow.lost && !may_be_lost(flow)) return;
      break;
    case ConnectionState::kPeerLost:
      if (!may_be_lost(flow))
        return fail(
            fmt::format("client {} is told that flow {}'s peer was lost, which lives", end.client, flow.id));
      note_lost(flow, e, "the peer was lost");
      break;
    case ConnectionState::kServiceLost:
      note_lost(flow, e, "the service is gone");
      if (nodes_[clients_[end.client].node].life == clients_[end.client].life)
        return fail(fmt::format("client {} is told that its node is gone, which lives", end.client));
      break;
  }
  close(flow, e);
  *worked = true;
}

void FaultWorld::close(Flow& flow, unsigned e) {
  End& end = flow.ends[e];
  trace("client {} closes flow {}", end.client, flow.id);
  Connection* const connection = end.connection;
  end.state = End::State::kClosed;
  end.connection = nullptr;
  clients_[end.client].client->endpoint(end.endpoint).close(connection);
}

// ---------------------------------------------------------------- the end

bool FaultWorld::all_over() const {
  if (now() < faults_end_) return false;
  for (const Flow& flow : flows_)
    if (!flow.over() && !(kForgiveHalfOpen && may_be_lost(flow) && now() > faults_end_ + 3_s)) return false;
  for (const NodeRun& n : nodes_)
    if (n.node == nullptr) return false;
  return shared_memory_ == nullptr || shared_memory_->over();
}

std::string FaultWorld::unfinished() const {
  static constexpr const char* kStates[] = {"waiting", "listening", "open", "closed", "gone"};
  std::string text;
  for (const Flow& flow : flows_) {
    if (flow.over()) continue;
    text +=
        fmt::format("\n  flow {}{}{}", flow.id, flow.ordered ? "" : ", unordered", flow.lost ? ", lost" : "");
    for (unsigned e = 0; e < 2; ++e) {
      const End& end = flow.ends[e];
      const Stream& s = flow.streams[e];
      text +=
          fmt::format("; client {} of c{} ({}{}) sent {} of {}, {} arrived", end.client,
                      clients_[end.client].node, kStates[static_cast<unsigned>(end.state)],
                      end.connection != nullptr ? std::string(", ") + to_string(end.connection->state()) : "",
                      s.sent, s.planned, s.delivered);
    }
  }
  if (shared_memory_ != nullptr) text += shared_memory_->unfinished();
  return text;
}

void FaultWorld::note_memory() {
  heap_most_ = std::max(heap_most_, heap_bytes());
  if (network_->frames_in_flight() > kMostFrames)
    fail(fmt::format("{} frames are in flight", network_->frames_in_flight()));
  if (heap_most_ > heap_at_start_ + kMostHeap)
    fail(fmt::format("{} MiB of heap are in use", (heap_most_ - heap_at_start_) >> 20));
}

// Everybody goes home; what is left then is a leak.
void FaultWorld::check_end() {
  if (shared_memory_ != nullptr) result_.programs = shared_memory_->given_up() ? 0 : 1;
  shared_memory_.reset();
  for (ClientRun& c : clients_) c.ends.clear();
  for (unsigned c = 0; c < clients_.size(); ++c)
    if (!clients_[c].busy) destroy(c);
  bool patient = false;
  for (unsigned a = 0; a < nodes_.size(); ++a)
    for (unsigned b = 0; b < nodes_.size(); ++b) patient = patient || (a != b && may_lose(a, b));
  // While a proxy is dead its peers may not be able to tell its node that they have fenced it.
  const Instant patience =
      std::max(now(), quiet_from_) + 2_s + (patient ? ms(2 * config_.peer_death_ms) : 0_s);
  const auto held = [&] {
    std::string who;
    for (unsigned i = 0; i < nodes_.size(); ++i)
      for (proxy::Node::ClientId id = 1; id < 100; ++id)
        if (nodes_[i].node->has_client(id)) who += fmt::format(" c{} of its client {}", i, id);
    return who;
  };
  while (!held().empty() && now() < patience && step()) {
  }
  for (const NodeRun& n : nodes_) result_.paths_fenced += n.node->path_stats().fenced;
  if (result_.failure.empty() && !held().empty())
    fail(fmt::format("something is still held of clients that are gone:{}", held()));
  std::uint64_t repeated = 0;
  for (unsigned i = 0; i < nodes_.size() && result_.failure.empty(); ++i) {
    NodeRun& n = nodes_[i];
    for (unsigned p = 0; p < n.proxies.size(); ++p) {
      n.node->worker(p).publish_counters();
      const proxy::ProxyCounters& counters = n.node->counters(p);
      result_.retransmissions += counters.retransmissions.get();
      // What a packet that found a ring full delivered of itself comes again with it.
      repeated += counters.arrival_ring_full.get() > 0 ? 0 : counters.stale_records.get();
      if (counters.bad_descriptors.get() > 0)
        fail(fmt::format("c{}.p{} refused {} descriptors of honest clients", i, p,
                         counters.bad_descriptors.get()));
    }
  }
  const bool one_life = !anybody_lost_ && result_.paths_fenced == 0 && result_.proxies_fenced == 0 &&
                        config_.resize_every_ms == 0;
  if (result_.failure.empty() && repeated > 0 && one_life)
    fail(fmt::format("{} records were handed over again, and no path was given up", repeated));
}

void FaultWorld::fail(const std::string& what) {
  if (!result_.failure.empty()) return;
  trace("*** {}", what);
  result_.failure = fmt::format("at {:.6f} ms: {}", (now() - Instant()).ms(), what);
}

template <class... Args>
void FaultWorld::trace(fmt::format_string<Args...> format, Args&&... args) {
  if (!tracing_) return;
  fmt::print("{:14.6f}  ", (now() - Instant()).ms());
  fmt::print(format, std::forward<Args>(args)...);
  std::putchar('\n');
}

// A frame as a person reads it.
void FaultWorld::traced(unsigned from, unsigned to, unsigned link, const char* fate, ByteView frame) {
  if (!tracing_) return;
  static constexpr const char* kTypes[] = {"?", "hello", "data", "ack", "probe"};
  constexpr std::size_t kHeaders = 42;
  stack::PacketHeader h;
  std::size_t length = 0;
  std::string text = fmt::format("{} bytes", frame.size());
  if (frame.size() > kHeaders && stack::parse_packet_header(frame.subspan(kHeaders), &h, &length)) {
    text = fmt::format("p{} to p{}  {:5} epochs {:04x} {:04x}  seq {} ack {}", h.source.proxy.value(),
                       h.destination.proxy.value(), kTypes[static_cast<unsigned>(h.type) % 5],
                       h.sender_epoch & 0xffff, h.receiver_epoch & 0xffff, h.seq.value(), h.ack.value());
    for (unsigned w = 0; w < h.sack_words; ++w) text += fmt::format(" {:x}", h.sack[w]);
    stack::RecordReader reader(frame.subspan(kHeaders + length), h.records);
    stack::Record r;
    for (ByteView bytes; reader.next(&r, &bytes);)
      text += fmt::format(" [{} {:x} to {:x} at {}: {}+{} of {}]",
                          r.kind == stack::RecordKind::kMessage  ? "message"
                          : r.kind == stack::RecordKind::kCredit ? "credit"
                                                                 : "control",
                          r.source.value(), r.destination.value(), r.position.value(), r.message_offset,
                          r.bytes, r.message_bytes);
  }
  trace("c{} to c{} link {}  {}  {}", from, to, link, text, fate);
}

}  // namespace braid::sim
