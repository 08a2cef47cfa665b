// The peers of a node, which are the nodes of other clusters: the paths to them, which paths live or are given
// up, and control messages, each of which is delivered once.
//
// It carries what convergence::Paths decides to proxies and peers. Commands for proxies come out of
// poll_command(), to be given to them in that order before anything else is; peers that were lost come out of
// poll_lost().
//
// Pure. Owned by the control plane. What it asks of the monitor is which proxies run.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "convergence/paths.h"
#include "convergence/ports.h"
#include "proxy/daemon/closed_clusters.h"
#include "proxy/daemon/control_messages.h"
#include "proxy/daemon/proxy_monitor.h"
#include "proxy/daemon/remote_paths.h"
#include "proxy/daemon/worker_commands.h"
#include "stack/stack.h"

namespace braid::proxy {

class Peers {
 public:
  struct Lost {
    ClusterId cluster;
    bool ended = false;  // by its orderly end (SC-11)
  };

  // `stacks`: of all proxies. Their remotes get the incarnations that this node has towards them. `peer_death`:
  // how long every path to a peer may be closed at this end until it is lost. The monitor outlives this.
  Peers(std::vector<stack::StackConfig>& stacks, Duration peer_death, std::uint64_t seed,
        const ProxyMonitor& monitor);

  // --- events of proxies

  // True: it concerns ports, and is new. Peers that were lost before it come first: take them from poll_lost()
  // before it.
  [[nodiscard]] bool received(const ControlReceived& event);
  void on_event(const PathUp& event);
  void on_event(const PathDead& event) { paths_.dead(event.path); }
  void on_event(const PathClosed& event);
  void on_event(const PathUnreachable& event) { remotes_.set_unreachable(event.path, event.reason); }
  void on_event(const PeerLost& event);
  void cluster_drained(ClusterId cluster, unsigned proxy) { remotes_.drained(cluster, proxy); }

  // --- a stalled proxy

  // The monitor has fenced it: its paths are closed, and another proxy sends its control messages (CN-11).
  void proxy_fenced(ProxyId proxy);
  // None of its earlier packets can arrive any more.
  bool settled(ProxyId proxy) const { return paths_.fenced(proxy); }
  // It is taken back.
  void proxy_back(ProxyId proxy);

  // --- time

  // Carries out decisions; returns their number.
  int run();
  void watch(Instant now);
  // The control plane did not run for `gap` until now.
  void on_scheduling_gap(Instant now, Duration gap) { closed_.on_scheduling_gap(now, gap); }
  // Some cluster is closed at this end, and may be lost if it stays so.
  bool watches() const { return closed_.any(); }

  // --- messages for peers

  void send(ClusterId to, convergence::ControlMessage message);
  // Something is to be sent to the cluster: paths that wait for their first use begin (SC-14).
  void begin_use(ClusterId to) { paths_.begin_use(to); }
  // The proxy that sends them, and all else of the control plane.
  ProxyId control_proxy(ClusterId to) const { return paths_.control_proxy(to); }
  // The first `count` proxies are active, of all at first (FO-8).
  void set_active(unsigned count);

  // --- clusters of other machines

  // The paths lead to these remotes from now on.
  void connect(const std::vector<RemotePath>& paths);
  // It is not needed any more.
  void drain(ClusterId cluster);
  // Those that every proxy has drained.
  std::vector<ClusterId> drained() const { return remotes_.drained(); }
  // Forgets a drained cluster: packets from it are dropped.
  void forget(ClusterId cluster);

  // --- queries

  convergence::Association association(ClusterId cluster) const { return paths_.association(cluster); }
  std::uint64_t own_incarnation(ClusterId cluster) const { return paths_.own_incarnation(cluster); }
  const convergence::Paths::Stats& stats() const { return paths_.stats(); }
  // Of the cluster's paths that running proxies have, and how many are up.
  struct Count {
    unsigned up = 0;
    unsigned all = 0;
  };
  Count count_paths(ClusterId cluster) const;
  // Paths that are not up, and why; empty: all are.
  std::string problems(ClusterId cluster) const;

  std::optional<AddressedCommand> poll_command();
  std::optional<Lost> poll_lost();

 private:
  static convergence::Paths make_paths(const std::vector<stack::StackConfig>& stacks, std::uint64_t seed);
  void tell(unsigned proxy, const WorkerCommand& command) { commands_.push_back({proxy, command}); }
  void tell_running(const WorkerCommand& command);
  void tell_active(ClusterId cluster);
  void lose(ClusterId cluster);

  const ProxyMonitor& monitor_;
  unsigned active_;
  convergence::Paths paths_;
  RemotePaths remotes_;
  ControlMessages control_;
  ClosedClusters closed_;
  std::set<std::uint16_t> ending_;  // peers that end in good order, and are not lost yet
  std::deque<AddressedCommand> commands_;
  std::deque<Lost> lost_;
};

}  // namespace braid::proxy
