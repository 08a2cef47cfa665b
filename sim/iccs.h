// The inter-cluster communication system in virtual time: for every cluster its proxies, each with a
// production stack and one queue for both directions (paper, section 2.2), and the NIs and links between
// them; above that the convergence layer's ends of a connection between every two clusters.
//
//   send() ── hand-over ──► queue │ serve: window, UDP, IP │ NI ── link ──► queue │ serve: NI, IP, UDP,
//   window │ ──► Sink
//             (compute node's)      (a proxy's time)                              (a proxy's time)
//
// A proxy takes what is next in its queue, lets its stack decide at that moment, and is busy for as long as
// the stages cost that this went through (sim/cost_model.h); what leaves it does so when its stages are over.
//
// Steering is perfect: every proxy's queue of an NI has a MAC of its own. The sub-connections are up before
// anything is sent. Driven by the owner of the Events: one thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "convergence/dispatch.h"
#include "convergence/peer_choice.h"
#include "convergence/receiver.h"
#include "convergence/sender.h"
#include "settings/simulation.h"
#include "sim/cost_model.h"
#include "sim/events.h"
#include "sim/faults.h"
#include "sim/frame_pool.h"
#include "sim/link.h"
#include "sim/queue_history.h"
#include "stack/stack.h"

namespace braid::sim {

using settings::Mode;
using settings::PlantedMistake;

struct IccsConfig {
  std::uint16_t clusters = 2;
  std::uint16_t proxies = 1;  // per cluster
  std::uint16_t nis = 1;      // per cluster; proxy i is at NI i modulo their number
  Mode mode = Mode::kReal;
  Duration fixed_delay{};  // kNoContention
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
  convergence::PeerChoice peer = convergence::PeerChoice::kAligned;
  bool all_pairs = false;
  std::uint32_t window_bytes = 256u << 10;  // of each connection
  std::uint32_t mtu_bytes = 1500;
  stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;
  // `local`, `remote` and the like are filled in.
  stack::SubConnectionConfig sub_connection;
  FaultConfig faults;  // of every link
  std::uint64_t seed = 1;
  double proxy_speed = 1;  // of a compute node
  PlantedMistake mistake = PlantedMistake::kNone;
};

// A message's way, each moment as it was; of several packets the last one's. In the modes without proxies
// only `handed` and `delivered` are of meaning.
struct MessageTimes {
  Instant handed;   // the compute node has put it into a proxy's queue
  Instant served;   // the proxy has taken it
  Instant left;     // it has left the proxy: link and network are before it
  Instant on_link;  // the link of its NI has begun to carry it
  Instant arrived;  // in the queue of the other proxy
  Instant taken;    // by it
  Instant delivered;
};

struct MessageReport {
  std::uint64_t number = 0;  // of the run, from 1, in the order in which they were sent
  ClusterId from, to;
  unsigned lane = 0;   // the compute node that sent it
  unsigned proxy = 0;  // its first
  unsigned peer_proxy = 0;
  std::uint32_t bytes = 0;
  std::uint32_t ahead = 0;       // in the first proxy's queue, with what was in service, when it came there
  std::uint32_t peer_ahead = 0;  // the same of the other proxy's
  std::uint64_t behind =
      0;  // the number of the message right before it in the first queue; 0: none, or a frame
  MessageTimes times;
};

// What a proxy does with its time; each with what its bytes cost.
enum class Stage : std::uint8_t {
  kWindowSend,
  kAckSend,
  kUdpSend,
  kIpSend,
  kNiSend,
  kNiReceive,
  kIpReceive,
  kUdpReceive,
  kWindowReceive,
  kAckReceive,
  kDeliver,
  kTimer,
};
// As in a model's file, in the order of Stage.
inline constexpr std::array<const char*, 12> kStageNames = {
    "window_send", "ack_send",    "udp_send",       "ip_send",     "ni_send", "ni_receive",
    "ip_receive",  "udp_receive", "window_receive", "ack_receive", "deliver", "timer"};
using StageCycles = std::array<double, kStageNames.size()>;

// What one proxy did while somebody measured.
struct ProxyFigures {
  Duration busy{};
  QueueHistory queue;          // with the one in service; of the time that was measured
  std::uint64_t messages = 0;  // from compute nodes
  std::uint64_t frames_received = 0;
  std::uint64_t frames_sent = 0;
  std::uint64_t timers = 0;
  StageCycles stages{};  // what `busy` consists of, in cycles of a compute node
};

// What the link out of one NI did while somebody measured.
struct LinkFigures {
  std::uint64_t frames = 0;  // that it carried
  std::uint64_t bytes = 0;   // of these
  Duration busy{};           // sending them
  Duration waited{};         // sum over them, until the link was free
};

class Iccs {
 public:
  class Sink {
   public:
    // What became of a message at its destination: until when a compute node was busy with it, and which. It
    // is told of one when the least that the handler takes (CostModel::handler) has passed since its
    // delivery.
    struct Handled {
      Instant until;
      unsigned lane = 0;
    };
    virtual Handled on_message(Instant now, ClusterId at, ClusterId from, ByteView message) = 0;
    // Somebody who had to wait for room between two clusters may try again.
    virtual void on_room(Instant now, ClusterId at, ClusterId to) = 0;
    // A message has been delivered. Only messages, no credits.
    virtual void on_delivered(const MessageReport& report) = 0;

