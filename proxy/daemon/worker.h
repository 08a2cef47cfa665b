// A proxy: the worker that drives one replicated stack between clients' channels and its own queues of the
// NICs (paper, section 3.4). One thread calls do_work() in a loop (braidd), or the application's own thread
// does (in_process.h).
//
// A turn: commands of the control plane, frames that arrived, frames handed over by other proxies,
// descriptors of clients, frames that should leave, messages that are finished. It allocates nothing and
// takes no lock.
//
// A message goes over a sub-connection of this proxy that lives; if there is none, over another proxy that
// has one (relay.h); if nobody has, it waits. What a path owed when it died is kept until the control plane
// says that the peer has closed its end (convergence/paths.h), then it is sent again.
//
// Owned by its thread. The control plane reaches it through command(), and hears from it through
// take_event().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/local_ring.h"
#include "base/time.h"
#include "convergence/paths.h"
#include "convergence/peer_choice.h"
#include "convergence/ports.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/handoff.h"
#include "proxy/daemon/idle.h"
#include "proxy/daemon/port_entry.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/relay.h"
#include "proxy/daemon/stage_meter.h"
#include "proxy/daemon/worker_commands.h"
#include "proxy/nic/nic_queue.h"
#include "stack/stack.h"

namespace braid::proxy {

// A message on its way out, and whose it is.
struct Outgoing : stack::OutMessage {
  Channel* channel = nullptr;  // nullptr: the control plane's, or another proxy's
  ClusterId to;
  bool done = false;
  std::uint8_t lent_to = 0;        // proxy + 1 that sends it for us; 0: we do
  std::uint8_t borrowed_from = 0;  // proxy + 1 whose it is; 0: ours
  Outgoing* lent = nullptr;        // borrowed: what its lender knows it by
  std::uint32_t generation = 0;    // borrowed: the lender's; lent: the borrower's
  std::array<std::byte, convergence::kControlBytes> control{};
};

// The proxy's end of one lane of a client's endpoint: what leaves, or what arrives, or both. Made and
// destroyed by the control plane, in between used by one worker only.
class Channel {
 public:
  // `memory` is that worker's mapping of the client's. `resumes`: another worker served the lane before.
  Channel(std::uint32_t client, const ChannelGeometry& geometry, std::byte* memory, unsigned endpoint,
          unsigned lane, bool resumes = false);
  // Another worker served the lane meanwhile, and does no longer.
  void resume_sending();

  const std::uint32_t client;
  const std::uint32_t endpoint;
  const std::uint32_t lane;
  std::byte* const memory;
  bool sends = true;     // the client's descriptors are taken here
  bool leaving = false;  // no more of them: another proxy goes on when those that were taken are finished
  bool again = false;    // what is taken may have been sent before, by the proxy that served the lane
  std::uint32_t again_until = 0;  // up to this descriptor
  SendConsumer send;
  const std::byte* const data;
  const std::uint32_t data_bytes;
  ArrivalProducer arrivals;
  Doorbell* const doorbell;
  std::vector<Outgoing> outgoing;  // beside the descriptors
  std::uint32_t unfinished = 0;    // taken and not finished
  bool closed = false;             // it violated the protocol: nothing of it is read any more
  bool detaching = false;
  Instant full_since = Instant::never();  // its ring of arrivals

 private:
  std::byte* const send_ring_;
};

class Worker {
 public:
  static constexpr std::size_t kCommands = 256;
  static constexpr std::size_t kEvents = 1024;

  struct Queue {
    LinkId link;
    std::unique_ptr<NicQueue> nic;
  };

  // `counters` and `states` outlive the worker. `max_ports`: a power of two. The first queue of a link is the
  // one that it transmits on.
  Worker(const stack::StackConfig& config, std::vector<Queue> queues, ProxyCounters& counters,
         ProxyStates& states, Instant now, std::uint32_t max_ports);

