// A whole cluster of SMPs in one thread and in virtual time: production nodes with their workers and control
// planes, production clients on top, a bad network between them, and programs whose every message is
// accounted for.
//
// Nothing here knows the protocol. The world hands time, frames and descriptors to the same objects that
// braidd runs, in an order that the seed decides, and compares what programs get with what was sent:
//
//   exactly once      what is delivered was sent, and once; while both ends live all of it arrives
//   in order          where a connection asks for it; else any order
//   integrity         every byte
//   credits           no sender has more in flight than the receiver's window holds
//   liveness          once faults stop, everything accepted arrives and every connection ends, in bounded
//                     time
//   clear ends        a connection ends as closed only if its peer closed or died, as lost only if its peer
//                     was
//   bounded memory    frames in flight, and the heap of the process
//   clear deaths      a node that is silent is given up within peer_death_ms, time in which its peer was not
//                     scheduled aside
//   no leak           when its clients are gone a node holds nothing of them
//
// One seed is one world: the same seed gives the same trace, event for event.
#pragma once

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/client/client.h"
#include "proxy/daemon/node.h"
#include "sim/event_queue.h"
#include "tests/sim/network.h"
#include "tests/sim/shared_memory.h"
#include "tests/sim/world_config.h"

namespace braid::sim {

struct WorldResult {
  // Empty: the world behaved. Else what was wrong, for a person.
  std::string failure;
  std::uint64_t events = 0;
  Duration virtual_time;
  std::uint64_t trace_hash = 0;  // of every event
  std::uint64_t messages = 0;    // delivered
  std::uint64_t connections = 0;
  std::uint64_t peers_lost = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t paths_fenced = 0;
  std::uint64_t proxies_fenced = 0;
  std::uint64_t programs = 0;  // of shared memory, that came to their end
  NetworkCounts network;
};

class FaultWorld final : private NetworkEvents, private Stage {
 public:
  // `trace`: prints every event on standard output.
  FaultWorld(const WorldConfig& config, bool trace);
  ~FaultWorld() override;

  WorldResult run();

 private:
  class ClientService;
  enum class Kind : std::uint8_t { kFrame, kWorker, kControl, kClient, kProgram, kFault, kPhase };
  enum class Trouble : std::uint8_t {
    kPartition,
    kPathCut,
    kPathDeath,
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
    kGap,
    kForgedArp,
    kStopNode,
    kContinueNode,
  };
  struct Event {
    Kind kind;
    std::uint8_t node;
    std::uint16_t index;  // proxy, link, client or Trouble
    std::uint32_t a;
    std::uint32_t b;
  };

  // --- machines

  struct ProxyRun {
    Instant wake = Instant::never();  // the event that counts
    Instant free_at;                  // its last turn takes so long
    Instant stalled_until;
    Instant dead_until;  // stalled, also when the network is good
    Instant last_turn;
    Instant last_turn_by_its_clock;
    Duration gaps;  // what it did not run for, where that is a scheduling gap
    bool idle = false;
    Instant held_until() const { return std::max(stalled_until, dead_until); }
  };
  struct NodeRun {
    std::shared_ptr<proxy::Node> node;  // nullptr: it is down
    unsigned life = 0;
    Duration skew;  // its clock is ahead of the world's by so much
    std::vector<ProxyRun> proxies;
    Instant control_wake = Instant::never();
    Instant control_stalled_until;
    Instant control_stopped_until;  // also when the network is good
    std::vector<Duration>
        gaps_at_stop;     // of its proxies, when stopped_ was stopped; empty: nothing is expected of it
    Instant restarted;    // when it came up last, if life > 1
    bool relays = false;  // proxies do work for each other
  };

  // --- programs

