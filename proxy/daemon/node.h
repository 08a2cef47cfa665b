// One node: its proxies and its control plane, without the sockets and threads around them. braidd runs each
// proxy on a thread of its own and the control plane on the main thread; in_process.h runs all of it on the
// application's thread.
//
// The control plane is a loop over parts that each own a state and decide; it carries their decisions from one
// to the next, and to proxies, which it reaches through rings only:
//
//   Clients         who is attached, their memory (ClientMemory), what they are told
//   DatagramPorts   datagrams that wait for clients
//   ClientService   what clients request, and what is freed when they are gone
//   Ports           connections of this machine's clusters            (convergence/ports.h)
//   Peers           nodes of other clusters: which paths to them live (convergence/paths.h), what they are told
//   Machines        clusters of other machines                        (machines.h, machines_driver.h)
//   ProxyMonitor    which proxies run
//   Lanes           which proxy serves which lane
//   PortInstaller   what proxies and clients' memory have of each connection
//
// All methods but worker() belong to the control plane's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/take_first.h"
#include "base/time.h"
#include "convergence/paths.h"
#include "convergence/ports.h"
#include "proxy/channel/control.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/address_conflicts.h"
#include "proxy/daemon/client_service.h"
#include "proxy/daemon/clients.h"
#include "proxy/daemon/counters_memory.h"
#include "proxy/daemon/datagram_ports.h"
#include "proxy/daemon/key_log.h"
#include "proxy/daemon/lanes.h"
#include "proxy/daemon/links.h"
#include "proxy/daemon/machines_driver.h"
#include "proxy/daemon/node_config.h"
#include "proxy/daemon/peers.h"
#include "proxy/daemon/port_installer.h"
#include "proxy/daemon/protocols.h"
#include "proxy/daemon/proxy_monitor.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/refused_peers.h"
#include "proxy/daemon/worker.h"
#include "proxy/daemon/worker_commands.h"
#include "proxy/daemon/workers.h"

namespace braid::proxy {

// The surroundings of a node: those of braidd by default; a simulation gives its own.
struct NodeSurroundings {
  MakeQueue make_queue = {};                    // empty: the links are what the configuration says
  MakeRegion make_region = make_sealed_region;  // of clients' memory
  std::uint64_t client_memory_bytes = 0;        // of all clients together; 0: half of the machine's
  bool monitor_proxies = true;                  // false where proxies take no idle turns (ProxyMonitor)
  Protocols protocols = {};                     // Braid's own, and others that were added
  // In a simulation: the secret, and what keys are made of. Else the one is the configuration's, and the other comes from
  // the system.
  std::optional<stack::Security> security = {};
};

class Node {
 public:
  using ClientId = proxy::ClientId;
  using Outbound = ClientMessage;
  using MakeQueue = proxy::MakeQueue;

