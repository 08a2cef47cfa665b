// The inter-cluster communication system in virtual time. Every cluster has a production node
// (sim/virtual_node.h): workers, stacks, control plane, and a client whose connections lead to all other
// clusters. This drives them: a proxy has one queue for both directions (paper, section 2.2), takes one thing
// at a time from it, and is busy for as long as the stages cost that this went through (sim/stage_costs.h).
//
//   commit() ──► channel │ worker: window, UDP, IP, NI │ link ──► │ worker: NI, IP, UDP, window │ ──► Sink
//             (compute        (the sending proxy's                    (the receiving proxy's
//              node's time)    time)                                   time)
//
// A proxy's queue holds tickets: one for each descriptor that a client has put into its lane, for a
// frame that has arrived, and one for its timers, commands and what other proxies left it. The worker does
// the work when the ticket's service begins; its results take effect when the stages end: frames leave,
// arrivals and credits reach the compute nodes. An idle proxy costs no event.
//
// Every frame reaches the proxy whose UDP port it names. Driven by the owner of the Events: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "convergence/dispatch.h"
#include "convergence/position.h"
#include "proxy/daemon/node_config.h"
#include "settings/cost_model.h"
#include "settings/simulation.h"
#include "sim/events.h"
#include "sim/faults.h"
#include "sim/iccs_controls.h"
#include "sim/iccs_network.h"
#include "sim/proxy_run.h"
#include "sim/stage_costs.h"
#include "sim/virtual_node.h"

namespace braid::sim {

using settings::Mode;
using settings::ModelMutant;

// The proxy executes nothing for so long; nothing: for ever. Its queue grows, and its peers notice.
struct ProxyStops {
  unsigned proxy = 0;
  std::optional<Duration> lasts;
};
// Every frame to and from the NI is lost for so long; nothing: for ever.
struct NiFails {
  unsigned ni = 0;
  std::optional<Duration> lasts;
};
// From then on this number of proxies serves the compute nodes of the cluster.
struct ActiveProxies {
  unsigned count = 1;
};
// An event that affects a cluster of a running ICCS, `at` after establish().
struct Incident {
  Duration at{};
  ClusterId cluster;
  std::variant<ProxyStops, NiFails, ActiveProxies> what;
};

struct IccsConfig {
  std::uint16_t clusters = 2;
  std::uint16_t proxies = 1;  // per cluster
  std::uint16_t nis = 1;      // per cluster; proxy i is at NI i modulo their number
  Mode mode = Mode::kReal;
  Duration fixed_delay{};  // kNoContention
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
  std::uint32_t window_bytes = 256u << 10;  // of each connection
  proxy::TransportConfig transport;
  FaultConfig faults;  // of every link
  std::vector<Incident> incidents;
  // Told of an incident, by its index in `incidents`, when it begins; may be empty.
  std::function<void(Instant now, std::size_t index)> on_incident;
  std::uint64_t seed = 1;
  double proxy_speed = 1;  // of a compute node
  ModelMutant mutant = ModelMutant::kNone;
};

class Iccs final : private ProxyRun::Owner {
 public:
  class Sink {
   public:
    // How a message was handled at its destination: the compute node, and the time until which it was busy.
    // Reported when the shortest handling time (settings::CostModel::handler) has passed since the
    // delivery.
    struct Handled {
      Instant until;
      unsigned compute_node = 0;
    };
    virtual Handled on_message(Instant now, ClusterId at, ClusterId from, ByteView message) = 0;
    // There is room again for messages of cluster `at`: it may try to send whatever waits.
    virtual void on_room(Instant now, ClusterId at) = 0;
    // A message has been delivered. Only messages, no credits.
    virtual void on_delivered(const MessageReport& report) = 0;
    // Cluster `at` has lost `peer`, and why: what was on its way to it may be lost.
    virtual void on_lost(Instant now, ClusterId at, ClusterId peer, const char* why) = 0;

   protected:
    ~Sink() = default;
  };

  Iccs(const IccsConfig& config, const settings::CostModel& model, Events& events, Sink& sink);
  ~Iccs();
  Iccs(const Iccs&) = delete;
  Iccs& operator=(const Iccs&) = delete;

  // Opens the sub-connections between all nodes, attaches the clients and connects them, unless all that is done at
  // first use. Must be called once,
  // before anything else. Incidents count their time from its return. Error: not all are connected within
  // kSetUpLimit, because too many frames are lost.
  Result<void> establish();