  struct Message {
    std::uint32_t number;
    std::uint32_t bytes;
    std::uint32_t granules;
    bool delivered;
    Instant sent_at;
  };
  // One direction of a flow.
  struct Stream {
    std::uint32_t planned = 0;
    std::uint32_t sent = 0;
    std::uint32_t delivered = 0;
    std::uint32_t granules = 0;  // of whole pieces that are sent and not delivered
    bool has_long = false;
    std::deque<Message> outstanding;  // sent; the first is not delivered
  };
  struct End {
    enum class State : std::uint8_t { kWaiting, kListening, kOpen, kClosed, kGone };
    State state = State::kWaiting;
    unsigned client = 0;
    unsigned endpoint = 0;
    std::uint32_t window_bytes = 0;
    proxy::Connection* connection = nullptr;
    bool close_early = false;  // as soon as it has sent everything
    bool over() const { return state == State::kClosed || state == State::kGone; }
  };
  // A connection: ends[0] connects, ends[1] listens; streams[d] is sent by ends[d].
  struct Flow {
    unsigned id = 0;
    bool ordered = true;
    proxy::ConnectionOptions options;
    Instant listen_at;
    Instant connect_at;
    End ends[2];
    Stream streams[2];
    Instant opened = Instant::never();  // not before: when connect() was called
    bool unopened = false;              // connect() failed, as it may
    bool lost = false;  // its peer was lost, as it may be: at most once is all that is promised
    bool over() const { return ends[0].over() && ends[1].over(); }
  };
  struct ClientRun {
    unsigned node = 0;
    unsigned life = 0;
    std::unique_ptr<proxy::Client> client;
    bool busy = false;    // it waits for an answer, or for room
    bool doomed = false;  // to die when it stops waiting
    bool slow = false;
    std::uint32_t receive_bytes = 0;
    Instant stopped_until;
    Instant wake = Instant::never();
    unsigned turns = 0;
    unsigned quiet = 0;          // turns one after the other that found nothing to do
    std::vector<unsigned> ends;  // flow * 2 + end
  };

  // --- NetworkEvents
  Instant now() const override { return events_.now(); }
  void arrives(Instant at, unsigned node, unsigned link, FrameRef frame) override;
  void traced(unsigned from, unsigned to, unsigned link, const char* fate, ByteView frame) override;

  // --- Stage
  unsigned clusters() const override { return static_cast<unsigned>(nodes_.size()); }
  std::unique_ptr<proxy::Service> service(unsigned cluster) override;
  void call_at(Instant at, unsigned cluster) override;
  void tell(const std::string& what) override { trace("{}", what); }

  void plan_flows();
  void plan_faults();
  void boot(unsigned node);
  proxy::NodeConfig node_config(unsigned node) const;

  // One event; false when the world has failed or nothing is left to happen.
  bool step();
  bool run_until(Instant end);
  void handle(const Event& event);
  void worker_turn(unsigned node, unsigned proxy);
  void control_turn(unsigned node);
  void wake_proxy(unsigned node, unsigned proxy, Instant at);
  void wake_proxies(unsigned node) override;
  void wake_control(unsigned node, Instant at);
  void client_turn(unsigned index);
  void wake_client(unsigned index, Instant at);
  void trouble(const Event& event);
  void again(Trouble what, double every_ms);
  void hold(unsigned node, Instant until);
  void forge_arp(unsigned node);
  void stop_node(unsigned node);
  void continue_node();
  void check_silence(unsigned node, bool given_up);

  void attach(unsigned index);
  void destroy(unsigned index);
  void take_messages(unsigned index, bool* worked);
  void on_message(unsigned client, proxy::Connection& from, ByteView message);
  void adopt(unsigned client, proxy::Connection& connection);
  void begin_flows(unsigned index, bool* worked);
  void connect(Flow& flow);
  void send_some(Flow& flow, unsigned end, bool* worked);
  bool send_one(Flow& flow, unsigned end);
  void watch(Flow& flow, unsigned end, bool* worked);
  void close(Flow& flow, unsigned end);
  void note_lost(Flow& flow, unsigned end, const char* how);
  bool may_be_lost(const Flow& flow) const;
  bool may_lose(unsigned a, unsigned b) const override;
  ByteView content(const Flow& flow, unsigned direction, const Message& message);
  void note_memory();
  bool all_over() const;
  void check_end();
  std::string unfinished() const;

  Instant node_now(unsigned node) const { return events_.now() + nodes_[node].skew; }
  bool faulty() const { return events_.now() < quiet_from_; }
  void fail(const std::string& what) override;
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args);

  const WorldConfig config_;
  const bool tracing_;
  Prng random_;
  EventQueue<Event> events_;
  std::unique_ptr<Network> network_;
  std::vector<NodeRun> nodes_;
  std::vector<ClientRun> clients_;
  std::deque<Flow> flows_;
  std::unique_ptr<SharedMemory> shared_memory_;
  std::vector<std::byte> contents_;  // what messages are made of
  std::vector<std::byte> scratch_;
  Instant faults_end_;
  unsigned stopped_ = 0;  // the node that is stopped
  Instant stopped_at_ = Instant::never();
  Instant quiet_from_;  // a path or a proxy may be dead for longer
  // When one of the two last gave up the other.
  std::array<std::array<Instant, Network::kMaxNodes>, Network::kMaxNodes> lost_at_;
  bool anybody_lost_ = false;
  unsigned depth_ = 0;  // clients that wait for something
  WorldResult result_;
  std::size_t heap_at_start_ = 0;
  std::size_t heap_most_ = 0;
};

}  // namespace braid::sim
