// One node: its proxies and its control plane, without the sockets and threads around them. braidd runs each
// proxy on a thread of its own and the control plane on the main thread; in_process.h runs all of it on the
// application's thread.
//
// The control plane owns clients' memory, ports and connections. It talks to proxies through rings only. All
// methods but worker() belong to its thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "convergence/paths.h"
#include "convergence/ports.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/machines.h"
#include "proxy/daemon/node_config.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/recent_serials.h"
#include "proxy/daemon/relay.h"
#include "proxy/daemon/worker.h"

namespace braid::proxy {

class EthdevPorts;
class ShmWire;

// What both ends of a sub-connection must have in common, as one number. `clusters`: of their machine; 0
// between two.
std::uint64_t shared_hash(const NodeConfig& config, std::uint16_t clusters);

class Node : private convergence::Ports::Resources {
 public:
  using ClientId = proxy::ClientId;
  // Control messages of a proxy that can be said again: more than it can have under way, and so few that the
  // peers remember them all (RecentSerials).
  static constexpr std::size_t kSaidRemembered = 1024;
  static_assert(2 * kSaidRemembered <= RecentSerials::kRemembered);

  // A message for a client, and a descriptor to pass with it (owned by the node, -1: none).
  struct Outbound {
    ClientId client;
    control::Message message;
    int fd = -1;
  };

  // Makes the queue of a proxy on a link of the configuration, whatever kind that says the link is: for
  // wires that exist in simulation only.
  using MakeQueue = std::function<std::unique_ptr<NicQueue>(LinkId link, unsigned proxy)>;

  // Opens the links that the configuration names. The counters live in config.counters_fd, or in memory of
  // the node's own.
  static Result<std::unique_ptr<Node>> create(const NodeConfig& config, Instant now,
                                              const MakeQueue& make_queue = {});
  ~Node() override;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  unsigned proxies() const { return static_cast<unsigned>(workers_.size()); }
  Worker& worker(unsigned index) { return *workers_[index]; }
  const NodeConfig& config() const { return config_; }

  // --- control plane

  // A client has connected.
  ClientId add_client();
  // It says something. Answers come out of poll_outbound().
  void on_request(Instant now, ClientId client, const control::Message& request);
  // It closed its socket, or died: everything that it held is freed when what it sent has been sent.
  void client_gone(ClientId client);
  // Something of it is still held.
  bool has_client(ClientId client) const { return clients_.contains(client); }
  std::optional<Outbound> poll_outbound();
  // The next one for that client, past those for others.
  std::optional<Outbound> poll_outbound(ClientId client);
  // Clients that broke the rules: the caller closes their sockets and calls client_gone().
  std::optional<ClientId> poll_expelled();
  // Lets time pass and moves things on; call often (it waits for proxies to obey, never blocks). Returns the
  // work done.
  int do_control(Instant now);

  // How many proxies serve clients, the first ones; the others keep their sub-connections and do nothing
  // else. Takes effect while everything runs, and loses, doubles and reorders nothing. 1 .. proxies().
  void set_active_proxies(unsigned count);
  unsigned active_proxies() const { return active_; }
  // May be asked by any thread.
  bool is_active(unsigned proxy) const { return states_[proxy].active.load(std::memory_order_relaxed); }
  const convergence::Paths::Stats& path_stats() const { return paths_->stats(); }

  // All sub-connections of all proxies are up.
  bool ready() const;
  // Peers of this machine that were lost since the last call, and those that said that they end; for the log.
  std::optional<ClusterId> poll_lost_peer();
  std::optional<ClusterId> poll_ended_peer();
  // What happened with clusters of other machines since the last call, for the log.
  std::optional<std::string> poll_news();
  // Proxies that stood still and were given up for others since the last call, for the log.
  std::optional<unsigned> poll_fenced_proxy();
  bool refused_peer() const;
  // A proxy's thread writes its own.
  ProxyCounters& counters(unsigned proxy) { return counters_->proxy[proxy]; }