  // Opens the links that the configuration names. The counters live in config.counters_fd, or in memory of
  // the node's own.
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, Instant now,
                                              const NodeSurroundings& surroundings);
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, Instant now,
                                              const MakeQueue& make_queue = {});
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  unsigned proxies() const { return config_.proxies; }
  Worker& worker(unsigned index) { return (*workers_)[index]; }
  const NodeConfig& config() const { return config_; }

  // --- control plane

  // A client has connected.
  ClientId add_client() { return clients_.add(); }
  // A message of the client. Answers come out of poll_outbound().
  void on_request(Instant now, ClientId client, const control::Message& request);
  // It closed its socket, or died: everything that it held is freed when what it sent has been sent.
  void client_gone(ClientId client);
  // Some memory or port of it is still held.
  bool has_client(ClientId client) const { return clients_.all().contains(client); }
  // The memory of an attached client in this process, which gets no descriptor; else nullptr.
  std::byte* client_memory(ClientId client);
  std::optional<Outbound> poll_outbound() { return clients_.poll_message(); }
  // The next one for that client, past those for others.
  std::optional<Outbound> poll_outbound(ClientId client) { return clients_.poll_message(client); }
  // Clients that broke the rules: the caller closes their sockets and calls client_gone().
  std::optional<ClientId> poll_expelled() { return clients_.poll_expelled(); }
  // Lets time pass and moves things on; call often (it waits for proxies to obey, never blocks). Returns the
  // work done.
  int do_control(Instant now);

  // When do_control() must be called again if no proxy has anything to tell.
  Instant next_deadline() const;
  // It will be called at `then` at the latest.
  void pauses_until(Instant then) { monitor_.pauses_until(then); }
  // Which proxy serves lane `lane` of every client now.
  unsigned server_of(unsigned lane) const {
    return (**counters_).server[lane].load(std::memory_order_relaxed);
  }

  // How many proxies serve clients, the first ones; the others keep their sub-connections and do nothing
  // else. Takes effect at run time, and loses, duplicates and reorders no message. 1 .. proxies().
  void set_active_proxies(unsigned count);
  unsigned active_proxies() const { return lanes_.active(); }
  // May be asked by any thread.
  bool is_active(unsigned proxy) const { return states_[proxy].active.load(std::memory_order_relaxed); }
  const convergence::Paths::Stats& path_stats() const { return peers_->stats(); }

  // All sub-connections of all proxies are up.
  bool ready() const { return workers_->ready(); }
  bool refused_peer() const { return workers_->refused_peer(); }
  // Packets of that version of the transport are refused; 0: of none.
  std::uint8_t other_version() const { return workers_->other_version(); }
  // Peers of this machine that were lost since the last call, and those that ended in good order; for the log.
  std::optional<ClusterId> poll_lost_peer();
  std::optional<ClusterId> poll_ended_peer();
  // The next event with clusters of other machines, for the log.
  std::optional<std::string> poll_machine_event();
  // A peer that is refused because of its secret, for the log.
  std::optional<PeerRefused> poll_refused_peer() { return refused_peers_.poll(); }
  // An address that two stations claim, for the log.
  std::optional<stack::AddressConflict> poll_address_conflict() { return address_conflicts_.poll(); }
  // A peer's proxy that is at another address now, for the log.
  std::optional<stack::AddressMove> poll_address_move() { return take_first(address_moves_); }
  // Proxies that were fenced because they stalled, since the last call, for the log.
  std::optional<unsigned> poll_fenced_proxy();
  void count_refused_connection() { (**counters_).refused_connections.add(); }
  // Problems of packet captures and of the key log, for the log.
  std::optional<std::string> poll_file_problem();
  // When no proxy runs any more: the orderly end of these files. An error: one is incomplete.
  Result<void> finish_files();
  // A proxy's thread writes its own.
  ProxyCounters& counters(unsigned proxy) { return (**counters_).proxy[proxy]; }
  const NodeCounters& all_counters() const { return **counters_; }

 private:
  // Memory that the thread of a fenced proxy may still use.
  struct Retired {
    Lanes::Channels channels;
    std::vector<RegionView> views;
  };

  Node(const NodeConfig& config, Instant now, const NodeSurroundings& surroundings);
  Result<void> open(Instant now, const NodeSurroundings& surroundings);

  // --- to and from proxies
  void tell_running(const WorkerCommand& command);
  void carry_out_lanes();
  void carry_out_peers();
  void carry_out_installer();
  bool caught_up() const;
  int take_worker_events(Instant now);
  void on_event(Instant now, unsigned proxy, const ControlReceived& event);
  void on_event(Instant now, unsigned proxy, const PortDrained& event);
  void on_event(Instant now, unsigned proxy, const ChannelDetached& event);
  void on_event(Instant now, unsigned proxy, const LaneReleased& event);
  void on_event(Instant now, unsigned proxy, const ProtocolViolation& event);
  // Those that concern paths alone.
  template <class Event>
  requires requires(Peers& peers, const Event& event) { peers.on_event(event); }
  void on_event(Instant, unsigned, const Event& event) {
    peers_->on_event(event);
    carry_out_peers();
  }
  void on_event(Instant now, unsigned proxy, const ProxyForgotten& event);
  void on_event(Instant now, unsigned proxy, const ProxyResumed& event);
  void on_event(Instant now, unsigned proxy, const ClusterDrained& event);
  void on_event(Instant now, unsigned proxy, const PeerRefused& event);
  void on_event(Instant now, unsigned proxy, const AddressClaimed& event);
  void on_event(Instant now, unsigned proxy, const PeerMoved& event);

  // --- clients
  void free_gone_clients();
  void send_datagram(ClientId client, const ClientService::SendDatagram& request);
  int run_datagrams();

  // --- ports
  int run_ports();
  void carry_out(const convergence::Ports::Event& event);
  void refuse(const convergence::Ports::Event& event);

  // --- other machines
  int run_machines(Instant now);

  // --- proxies
  int rebalance();
  void watch_proxies(Instant now);
  void fence(unsigned proxy);
  void serve_lanes_of(unsigned proxy);
  void take_back(unsigned proxy);

  NodeConfig config_;
  ProxyStates states_{};
  Clients clients_;
  ProxyMonitor monitor_;
  Lanes lanes_;
  convergence::Ports ports_;
  Protocols protocols_;
  DatagramPorts datagram_ports_;
  std::vector<Retired> retired_;  // by proxy
  std::unique_ptr<Peers> peers_;
  std::unique_ptr<PortInstaller> installer_;
  std::unique_ptr<ClientService> client_service_;
  std::unique_ptr<MachinesDriver> machines_;
  std::unique_ptr<CountersMemory> counters_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<KeyLog> key_log_;  // null: none
  std::unique_ptr<Workers> workers_;
  std::deque<ClusterId> ended_peers_;
  std::deque<ClusterId> lost_peers_;
  std::deque<unsigned> fenced_proxies_;
  AddressConflicts address_conflicts_;
  static constexpr std::size_t kMaxUnpolledMoves = 64;
  std::deque<stack::AddressMove> address_moves_;  // not polled yet, the latest of them
  RefusedPeers refused_peers_;
};

}  // namespace braid::proxy
