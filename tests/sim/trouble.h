// Decides which faults a fault world has besides those of its frames, and when: cuts, links that go down, proxies
// and control planes that are not scheduled, clocks that jump, forged ARP packets, nodes that are stopped, nodes and
// clients that die. The world carries them out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/prng.h"
#include "base/time.h"
#include "sim/links.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

// Until then; never(): for good.
struct Partition {
  unsigned node = 0;
  unsigned other = 0;
  Instant until;
};
struct PathCut {
  ProxyAddress proxy;
  ProxyAddress peer;
  Instant until;
};
struct LinkChange {
  unsigned node = 0;
  bool up = false;
};
// Not scheduled until then, or until the network is good.
struct ProxyStall {
  ProxyAddress proxy;
  Instant until;
};
// Not scheduled until then, also when the network is good.
struct ProxyDeath {
  ProxyAddress proxy;
  Instant until;
};
struct ProxyResize {
  unsigned node = 0;
  unsigned active = 1;
};
struct ControlStall {
  unsigned node = 0;
  Instant until;
};
struct ClockJump {
  unsigned node = 0;
  Duration by{};
};
// Nothing of a node is scheduled until then, also when the network is good.
struct NodeHold {
  unsigned node = 0;
  Instant until;
};
// The node is held, and its peers must give it up in time.
struct NodeStop {
  unsigned node = 0;
  Instant until;
};
// The node that was stopped goes on.
struct NodeContinue {
  unsigned node = 0;
};
// A node receives an ARP packet that gives another node's address to a station that is not there.
struct ForgedArp {
  unsigned node = 0;  // whose address
  unsigned receiver = 0;
  unsigned station = 0;  // 0 to 2
  bool is_request = false;
};
struct NodeDeath {
  unsigned node = 0;
};
struct NodeStart {
  unsigned node = 0;
};
struct ClientDeath {
  unsigned client = 0;
};
// The client takes no messages until then.
struct ClientStop {
  unsigned client = 0;
  Instant until;
};
// No client does anything until then.
struct Pause {
  Instant until;
};
using Trouble = std::variant<Partition, PathCut, LinkChange, ProxyStall, ProxyDeath, ProxyResize,
                             ControlStall, ClockJump, NodeHold, NodeStop, NodeContinue, ForgedArp, NodeDeath,
                             NodeStart, ClientDeath, ClientStop, Pause>;

class TroublePlanner {
 public:
  // `random` and `events` are the world's and live longer.
  TroublePlanner(const WorldConfig& config, Prng& random, WorldEvents& events);

  // Each puts events into the queue: a node's first start, and everything else that will go wrong with `clients`
  // clients.
  void plan_start(unsigned node, Instant at);
  void plan(std::size_t clients);

  // The state of an event's node that the planner uses.
  struct NodeState {
    bool is_running = true;
    bool is_link_up = true;
  };
  // The trouble that an event of kTrouble means now; nullopt if it does not apply, e.g. to a node that is down.
  std::optional<Trouble> decide(const WorldEvent& event, const NodeState& node);
  // After its trouble was carried out: plans the next of its kind, for kinds that recur.
  void plan_next(const WorldEvent& event);

  // Nothing begins any more from then on, and frames are safe.
  Instant faults_end() const { return faults_end_; }
  // No path and no proxy is dead for longer, other than for good.
  Instant quiet_from() const { return quiet_from_; }

 private:
  enum class Kind : std::uint16_t {
    kPartition,
    kPathCut,
    kPathDeath,  // a: the peer's cluster, b: the proxy
    kLinkDown,
    kLinkUp,
    kStall,
    kProxyDeath,
    kResize,
    kControlStall,
    kJump,
    kRestart,
    kBoot,
    kKill,
    kStop,
    kPause,
    kGap,
    kForgedArp,
    kStopNode,
    kContinueNode,
  };
  unsigned nodes() const { return static_cast<unsigned>(config_.clusters); }
  unsigned other_than(unsigned node) {
    return (node + 1 + static_cast<unsigned>(random_.below(nodes() - 1))) % nodes();
  }
  unsigned some_proxy(unsigned node) { return static_cast<unsigned>(random_.below(config_.proxies(node))); }
  // Drawn from now on, with this mean.
  Instant after(Instant now, double mean_ms);
  void push(Instant at, Kind kind, unsigned node, unsigned a = 0, unsigned b = 0);
  void plan_recurring(Kind kind, double every_ms);
  void plan_path_deaths();
  void plan_pauses();
  void plan_some(Kind kind, double times, std::size_t victims);
  double mean_between(Kind kind) const;
  PathCut cut_some_path(unsigned node);
  ProxyDeath kill_some_proxy(unsigned node);
  NodeHold hold_node(unsigned node);
  ForgedArp forge_arp(unsigned node);

  const WorldConfig& config_;
  Prng& random_;
  WorldEvents& events_;
  const Instant faults_end_;
  Instant quiet_from_;
};

}  // namespace braid::sim
