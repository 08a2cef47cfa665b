// The clustered multiprocessor in virtual time: every cluster's page engine and the ICCS between them, as the
// production objects that they are, and the clock that moves the compute nodes, whose program runs elsewhere
// (sim/shell).
//
// A compute node runs on its own clock until it asks for something; that is an event at its clock's time like
// all others. No node may run beyond a moment at which something could still happen to its cluster's memory:
// the next event of its own cluster, or any other event and the least time that it takes from there to here.
// So what a node reads is what it would have read had everything happened one after the other, and a run
// depends on nothing but its configuration, its program and its seed.
//
//   cost of what a node asks for      the node's time
//   cost of a message that arrives    the time of a compute node of the destination: one that waits, else
//                                     one that computes and is held up for so long (MGS handles messages on
//                                     the compute nodes)
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fnv.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/engine/engine.h"
#include "dsm/program/lock_misuse.h"
#include "settings/cost_model.h"
#include "sim/events.h"
#include "sim/iccs.h"
#include "sim/shell/control.h"

namespace braid::sim {

// Where the compute nodes of one cluster run.
class Shell {
 public:
  virtual ~Shell() = default;
  // What both share. Whoever has the baton may touch it.
  virtual Control& control() = 0;
  // The cluster's pages: always readable and writable here.
  virtual std::byte* heap() = 0;
  // Hands the baton over and returns when it is back. An error: the program has ended, and how.
  virtual Result<void> run() = 0;
};

struct MachineConfig {
  IccsConfig iccs;            // clusters, and the mode
  std::uint16_t compute = 1;  // nodes per cluster
  std::uint32_t heap_pages = 65536;
  // What a compute node asks for comes up to so many cycles later; iccs.seed draws how many each time. Where
  // nodes race for a lock, which one is first changes all that follows, so that one run is a sample: runs
  // with other seeds are the others.
  std::uint32_t jitter = 0;
  // Everything strictly one after the other, in steps of a cycle: slow, and the same result. To see that it
  // is.
  bool strict = false;
};

// What a compute node did with its time inside parallel().
struct NodeFigures {
  Duration computing{};
  Duration faults{};  // waiting for pages
  Duration locks{};
  Duration barriers{};
  Duration syncs{};            // of other kinds
  Duration handling{};         // of that, or of computing: messages that arrived, handled on it
  Duration held_up{};          // of `handling`, what is of computing
  std::uint64_t messages = 0;  // that it sent
};

// Sums over messages that were delivered while parallel() ran.
struct MessageFigures {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  Duration whole{};  // from the hand-over to the delivery
  Duration wait_to_send{};
  Duration send{};           // service, until the last of it has left the NI
  Duration network{};        // the link's queue, the link, and the way
  Duration wait_for_link{};  // of that, in the link's queue
  Duration wait_to_receive{};
  Duration receive{};
};

struct MachineFigures {
  Duration whole{};                     // of the run, from its first instruction to finish()
  Duration parallel{};                  // of that, inside parallel(): what follows is of this time alone
  std::vector<NodeFigures> nodes;       // of all clusters, in their order
  std::vector<ProxyFigures> proxies;    // the same
  std::vector<LinkFigures> links;       // the same: of their NIs, to the network
  std::vector<std::uint64_t> received;  // by cluster: messages that were delivered to it
  std::vector<dsm::NodeCounts> node_counts;
  std::vector<dsm::ClusterCounts> cluster_counts;
  MessageFigures messages;
  std::uint64_t events = 0;      // of the protocols: a message through one stage, or a timer
  std::uint64_t hand_overs = 0;  // of the baton
  std::uint64_t retransmissions = 0;
  std::uint64_t frames_lost = 0;
  std::uint64_t trace_hash = 0;  // over every request and every delivery, with its time
  bool counted = true;           // compute time comes from the compiler's counts, in every shell
};

class SimulatedMachine final : private Iccs::Sink {
 public:
  // Told of every message that was delivered while parallel() ran; may be empty.
  using Trace = std::function<void(const MessageReport&)>;

  // Shells by cluster; they outlive the machine.
  SimulatedMachine(const MachineConfig& config, const settings::CostModel& model, std::vector<Shell*> shells,
                   Trace trace = {});
  ~SimulatedMachine();
  SimulatedMachine(const SimulatedMachine&) = delete;
  SimulatedMachine& operator=(const SimulatedMachine&) = delete;

  // Runs the programs to finish() of all clusters. An error says what went wrong: a program's mistake, its
  // end, or that all compute nodes wait for each other, and for what.
  Result<MachineFigures> run();

 private:
  class Memory;
  struct Node;
  struct Cluster;
  // Somebody's time in which the page protocol works, and how far it has come.
  struct Work {
    Cluster& cluster;
    unsigned lane;
    Instant at;
    std::size_t bytes;  // of the message that is being handled
  };

  Handled on_message(Instant now, ClusterId at, ClusterId from, ByteView message) override;
  void on_room(Instant now, ClusterId at, ClusterId to) override;
  void on_delivered(const MessageReport& report) override;
  void on_lost(Instant now, ClusterId at, ClusterId peer, const char* why) override;

  Cluster& cluster(ClusterId id) { return *clusters_[id.value()]; }
  std::int64_t to_cycles(Instant at) const;
  Instant to_instant(std::int64_t cycles) const;
  Duration entry(Request::Kind kind) const;

  std::int64_t clock_of(const Cluster& c) const;
  Cluster* earliest();
  std::int64_t window_of(const Cluster& c) const;
  Result<void> run_shell(Cluster& c, std::int64_t window);
  void make_granted_accesses(Cluster& c, PageId first, std::uint32_t count, dsm::Access access);
  void ask(Cluster& c, unsigned node);
  void resume(Cluster& c, unsigned node, Instant at);
  void on_request(Cluster& c, unsigned node);
  void complete_others(Cluster& c, Instant at);
  void take_step(Cluster& c, unsigned node);
  void all_at_step();
  void met(Cluster& c, Instant at);
  template <class Operation>
  void charged(Work& work, Operation&& operation);
  void pump(Work& work);
  unsigned handler(Cluster& c);
  template <class Do>
  Handled work_of(Cluster& c, Instant now, Do&& act);
  void fail(Error why);
  void fail(const Cluster& c, unsigned node, const std::string& why);
  void fail(const Cluster& c, unsigned node, const dsm::LockMisuse& misuse);
  bool is_stuck() const;
  Error deadlock() const;
  void hash(std::uint64_t a, std::uint64_t b, std::uint64_t c);
  MachineFigures figures() const;

  const MachineConfig config_;
  const settings::CostModel model_;
  // Of the nodes' clocks, whose cycles are units of what their programs count.
  const std::int64_t clock_rate_;
  const Duration jitter_;
  Events events_;
  Iccs iccs_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  Trace trace_;
  MachineFigures figures_;
  Instant began_;
  Instant parallel_began_;
  Instant last_left_;
  unsigned in_parallel_ = 0;  // compute nodes of the machine that have not left it
  bool finished_ = false;     // all clusters have
  Fnv1a trace_hash_;
  Result<void> failure_;
};

}  // namespace braid::sim