  // Frames for proxy `to` go into `out`; frames for this one come out of every `in`. Before the first turn.
  void connect_handoff(unsigned to, Handoff* out) { handoff_to_[to] = out; }
  void add_handoff_source(Handoff* in) { handoff_from_.push_back(in); }
  // Messages that proxy `other` shall send for this one go into `lend`; those that this one shall send for it
  // come out of `borrow`. Before the first turn.
  void connect_relay(unsigned other, Relay* lend, Relay* borrow);

  // One turn; returns how much was done.
  int do_work(Instant now);
  // When it must be called again if nothing arrives.
  Instant next_deadline();

  // --- one unit of work at a time, for a driver that keeps the proxy's one queue itself (paper, section 2.2)
  //
  // Each does what it names and then sends everything that may leave; `meter` is as NoMeter is. No turn of
  // do_work() in between. Defined in proxy/daemon/worker_turn.h.

  // A frame that has come in by `link`.
  template <class Meter>
  void do_frame(Instant now, LinkId link, ByteView frame, Meter& meter);
  // The next descriptor of this lane. False: the lane has none here, or is not this proxy's to serve.
  template <class Meter>
  bool do_descriptor(Instant now, unsigned endpoint, unsigned lane, Meter& meter);
  // Timers, commands, what other proxies have lent and handed over, and descriptors that were left in lanes.
  template <class Meter>
  void do_rest(Instant now, Meter& meter);
  // It was given no work, and lives.
  void beat() { states_[self()].heartbeat.store(++turns_, std::memory_order_relaxed); }
  // Since the last call: it has freed room in a client's channel.
  bool take_released() { return std::exchange(released_, false); }
  // Since the last call: proxies (bit by bit) that have something of this one's to do in do_rest().
  std::uint32_t take_woken() { return std::exchange(woken_, 0); }
  // It has something to tell the control plane.
  bool has_events() const { return events_.read_available() > 0; }
  // What Dispatch::kLeastLoaded goes by: fresh, so at every turn that changed it. do_work() does it.
  void publish_load();
  // It will not be called for a while: what is owed is sent in the next turn.
  void about_to_sleep(Instant now) { stack_.flush_acks(now); }

  // The orderly end of its node, in this order. Nothing more is taken from clients; when everything that was
  // taken is acknowledged, and the same is true of the node's other proxies, peers are told, so that they
  // need not find out (SC-11). It goes on taking turns until closed().
  void stop_taking() { taking_ = false; }
  bool all_acknowledged() const;
  void close(Instant now) { stack_.close(now); }
  bool closed() const { return stack_.closed(); }

  // Copies what it counted into the shared block. do_work() does it now and then; call it before the worker
  // is left alone.
  void publish_counters();

  // A plain datagram for, or from, a port that is no proxy's; proxy 0 alone has those (UDP-2). They may be
  // lost, and are when a ring is full.
  static constexpr std::size_t kMaxDatagramBytes = 128;
  struct Datagram {
    std::uint16_t port = 0;  // ours
    stack::Endpoint peer;
    // It was to go to the peer, and a host says why it did not get there; else it has bytes.
    std::optional<stack::Unreachable> unreachable;
    std::uint32_t bytes = 0;
    std::array<std::byte, kMaxDatagramBytes> data{};
  };
  // Before the first turn.
  [[nodiscard]] bool bind(std::uint16_t port) { return stack_.bind(port); }
  // Control plane's thread.
  void send_datagram(const Datagram& datagram) { (void)datagrams_out_.push(datagram); }
  bool take_datagram(Datagram* datagram) { return datagrams_in_.pop(*datagram); }

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
  // A sub-connection, and what the control plane knows of it.
  struct Path {
    stack::SubConnection* sub = nullptr;
    convergence::PathId id;
    enum class Told : std::uint8_t { kNothing, kUp, kDead } told = Told::kNothing;
    convergence::Association association;  // of the last kUp
    // Fenced: what it owed then, until the control plane's word. It may start a new handshake before that.
    bool waits = false;
    stack::OutMessage* held = nullptr;
    bool known = true;               // else there is nobody at its other end, and it is fenced or closes
    std::uint64_t unreachables = 0;  // that were told
  };
  // With one other proxy of this node.
  struct RelayPeer {
    Relay* lend = nullptr;
    Relay* borrow = nullptr;
    std::uint32_t generation = 0;  // how often it was fenced
    std::uint32_t lent = 0;
    std::uint32_t borrowed = 0;
    std::uint32_t dropped = 0;  // borrowed of a generation that is gone, and still in flight
    bool forgetting = false;    // the control plane waits until those are none
  };
  // The sub-connections with one cluster: those that are preferred first.
  struct Route {
    std::vector<stack::SubConnection*> subs;
    std::uint32_t preferred = 0;
    convergence::PeerTurns turns;
  };
  struct Memory {
    std::uint32_t client;
    std::byte* at;
  };