 private:
  // Of one endpoint of a client. Arrivals of proxy p come through lane p for ever; what the client sends
  // through it is served by any proxy.
  struct Lane {
    unsigned server = 0;
    bool moving = false;                // its server was told to give it away
    std::unique_ptr<Channel> receiver;  // of proxy p; none while that stands still
    std::unique_ptr<Channel> sender;    // of `server`, if that is another
  };
  struct Client {
    bool attached = false;
    bool gone = false;
    bool detach_sent = false;
    unsigned detaching = 0;  // channels that proxies still use
    std::vector<std::unique_ptr<Channel>>
        retired;  // senders of lanes that have moved on, until they are detached
    ChannelGeometry geometry;
    int fd = -1;
    std::byte* memory = nullptr;     // the control plane's mapping
    std::vector<std::byte*> mapped;  // each proxy's own, so that one alone can be cut off
    std::vector<Lane> lanes;         // endpoint * proxies + lane
    std::vector<bool> cells;
    std::set<std::uint32_t> listeners;         // their ports
    std::vector<std::uint32_t> granules_left;  // by endpoint: what its arrival rings can still promise
    std::map<std::uint64_t, std::uint64_t> free_space;  // offset, bytes
  };

  Node(const NodeConfig& config);
  Result<void> open_links(Instant now, const MakeQueue& make_queue);
  Result<void> map_counters();
  stack::StackConfig stack_config(unsigned proxy, std::uint64_t seed) const;

  std::optional<convergence::Ports::Grant> grant(ClientId client, std::uint32_t endpoint,
                                                 std::uint32_t window_bytes) override;
  void give_back(ClientId client, std::uint32_t endpoint, const convergence::Ports::Grant& grant,
                 std::uint32_t window_bytes) override;

  Client* find(ClientId client);
  void attach(ClientId id, Client& client, const control::Message& request);
  void set_proxies(ClientId client, const control::Message& request);
  void answer(ClientId client, control::Kind kind, std::uint32_t serial, const control::Message& body = {},
              int fd = -1);
  void refuse(ClientId client, std::uint32_t serial, const std::string& text);
  bool caught_up() const;
  void tell_worker(unsigned proxy, const WorkerCommand& command);
  // Every proxy that does not stand still.
  void tell_running(const WorkerCommand& command);
  void say(ClusterId to, convergence::ControlMessage message);
  void say_by(unsigned proxy, ClusterId to, const convergence::ControlMessage& message);
  void carry_out(const convergence::Ports::Event& event);
  void install(const convergence::Ports::End& end);
  void install(unsigned proxy, const convergence::Ports::End& end);
  void opened(const convergence::Ports::Event& event, bool accepted);
  PortCell* cell(const convergence::Ports::End& end);
  int take_worker_events(Instant now);
  void on_event(Instant now, unsigned proxy, const ControlReceived& event);
  void on_event(Instant now, unsigned proxy, const PortDrained& event);
  void on_event(Instant now, unsigned proxy, const ChannelDetached& event);
  void on_event(Instant now, unsigned proxy, const LaneReleased& event);
  void on_event(Instant now, unsigned proxy, const ProtocolViolation& event);
  void on_event(Instant now, unsigned proxy, const PeerLost& event);
  void on_event(Instant now, unsigned proxy, const PathUp& event);
  void on_event(Instant now, unsigned proxy, const PathDead& event);
  void on_event(Instant now, unsigned proxy, const PathClosed& event);
  void on_event(Instant now, unsigned proxy, const PathUnreachable& event);
  void on_event(Instant now, unsigned proxy, const ProxyForgotten& event);
  void on_event(Instant now, unsigned proxy, const ProxyResumed& event);
  void on_event(Instant now, unsigned proxy, const ClusterDrained& event);
  // FO-8
  void prefer_proxies(ClusterId cluster, unsigned active);
  void let_go(ClientId id, Client& client);
  void destroy(ClientId id);

  // --- other machines (node_machines.cpp)

  // The other end of one path.
  struct Remote {
    convergence::PathId path;
    stack::RemoteStack stack;
    std::optional<stack::Unreachable> unreachable;  // the last word of a host on the way
  };
  std::uint16_t places() const { return config_.machines.any() ? config_.machines.places : std::uint16_t{0}; }
  void make_machines(const std::vector<stack::Interface>& links, std::uint64_t seed);
  void connect_machine(Instant now, ClientId id, const Client& client, const control::Message& request);
  int run_machines(Instant now);
  void carry_out(Instant now, const Machines::Event& event);
  void meet(ClusterId place, const Introduction& peer);
  void tell_of_remote(const Remote& remote, bool opens);
  void part(ClusterId place);
  bool parted(ClusterId place);
  // The paths to a cluster that are not up, and why.
  std::string path_problems(ClusterId cluster) const;

  // --- proxies (node_proxies.cpp)

