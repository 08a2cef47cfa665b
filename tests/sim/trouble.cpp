#include "tests/sim/trouble.h"

#include <algorithm>

#include "sim/faults.h"

namespace braid::sim {

namespace {

constexpr Duration kLongestJump = 4_s;
constexpr Duration kBeforePause = 20_ms;
// The stations that forged ARP packets name.
constexpr std::uint64_t kForgedStations = 3;

}  // namespace

TroublePlanner::TroublePlanner(const WorldConfig& config, Prng& random, WorldEvents& events)
    : config_(config),
      random_(random),
      events_(events),
      faults_end_(Instant() + from_ms(config.fault_ms)),
      quiet_from_(faults_end_) {}

// ---------------------------------------------------------------- when

void TroublePlanner::push(Instant at, Kind kind, unsigned node, unsigned a, unsigned b) {
  events_.push(at, {WorldEvent::Kind::kTrouble, static_cast<std::uint8_t>(node),
                    static_cast<std::uint16_t>(kind), a, b});
}

void TroublePlanner::plan_start(unsigned node, Instant at) {
  push(at, Kind::kBoot, node);
}

double TroublePlanner::mean_between(Kind kind) const {
  switch (kind) {
    case Kind::kPartition:
      return config_.partition_every_ms;
    case Kind::kPathCut:
      return config_.path_cut_every_ms;
    case Kind::kLinkDown:
      return config_.link_down_every_ms;
    case Kind::kStall:
      return config_.stall_every_ms;
    case Kind::kResize:
      return config_.resize_every_ms;
    case Kind::kControlStall:
      return config_.control_stall_every_ms;
    case Kind::kJump:
      return config_.jump_every_ms;
    case Kind::kGap:
      return config_.gap_every_ms;
    case Kind::kForgedArp:
      return config_.forge_every_ms;
    case Kind::kPathDeath:
    case Kind::kLinkUp:
    case Kind::kProxyDeath:
    case Kind::kStopNode:
    case Kind::kContinueNode:
    case Kind::kRestart:
    case Kind::kBoot:
    case Kind::kKill:
    case Kind::kStop:
    case Kind::kPause:
      break;
  }
  return 0;
}

void TroublePlanner::plan_recurring(Kind kind, double every_ms) {
  if (every_ms <= 0) return;
  const Instant at = after(events_.now(), every_ms);
  if (at >= faults_end_) return;
  push(at, kind, static_cast<unsigned>(random_.below(nodes())));
}

void TroublePlanner::plan_next(const WorldEvent& event) {
  const auto kind = static_cast<Kind>(event.index);
  plan_recurring(kind, mean_between(kind));
}

void TroublePlanner::plan_path_deaths() {
  std::vector<bool> has_dead_path(nodes());  // to the next node
  for (int i = 0; i < static_cast<int>(config_.dead_paths); ++i) {
    // One of each two nodes' at most, and never their only one.
    const auto node = static_cast<unsigned>(random_.below(nodes()));
    const unsigned peer = (node + 1) % nodes();
    if (std::max(config_.proxies(node), config_.proxies(peer)) < 2) continue;
    if (has_dead_path[node] || (nodes() == 2 && i > 0)) continue;
    has_dead_path[node] = true;
    const unsigned proxy = some_proxy(node);
    push(Instant() + from_ms(random_.uniform() * config_.fault_ms), Kind::kPathDeath, node, peer, proxy);
  }
}

// Early, while clients still have messages to send.
void TroublePlanner::plan_pauses() {
  Instant at;
  for (int i = 0; i < static_cast<int>(config_.pauses); ++i) {
    at = at + kBeforePause * random_.below(1000) / 1000;
    push(at, Kind::kPause, 0);
    at = at + from_ms(config_.pause_ms);
  }
}

void TroublePlanner::plan_some(Kind kind, double times, std::size_t victims) {
  for (int i = 0; i < static_cast<int>(times); ++i) {
    const auto victim = static_cast<unsigned>(random_.below(victims));
    push(Instant() + from_ms(random_.uniform() * config_.fault_ms), kind, victim);
  }
}

void TroublePlanner::plan(std::size_t clients) {
  for (const Kind kind : {Kind::kPartition, Kind::kPathCut, Kind::kLinkDown, Kind::kResize, Kind::kStall,
                          Kind::kControlStall, Kind::kJump, Kind::kGap, Kind::kForgedArp})
    plan_recurring(kind, mean_between(kind));
  if (config_.stopped_ms > 0)
    push(faults_end_ - from_ms(config_.stopped_ms), Kind::kStopNode,
         static_cast<unsigned>(random_.below(nodes())));
  plan_path_deaths();
  plan_some(Kind::kProxyDeath, config_.dead_proxies, nodes());
  plan_some(Kind::kRestart, config_.restarts, nodes());
  plan_some(Kind::kKill, config_.kills, clients);
  plan_some(Kind::kStop, config_.stops, clients);
  plan_pauses();
}

// ---------------------------------------------------------------- what

Instant TroublePlanner::after(Instant now, double mean_ms) {
  return now + exponential(random_, from_ms(mean_ms));
}

PathCut TroublePlanner::cut_some_path(unsigned node) {
  const unsigned peer = other_than(node);
  const unsigned proxy = some_proxy(node);
  const unsigned peer_proxy = some_proxy(peer);
  const Instant until = after(events_.now(), config_.path_cut_ms);
  quiet_from_ = std::max(quiet_from_, until);
  return {{node, proxy}, {peer, peer_proxy}, until};
}

ProxyDeath TroublePlanner::kill_some_proxy(unsigned node) {
  const unsigned proxy = some_proxy(node);
  const Instant until = after(events_.now(), config_.death_ms);
  quiet_from_ = std::max(quiet_from_, until);
  return {{node, proxy}, until};
}

NodeHold TroublePlanner::hold_node(unsigned node) {
  const Duration gap = kSchedulingGap + exponential(random_, from_ms(config_.gap_ms) - kSchedulingGap);
  return {node, std::min(events_.now() + gap, faults_end_)};
}

ForgedArp TroublePlanner::forge_arp(unsigned node) {
  ForgedArp forged;
  forged.node = node;
  forged.receiver = other_than(node);
  forged.station = static_cast<unsigned>(random_.below(kForgedStations));
  forged.is_request = random_.chance(0.5);
  return forged;
}

std::optional<Trouble> TroublePlanner::decide(const WorldEvent& event, const NodeState& state) {
  const Instant now = events_.now();
  const unsigned node = event.node;
  switch (static_cast<Kind>(event.index)) {
    case Kind::kPartition: {
      const unsigned other = other_than(node);
      return Partition{node, other, std::min(after(now, config_.partition_ms), faults_end_)};
    }
    case Kind::kPathCut:
      return cut_some_path(node);
    case Kind::kPathDeath:
      return PathCut{{node, event.b}, {event.a, event.b % config_.proxies(event.a)}, Instant::never()};
    case Kind::kLinkDown:
      if (!state.is_link_up) return {};
      push(std::min(after(now, config_.link_down_ms), faults_end_), Kind::kLinkUp, node);
      return LinkChange{node, false};
    case Kind::kLinkUp:
      return LinkChange{node, true};
    case Kind::kStall: {
      if (!state.is_running) return {};
      const unsigned proxy = some_proxy(node);
      return ProxyStall{{node, proxy}, after(now, config_.stall_ms)};
    }
    case Kind::kProxyDeath:
      if (!state.is_running) return {};
      return kill_some_proxy(node);
    case Kind::kResize:
      if (!state.is_running || config_.proxies(node) < 2) return {};
      return ProxyResize{node, 1 + some_proxy(node)};
    case Kind::kControlStall:
      return ControlStall{node, after(now, config_.control_stall_ms)};
    case Kind::kJump:
      return ClockJump{node, std::min(exponential(random_, from_ms(config_.jump_ms)), kLongestJump)};
    case Kind::kGap:
      return hold_node(node);
    case Kind::kForgedArp:
      return forge_arp(node);
    case Kind::kStopNode:
      if (!state.is_running) return {};
      push(faults_end_, Kind::kContinueNode, node);
      return NodeStop{node, faults_end_};
    case Kind::kContinueNode:
      return NodeContinue{node};
    case Kind::kRestart:
      if (!state.is_running) return {};
      push(after(now, config_.down_ms), Kind::kBoot, node);
      return NodeDeath{node};
    case Kind::kBoot:
      return NodeStart{node};
    case Kind::kKill:
      return ClientDeath{node};
    case Kind::kStop:
      return ClientStop{node, std::min(after(now, config_.stop_ms), faults_end_)};
    case Kind::kPause:
      return Pause{std::min(now + from_ms(config_.pause_ms), faults_end_)};
  }
  return {};
}

}  // namespace braid::sim