  // `cluster`'s paths, and when they are given up although something is not acknowledged.
  struct Parting {
    ClusterId cluster;
    Instant until;
  };

  void start_anew(Instant now);
  void make_route(ClusterId cluster);
  bool has_anything_for(ClusterId cluster) const;
  void end_partings(Instant now);
  int send_datagrams(Instant now);
  void hand_up(const stack::Stack::Received& received);
  int obey_commands(Instant now);
  void obey(Instant now, const AttachChannel& command);
  void obey(Instant now, const DetachChannel& command);
  void obey(Instant now, const InstallPort& command);
  void obey(Instant now, const RemovePort& command);
  void obey(Instant now, const DrainPort& command);
  void obey(Instant now, const SendControl& command);
  void obey(Instant now, const ReleaseLane& command);
  void obey(Instant now, const ServeLane& command);
  void obey(Instant now, const MapClient& command);
  void obey(Instant now, const UnmapClient& command);
  void obey(Instant now, const ControlPath& command);
  void obey(Instant now, const PreferProxies& command);
  void obey(Instant now, const ForgetProxy& command);
  void obey(Instant now, const ReclaimLent& command);
  void obey(Instant now, const ConnectPath& command);
  void obey(Instant now, const DrainCluster& command);
  void obey(Instant now, const SetProxyGenerations& command);
  void close_path(Instant now, Path& path, const convergence::Paths::Command& command);
  void forget_peer(Instant now, const convergence::Paths::Command& command);
  void send_control();
  bool begin(Instant now);
  void end_unit(Instant now);
  int receive(Instant now);
  template <class Meter>
  void receive_frame(Instant now, LinkId link, ByteView frame, bool may_hand_over, Meter& meter);
  void hand_over(LinkId link, ByteView frame, const stack::Stack::Received& received, bool may_hand_over);
  void tell_all_proxies(LinkId link, ByteView frame);
  template <class Meter>
  bool deliver(ClusterId source, const stack::Record& record, ByteView bytes, Meter& meter);
  void no_such_port(ClusterId source, const stack::Record& record);
  bool deliver_control(const stack::Stack::Received& received, std::size_t messages);
  enum class Delivery : std::uint8_t {
    kDelivered,
    kNothing,  // nobody will ever take it
    kNoRoom,
  };
  Delivery deliver_message(PortEntry& port, const stack::Record& record, ByteView bytes);
  PortEntry* meant_port(ClusterId source, const stack::Record& record);
  void repeated(PortEntry& port, const stack::Record& record);
  static void mark_corrupted(PortEntry& port);
  static void forget_consumed(PortEntry& port, Position consumed);
  void publish_arrivals();
  bool takes_from(const Channel& channel) const {
    return channel.sends && !channel.closed && !channel.detaching && !channel.leaving;
  }
  template <class Meter>
  int take_descriptors(Meter& meter);
  template <class Meter>
  int take_descriptors(Channel& channel, std::uint32_t most, Meter& meter);
  // The port, if it is the endpoint's whose channel this is; else nullptr.
  PortEntry* own_port(const Channel& channel, PortId id);
  // What a port of the channel's may send.
  static bool permitted(const Channel& channel, const SendDescriptor& d);
  // A sub-connection that lives.
  stack::SubConnection* route(ClusterId cluster);
  void dispatch(Outgoing& message);
  bool may_grant(PortId port, Position position) const;
  bool lend(Outgoing& message);
  int run_relays();
  void take_borrowed(unsigned from, const RelayedMessage& item);
  void give_back(Outgoing& message, RelayReturn::Outcome outcome);
  void retry_stranded();
  // Sends a list of messages another way; they may have been delivered.
  void dispatch_again(stack::OutMessage* list, bool again);
  void fail(stack::OutMessage* list);
  void fail_stranded(ClusterId cluster);
  int transmit(Instant now);
  int finish();
  void finish(Outgoing& message);
  void release(Channel& channel);
  void answer_drains();
  void publish_events();
  void watch_sub_connections(Instant now);
  void watch(Instant now, Path& path);
  void tell_unreachable(Path& path);
  static void fence(Instant now, Path& path);
  // The control plane hears of it in this turn, or when its ring has room.
  void report(const WorkerEvent& event) { pending_events_.push_back(event); }
  // Those that were installed with that incarnation of the peer.
  void end_ports(ClusterId peer, std::uint64_t incarnation);
  void protocol_violation(Channel& channel);
  PortEntry* find(PortId id);
  Path* find(const convergence::PathId& id);
  unsigned self() const { return stack_.config().local.proxy.value(); }
  unsigned proxies() const { return stack_.config().proxies; }
  bool reaches(unsigned proxy, ClusterId cluster) const {
    return (states_[proxy].reaches.load(std::memory_order_relaxed) >> cluster.value() & 1) != 0;
  }