  // What is known of a proxy beside its Worker.
  struct Proxy {
    bool fenced = false;           // it stands still; the others go on without it
    std::uint32_t generation = 0;  // how often it was fenced
    bool back = false;             // it goes on, and waits to be taken into use again
    std::set<unsigned> awaited;    // fenced: who has not dropped what it had of it yet
    bool owes = false;             // what it sent before it stood still may yet arrive: its lanes wait
    std::uint64_t heartbeat = 0;   // the last one seen, and since when
    Instant beat_at;
    // PortEntry::reported of ports that it is just forgetting. They are free when it has caught up, and if it
    // stands still when it is back.
    std::vector<std::vector<std::uint64_t>> forgotten;
    // Fenced: what its thread may still be using.
    std::vector<std::unique_ptr<Channel>> graveyard;
    std::vector<std::pair<std::byte*, std::uint64_t>> old_mappings;
  };

  bool running(unsigned proxy) const { return !proxies_[proxy].fenced; }
  // And may take what clients send.
  bool serves(unsigned proxy) const { return running(proxy) && !proxies_[proxy].owes; }
  // Who shall serve the lane now.
  unsigned server_for(unsigned lane) const;
  std::byte* map_client(int fd, std::uint64_t bytes);
  // Gives proxy `proxy` its mapping and its lane of each endpoint.
  void attach_proxy(ClientId id, Client& client, unsigned proxy, bool resumes);
  void add_sender(ClientId id, Client& client, unsigned index, bool resumes);
  void detach_channel(Client& client, unsigned proxy, Channel* channel);
  void tell_servers();
  // Lanes go where they belong.
  int rebalance();
  void watch_proxies(Instant now);
  void fence(unsigned proxy);
  void settle(unsigned proxy);
  void serve_again(unsigned proxy);
  void serve_lane(ClientId id, Client& client, unsigned index);
  void consider_adoption(unsigned proxy);
  void take_back(unsigned proxy);
  // Carries out what the paths decided.
  int run_paths();
  void tell_active(ClusterId cluster);
  void watch_paths(Instant now);

  NodeConfig config_;
  std::unique_ptr<EthdevPorts> ethdev_;
  std::vector<std::shared_ptr<ShmWire>> wires_;
  std::vector<std::unique_ptr<Handoff>> handoffs_;
  NodeCounters* counters_ = nullptr;
  int counters_fd_ = -1;  // for clients: read only
  std::vector<std::unique_ptr<Worker>> workers_;
  ProxyStates states_{};
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<Proxy> proxies_;
  unsigned active_ = 1;
  unsigned moving_ = 0;           // lanes
  bool lanes_unsettled_ = false;  // some may not be where they belong
  Instant last_control_;
  std::unique_ptr<convergence::Paths> paths_;
  std::map<std::uint16_t, std::vector<Remote>> remotes_;  // by cluster
  std::vector<stack::Interface> interfaces_;              // by link
  std::unique_ptr<Machines> machines_;
  std::map<std::uint16_t, std::set<unsigned>> parting_;  // by place: proxies that have something of it
  std::deque<std::string> news_;
  std::uint32_t next_serial_ = 1;
  // By proxy: what was last given to it to say. If it stands still others say it again; the peers know by the
  // serial what they have heard.
  struct Said {
    ClusterId to;
    convergence::ControlMessage message;
  };
  std::vector<std::deque<Said>> said_;
  std::vector<RecentSerials> heard_;  // by cluster
  convergence::Ports ports_;
  std::map<std::uint32_t, convergence::Ports::End> installed_;  // by port
  ClientId next_client_ = 1;
  std::map<ClientId, Client> clients_;
  // PortEntry::reported by port and proxy; empty where the proxy has never heard of the port.
  std::map<std::uint32_t, std::vector<std::vector<std::uint64_t>>> reported_;
  std::map<std::uint16_t, Instant> deaf_since_;              // by cluster: no path to it is open at this end
  std::map<std::uint32_t, std::vector<unsigned>> draining_;  // by port: proxies that have not answered
  std::deque<Outbound> outbound_;
  std::deque<ClientId> expelled_;
  std::set<std::uint16_t> ending_;  // peers that said so, and are not given up yet
  std::deque<ClusterId> ended_peers_;
  std::deque<ClusterId> lost_peers_;
  std::deque<unsigned> fenced_proxies_;
  std::vector<std::deque<WorkerCommand>> backlog_;  // by proxy: commands that found the ring full
};

}  // namespace braid::proxy
