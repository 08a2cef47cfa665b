// A proxy: the worker that drives one replicated stack between clients' channels and its own queues of the
// NICs (paper, section 3.4). One thread calls do_work() in a loop (braidd), or the application's own thread
// does (in_process.h).
//
// A turn: commands of the control plane, frames that arrived, frames handed over by other proxies,
// descriptors of clients, frames that should leave, messages that are finished. It allocates nothing and
// takes no lock.
//
// Owned by its thread. The control plane reaches it through command(), and hears from it through
// take_event().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/local_ring.h"
#include "base/time.h"
#include "convergence/ports.h"
#include "proxy/channel/channel.h"
#include "proxy/daemon/handoff.h"
#include "proxy/daemon/idle.h"
#include "proxy/daemon/node_counters.h"
#include "proxy/nic/nic_queue.h"
#include "stack/stack.h"

namespace braid::proxy {

class Channel;

// A message on its way out, and whose it is.
struct Outgoing : stack::OutMessage {
  Channel* channel = nullptr;  // nullptr: the control plane's
  std::uint32_t index = 0;     // of its descriptor
  bool done = false;
  std::array<std::byte, convergence::kControlBytes> control{};
};

// The proxy's end of one client endpoint's channel. Made and destroyed by the control plane, in between used
// by the worker only.
class Channel {
 public:
  Channel(std::uint32_t client, const ChannelGeometry& geometry, std::byte* memory, unsigned endpoint,
          unsigned proxy);

  const std::uint32_t client;
  SendConsumer send;
  const std::byte* const data;
  const std::uint32_t data_bytes;
  ArrivalProducer arrivals;
  Doorbell* const doorbell;
  std::vector<Outgoing> outgoing;  // beside the descriptors
  std::uint32_t unfinished = 0;    // taken and not finished
  bool closed = false;             // it cheated: nothing of it is read any more
  bool detaching = false;
  Instant full_since = Instant::never();  // its ring of arrivals
};

// A connection end as a proxy sees it.
struct PortEntry {
  PortId id;  // 0: none
  ClusterId peer;
  PortId peer_port;
  Channel* channel = nullptr;
  std::byte* window = nullptr;
  std::uint32_t window_granules = 0;
  std::uint32_t peer_window_granules = 0;
  PortCell* cell = nullptr;
  // A bit for every granule of the window: this proxy has reported an arrival that begins there, and the
  // client has not said yet that it consumed it. So whatever a peer's client sends again and again, a ring of
  // arrivals has an entry for all that can be in it. `reported` belongs to the control plane, one for each
  // proxy; `forgotten` is what the bits have been cleared up to.
  std::uint64_t* reported = nullptr;
  Position forgotten;
  bool peer_lost = false;  // its peer was lost since it was installed: it is dead
};

// Words of PortEntry::reported.
constexpr std::size_t reported_words(std::uint32_t window_granules) {
  return (window_granules + 63) / 64;
}

struct WorkerCommand {
  enum class Kind : std::uint8_t {
    kAttach,       // channel
    kDetach,       // channel: its client is gone; answered by kDetached when nothing of it is under way
    kInstallPort,  // port
    kRemovePort,   // port.id
    kDrainPort,    // port.id: answered by kDrained when everything handed over so far has been sent
    kSendControl,  // control, to `cluster`
  };
  Kind kind = Kind::kAttach;
  Channel* channel = nullptr;
  PortEntry port;
  ClusterId cluster;
  convergence::ControlMessage control;
};

struct WorkerEvent {
  enum class Kind : std::uint8_t { kControl, kDrained, kDetached, kClientCheats, kPeerLost };
  Kind kind = Kind::kControl;
  ClusterId cluster;
  convergence::ControlMessage control;
  PortId port;
  Channel* channel = nullptr;
};

class Worker {
 public:
  static constexpr std::uint32_t kMaxPorts = 8192;
  static constexpr std::size_t kCommands = 256;
  static constexpr std::size_t kEvents = 1024;