  stack::Stack stack_;
  std::vector<Queue> queues_;
  std::vector<NicQueue*> transmit_;  // by link
  // One burst each. Members, or each turn would clear them first.
  std::array<MutableBytes, kMaxBurst> arriving_;
  std::array<TxFrame, kMaxBurst> leaving_;
  ProxyCounters& counters_;
  ProxyStates& states_;
  std::array<Route, stack::kMaxClusters> routes_;
  std::vector<Path> paths_;                                     // beside the stack's sub-connections
  std::array<std::uint8_t, stack::kMaxClusters> peer_proxies_;  // that are active
  std::array<Handoff*, kMaxProxies> handoff_to_{};
  std::vector<Handoff*> handoff_from_;
  std::array<RelayPeer, kMaxProxies> relay_peers_{};
  std::uint32_t generation_ = 0;  // how often this proxy was fenced
  std::vector<std::unique_ptr<Outgoing>> borrow_pool_;
  std::vector<Outgoing*> borrow_free_;
  std::vector<Outgoing*> stranded_;  // nobody can send them now
  std::vector<Outgoing*> deferred_;  // credits that may not be granted at this moment
  std::vector<Memory> memories_;
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
  std::deque<SendControl> control_waiting_;  // for a free one; not on the message path
  std::vector<WorkerEvent> pending_events_;  // until the ring has room
  bool release_due_ = false;                 // something of a channel was finished
  bool released_ = false;                    // take_released()
  std::uint32_t woken_ = 0;                  // take_woken()
  bool inherited_ = false;                   // a lane that another proxy served before may hold descriptors
  bool taking_ = true;                       // from clients
  Instant last_turn_;
  Instant last_search_ = Instant::never();  // of all ports, for the one that a record was meant for
  bool turned_away_ = false;  // packets in part: what was delivered of them has come again, or will
  std::uint64_t turns_ = 0;
  std::uint64_t idle_turns_ = 0;

  std::vector<Parting> partings_;
  LocalRing<Datagram, 64> datagrams_out_;
  LocalRing<Datagram, 64> datagrams_in_;
  LocalRing<WorkerCommand, kCommands> commands_;
  LocalRing<WorkerEvent, kEvents> events_;
  std::uint64_t commanded_ = 0;  // control plane's
  std::atomic<std::uint64_t> obeyed_{0};
  std::atomic<bool> ready_{false};
  std::atomic<bool> refused_peer_{false};
};

}  // namespace braid::proxy
