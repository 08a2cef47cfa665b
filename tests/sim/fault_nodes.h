// The nodes of a fault world: production nodes, and when their workers and control planes take turns. They can
// be stalled, killed and started again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/daemon/node.h"
#include "sim/links.h"
#include "tests/sim/network.h"
#include "tests/sim/silence_check.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

class FaultNodes {
 public:
  // Of connections, at every node; none of Braid's own (PS-1).
  static constexpr stack::ProtocolId kAddedStream{71};
  using MakeProtocols = std::function<proxy::Protocols(unsigned node)>;

  // All four live longer.
  FaultNodes(const WorldConfig& config, Prng& random, WorldEvents& events, WorldLog& log, Network& network);

  unsigned size() const { return static_cast<unsigned>(nodes_.size()); }
  // nullptr: it is down.
  proxy::Node* node(unsigned index) { return nodes_[index].node.get(); }
  bool is_running(unsigned index) const { return nodes_[index].node != nullptr; }
  // Counts its starts and deaths, so whoever remembers it sees whether the node is still the same.
  unsigned life(unsigned index) const { return nodes_[index].life; }
  // By its own clock.
  Instant now(unsigned index) const { return events_.now() + nodes_[index].skew; }

  // Registered by each node that starts after this call. kAddedStream must be among them.
  void use_protocols(MakeProtocols make) { make_protocols_ = std::move(make); }
  void start(unsigned index);
  void kill(unsigned index);
  void stall(const ProxyAddress& proxy, Instant until) { proxy_of(proxy).stalled_until = until; }
  // Also when the network is good.
  void stall_for_good(const ProxyAddress& proxy, Instant until) { proxy_of(proxy).dead_until = until; }
  void stall_control(unsigned index, Instant until) { nodes_[index].control_stalled_until = until; }
  // Nothing of the node is scheduled until then, also when the network is good.
  void hold(unsigned index, Instant until);
  // Holds the node. From now on every peer that has reached it must give it up in time, or the world fails.
  void stop(unsigned index, Instant until);
  // The node that was stopped goes on. Fails the world where a peer has not given it up and should have.
  void end_stop();
  void jump(unsigned index, Duration by);
  void set_active_proxies(unsigned index, unsigned count);
  // Everything that is stalled goes on, except where a proxy is dead.
  void end_stalls();

  // They look at what may be there for them, as soon as they can.
  void wake_proxy(unsigned index, unsigned proxy, Instant at);
  void wake_proxies(unsigned index);
  void wake_control(unsigned index, Instant at);
  // Events of the kinds kWorker and kControl. False: it is superseded, and nothing happened.
  bool on_worker(unsigned index, unsigned proxy);
  bool on_control(unsigned index);

  // The two may lose each other: one died, or they were silent for the peer death time.
  bool may_lose(unsigned a, unsigned b) const;
  // One of the two may have lost the other since `opened`.
  bool may_have_lost(unsigned a, unsigned b, Instant opened) const;
  // A node has died, or has given up another.
  bool anybody_lost() const { return anybody_lost_; }
  // Events so far because of which datagrams may be lost, or come back as possible duplicates (PS-5).
  struct Faults {
    bool anybody_lost = false;
    std::uint64_t paths_fenced = 0;
    std::uint64_t proxies_fenced = 0;
    std::uint64_t datagrams_dropped = 0;
  };
  Faults faults() const;
  // The sum over the node's proxies of what they had counted when they last published it.
  proxy::ProtocolTraffic traffic(unsigned index, stack::ProtocolId protocol) const;
  std::uint64_t peers_lost() const { return peers_lost_; }
  std::uint64_t proxies_fenced() const { return proxies_fenced_; }

  // Text for the user: memory that nodes still hold of clients that are gone; empty: none. All nodes are running.
  std::string held_clients() const;
  // Whether they hold any. Cheap enough to be asked after every event.
  bool holds_clients();
  struct Totals {
    std::uint64_t retransmissions = 0;
    std::uint64_t paths_fenced = 0;
    std::uint64_t trains_sent = 0;
    std::uint64_t trains_received = 0;  // whole
  };
  // At the end, when all are running: fails the world where a node refused honest descriptors, or handed records
  // over again though no path was given up.
  Totals check_counters();

 private:
  struct Proxy {
    Instant wake = Instant::never();  // the event that counts
    Instant free_at;                  // its last turn takes so long
    Instant stalled_until;
    Instant dead_until;  // stalled, also when the network is good
    Instant last_turn;
    Instant last_turn_by_its_clock;
    Duration gaps;  // sum of the scheduling gaps that have ended
    bool idle = false;
    Instant held_until() const { return std::max(stalled_until, dead_until); }
  };
  struct Node {
    std::shared_ptr<proxy::Node> node;  // nullptr: it is down
    unsigned life = 0;
    Duration skew;  // its clock is ahead of the world's by so much
    std::vector<Proxy> proxies;
    Instant control_wake = Instant::never();
    Instant control_stalled_until;
    Instant control_held_until;  // also when the network is good
    Instant restarted;           // when it came up last, if life > 1
    bool relays = false;         // proxies do work for each other
  };

  proxy::NodeConfig node_config(unsigned index) const;
  Proxy& proxy_of(const ProxyAddress& at) { return nodes_[at.cluster].proxies[at.proxy]; }
  void push_worker(Instant at, unsigned index, unsigned proxy);
  void worker_turn(unsigned index, unsigned proxy);
  void control_turn(unsigned index);
  void after_work(unsigned index, unsigned proxy);
  void rest(unsigned index, unsigned proxy, Instant begin);
  // By proxy, until now: scheduling gaps that have ended, and one that has not where `open` is set.
  std::vector<Duration> gaps_of(unsigned index, bool open) const;
  void check_silence(unsigned index, bool given_up);
  void take_lost_peers(unsigned index);
  void take_fenced_proxies(unsigned index);

  const WorldConfig& config_;
  Prng& random_;
  WorldEvents& events_;
  WorldLog& log_;
  Network& network_;
  MakeProtocols make_protocols_;
  std::vector<Node> nodes_;
  // When one of the two last gave up the other.
  std::vector<std::vector<Instant>> lost_at_;
  SilenceCheck silence_;
  bool anybody_lost_ = false;
  std::uint64_t peers_lost_ = 0;
  std::uint64_t proxies_fenced_ = 0;
  // The client that holds_clients() has found: mostly it is still held when asked again.
  struct Held {
    unsigned node = 0;
    proxy::Node::ClientId client = 1;
  };
  Held found_held_;
};

}  // namespace braid::sim