  struct Queue {
    LinkId link;
    std::unique_ptr<NicQueue> nic;
  };

  // `counters` outlives the worker. The first queue of a link is the one that it transmits on.
  Worker(const stack::StackConfig& config, std::vector<Queue> queues, ProxyCounters& counters, Instant now);

  // Frames for proxy `to` go into `out`; frames for this one come out of every `in`. Before the first turn.
  void connect_handoff(unsigned to, Handoff* out) { handoff_to_[to] = out; }
  void add_handoff_source(Handoff* in) { handoff_from_.push_back(in); }

  // One turn; returns how much was done.
  int do_work(Instant now);
  // When it must be called again if nothing arrives.
  Instant next_deadline() const { return stack_.next_deadline(); }
  // It will not be called for a while: what is owed is sent in the next turn.
  void about_to_sleep(Instant now) { stack_.hurry_acknowledgements(now); }

  // Copies what it counted into the shared block. do_work() does it now and then; call it before the worker
  // is left alone.
  void publish_counters();

  // Control plane's thread. False: full, try again.
  bool command(const WorkerCommand& command) { return commands_.push(command) && (++commanded_, true); }
  // Every command so far has taken effect.
  bool caught_up() const { return obeyed_.load(std::memory_order_acquire) == commanded_; }
  bool take_event(WorkerEvent* event) { return events_.pop(*event); }
  // Every sub-connection is up.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // A peer was refused because its configuration differs.
  bool refused_peer() const { return refused_peer_.load(std::memory_order_relaxed); }

 private:
  int obey_commands();
  void obey(const WorkerCommand& command);
  void send_control();
  int receive(Instant now);
  void receive_frame(Instant now, LinkId link, ByteView frame, bool may_hand_over);
  bool deliver(ClusterId source, const stack::Record& record, ByteView bytes);
  bool deliver_control(const stack::Stack::Received& received, std::size_t messages);
  bool deliver_message(PortEntry& port, const stack::Record& record, ByteView bytes);
  static void forget_consumed(PortEntry& port, Position consumed);
  void publish_arrivals();
  int take_descriptors();
  int take_descriptors(Channel& channel);
  // The descriptor's port if the client may send it, else nullptr.
  PortEntry* permitted(const Channel& channel, const SendDescriptor& d);
  stack::SubConnection* route(ClusterId cluster);
  int transmit(Instant now);
  int finish();
  void finish(Outgoing& message);
  void release(Channel& channel);
  void settle();
  void watch_sub_connections();
  void client_cheats(Channel& channel);
  PortEntry* find(PortId id);

  stack::Stack stack_;
  std::vector<Queue> queues_;
  std::vector<NicQueue*> transmit_;  // by link
  ProxyCounters& counters_;
  std::array<Handoff*, kMaxProxies> handoff_to_{};
  std::vector<Handoff*> handoff_from_;
  std::vector<Channel*> channels_;
  std::vector<PortEntry> ports_;
  struct Drain {
    PortId port;
    Channel* channel;
    std::uint32_t mark;  // the channel's descriptor before which all must be finished
  };
  std::vector<Drain> drains_;
  std::vector<Channel*> rung_;  // channels with arrivals in this turn
  std::vector<Outgoing> control_pool_;
  std::vector<Outgoing*> control_free_;
  std::deque<WorkerCommand> control_waiting_;  // for a free one; not on the message path
  std::vector<WorkerEvent> owed_;              // events that found the ring full
  std::uint32_t next_route_ = 0;
  Instant last_turn_;
  std::uint64_t peers_lost_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t idle_turns_ = 0;

  LocalRing<WorkerCommand, kCommands> commands_;
  LocalRing<WorkerEvent, kEvents> events_;
  std::uint64_t commanded_ = 0;  // control plane's
  std::atomic<std::uint64_t> obeyed_{0};
  std::atomic<bool> ready_{false};
  std::atomic<bool> refused_peer_{false};
};

}  // namespace braid::proxy