  // Room for a message of `bytes` from `compute_node` of `from`, to be written in place. Empty: there is
  // none, and on_room() tells when to try again. A reservation that is not committed is void at the next.
  // `bytes` is at most max_message_bytes().
  std::uint32_t max_message_bytes() const { return convergence::max_run_bytes(config_.window_bytes); }
  MutableBytes reserve(ClusterId from, unsigned compute_node, ClusterId to, std::uint32_t bytes);
  // Sends the first `bytes` of the last reservation, at `at`, which may lie ahead of now: the compute node
  // has paid for the hand-over by then. What a lane was handed before comes first all the same. With trains (CV-11)
  // it leaves at the next flush() of its cluster only, with all that was committed until then, as from a live node.
  // `kinds` is for the message's report.
  void commit(Instant at, std::uint32_t bytes, std::uint32_t kinds = 0);
  void flush(Instant at, ClusterId from);
  // All three for bytes that are somewhere else. False: no room.
  bool send(Instant at, ClusterId from, unsigned compute_node, ClusterId to, ByteView message);

  void on_event(const Event& event);

  // The least time from an event of this system to a message that Sink hears of because of it, and from
  // commit().
  Duration least_to_deliver() const;
  Duration least_latency() const;
  // Messages that were sent and not delivered.
  std::uint64_t in_flight() const { return in_flight_; }
  // Nothing is on its way, nor waits for its acknowledgement.
  bool at_rest() const;

  // Figures count between these two, any number of times.
  void start_measuring();
  // What was measured so far no longer counts. Between the two; what a proxy is at counts from its next item on.
  void restart_measuring();
  // Ends the measured time at `end`, which may lie ahead of now. Events from now on do not count, nor do
  // messages in the queues.
  void stop_measuring(Instant end);
  const ProxyFigures& figures(ClusterId cluster, unsigned proxy) const;
  const LinkFigures& link_figures(ClusterId cluster, unsigned ni) const;
  // Of the node's own counters, brought up to date.
  const proxy::ProxyCounters& counters(ClusterId cluster, unsigned proxy) const;
  std::uint64_t retransmissions() const { return sum_of(&proxy::ProxyCounters::retransmissions); }
  // Of packets that had arrived, as far as their senders learned.
  std::uint64_t spurious_retransmissions() const {
    return sum_of(&proxy::ProxyCounters::spurious_timeouts) +
           sum_of(&proxy::ProxyCounters::spurious_fast_retransmissions);
  }
  std::uint64_t frames_lost() const { return network_ ? network_->frames_lost() : 0; }

 private:
  // Over all proxies.
  std::uint64_t sum_of(Counter proxy::ProxyCounters::*counter) const;

  // From one cluster to another.
  struct Way {
    bool waits_for_credit = false;
    bool waits_for_channel = false;  // or for the connection
  };
  // Of a cluster's client.
  struct Lane {
    std::vector<MessageLog::Index> committed;  // and not handed over, in this order
    Instant last_handed;
  };
  struct Reservation {
    ClusterId from, to;
    unsigned compute_node = 0;
  };
  ProxyRun& proxy(unsigned cluster, unsigned index) { return *proxies_[cluster * config_.proxies + index]; }
  const ProxyRun& proxy(unsigned cluster, unsigned index) const {
    return *proxies_[cluster * config_.proxies + index];
  }
  Lane& lane(ClusterId cluster, unsigned index) { return lanes_[cluster.value() * config_.proxies + index]; }
  Way& way(ClusterId from, ClusterId to) { return ways_[from.value() * config_.clusters + to.value()]; }
  bool has_proxies() const { return config_.mode == Mode::kReal; }
  void step();
  void make_network();
  void make_nodes();
  void connect();
  void plan_incidents();

  void worked(ProxyRun& proxy) override;
  void not_taken(ProxyRun& proxy, MessageLog::Index message) override;
  void hand_over(ClusterId cluster, unsigned lane, Instant at, MessageLog::Index first);
  void bypass(Instant at, MessageLog::Index message);
  void deliver(ProxyRun& at);
  void deliver_credit(ClusterId at, unsigned proxy, const Arrival& credit);
  [[nodiscard]] bool deliver_message(ClusterId at, unsigned proxy, const Arrival& arrival);
  void deliver_bypassing(MessageLog::Index message);
  void offer_room(ClusterId at);
  void run_control(ClusterId cluster);
  void begin_incident(std::size_t index);

  const IccsConfig config_;
  const settings::CostModel model_;
  Events& events_;
  Sink& sink_;
  IccsShared shared_;
  std::optional<IccsNetwork> network_;               // with proxies
  std::vector<std::unique_ptr<ProxyRun>> proxies_;   // by cluster, then index; the nodes' workers use them
  std::vector<std::unique_ptr<VirtualNode>> nodes_;  // by cluster
  IccsControls controls_;
  std::vector<Way> ways_;    // by sender, then receiver
  std::vector<Lane> lanes_;  // by cluster, then index
  std::vector<std::byte> bypass_room_;
  Reservation reserved_;
  Instant established_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t sent_ = 0;  // messages
};

}  // namespace braid::sim