   protected:
    ~Sink() = default;
  };

  Iccs(const IccsConfig& config, const CostModel& model, Events& events, Sink& sink);
  ~Iccs();
  Iccs(const Iccs&) = delete;
  Iccs& operator=(const Iccs&) = delete;

  // Lets the stacks greet each other; nothing else happens meanwhile. Once, first.
  void establish();

  // `to` has room for a message of so many bytes; else on_room() tells when.
  bool may_send(ClusterId from, ClusterId to, std::uint32_t bytes);
  // From compute node `lane` of `from`, which may_send(), at `at`: it pays for the hand-over before that. The
  // bytes are copied.
  void send(Instant at, ClusterId from, unsigned lane, ClusterId to, ByteView message);

  void on_event(const Event& event);

  // The least time from an event of this system to a message that Sink hears of because of it, and from
  // send().
  Duration least_to_deliver() const;
  Duration least_latency() const;
  // Messages that were sent and not delivered.
  std::uint64_t under_way() const { return under_way_; }
  // Messages and credits that take room here: until the other side has acknowledged them, too.
  std::size_t held() const;

  // Figures count between these two, any number of times.
  void start_measuring();
  // What was measured is the time until `end`, which may lie ahead of now: nothing that happens from now on
  // counts, nor what the queues hold.
  void stop_measuring(Instant end);
  const ProxyFigures& figures(ClusterId cluster, unsigned proxy) const;
  const LinkFigures& link_figures(ClusterId cluster, unsigned ni) const;
  std::uint64_t retransmissions() const;
  std::uint64_t frames_lost() const { return frames_lost_; }

 private:
  struct Outgoing;
  struct Frame;
  struct Proxy;
  struct Connection;
  struct Arrival;
  struct Ni;
  // Of one frame's way through a proxy, in cycles of the proxy.
  struct Service {
    double cycles = 0;
    StageCycles stages{};
    void add(Stage stage, double of_it) {
      cycles += of_it;
      stages[static_cast<std::size_t>(stage)] += of_it;
    }
  };

  Proxy& proxy(unsigned cluster, unsigned index) { return *proxies_[cluster * config_.proxies + index]; }
  const Proxy& proxy(unsigned cluster, unsigned index) const {
    return *proxies_[cluster * config_.proxies + index];
  }
  Connection& connection(ClusterId from, ClusterId to) {
    return *connections_[from.value() * config_.clusters + to.value()];
  }
  stack::StackConfig stack_config(unsigned cluster, unsigned index) const;
  // From a delivery until the compute node's handler does something about it.
  Duration notice() const { return model_.time(model_.handler); }
  Duration proxy_time(double cycles) const { return model_.time(cycles / config_.proxy_speed); }

  Outgoing& new_message();
  std::uint32_t new_arrival();
  std::uint32_t new_frame();
  void submit(Instant at, ClusterId from, unsigned lane, Outgoing& message);
  void enqueue(Proxy& p, EventKind kind, std::uint32_t item);
  void serve(Proxy& p);
  void arm_timer(Proxy& p);
  void serve_message(Proxy& p, Outgoing& message);
  void serve_frame(Proxy& p, std::uint32_t frame, Instant& until);
  void transmit(Proxy& p, Instant& until);
  void frame_leaves(Proxy& p, std::uint32_t frame);
  bool take_records(Proxy& p, const stack::Stack::Received& received, Instant at, const Frame& frame);
  void deliver(std::uint32_t item);
  void take_back(Proxy& p);
  Service send_service(ByteView frame) const;
  Service receive_service(ByteView frame, const stack::Stack::Received& received) const;
  // How long it takes, which is counted.
  Duration spend(Proxy& p, const Service& service);
  void count_queue(Proxy& p);
  double checksum_byte() const {
    return config_.mistake == PlantedMistake::kForgetsChecksums ? 0 : model_.checksum_byte;
  }

  const IccsConfig config_;
  const CostModel model_;
  Events& events_;
  Sink& sink_;
  std::vector<std::unique_ptr<Proxy>> proxies_;           // by cluster, then index
  std::vector<std::unique_ptr<Connection>> connections_;  // by sender, then receiver
  std::vector<Ni> nis_;
  std::deque<Outgoing> messages_;  // by number; in use until the sub-connection gives them back
  std::vector<std::uint32_t> free_messages_;
  FramePool frames_;
  std::vector<Frame> frame_facts_;  // beside the pool's buffers
  std::deque<Arrival> arrivals_;
  std::vector<std::uint32_t> free_arrivals_;
  std::vector<std::byte> room_;
  std::uint64_t under_way_ = 0;
  std::uint64_t sent_ = 0;  // messages
  std::uint64_t frames_lost_ = 0;
  bool measuring_ = false;
};

}  // namespace braid::sim
