// A proxy: the worker that drives one replicated stack between clients' channels and its own queues of the
// NICs (paper, section 3.4). One thread calls do_work() in a loop (braidd), or the application's own thread
// does (in_process.h).
//
// A turn: commands of the control plane, frames that arrived, frames handed over by other proxies,
// descriptors of clients, frames that should leave, messages that are finished. It allocates nothing and
// takes no lock.
//
// It carries what happens from one of its parts to the next; each owns a state and decides:
//
//   LinkQueues       its own queues of the NICs
//   Handoffs         frames that other proxies of the node received for this one, and the other way round
//   PlainDatagrams   datagrams that the control plane sends and receives
//   WorkerMailbox    commands and events, which may have to wait for room
//   ServedChannels   channels, whose descriptors it takes, and what is awaited at them
//   PortTable        connections' ends, and what arrives for them
//   ProtocolSwitch   what records of each protocol are for, and what is counted for it
//   ControlOutbox    control messages that it sends
//   DatagramOutbox   datagrams that it sends; DatagramRings: those from and for the control plane
//   PathMonitor      sub-connections: which live, what the control plane decides about them; Routes over them
//   Relays           messages lent to other proxies of the node, or borrowed from them
//   WaitingMessages  messages that cannot be sent at the moment
//
// A message goes over a sub-connection of this proxy that lives; if there is none, over another proxy that
// has one; if none has, it waits. The unacknowledged messages of a dead path are held until the peer has closed
// its end (convergence/paths.h); then they are sent again.
//
// Owned by its thread. The control plane reaches it through command() and take_event().
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/wake_word.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/control_outbox.h"
#include "proxy/daemon/datagram_outbox.h"
#include "proxy/daemon/datagram_rings.h"
#include "proxy/daemon/handoffs.h"
#include "proxy/daemon/link_queues.h"
#include "proxy/daemon/path_monitor.h"
#include "proxy/daemon/plain_datagrams.h"
#include "proxy/daemon/port_table.h"
#include "proxy/daemon/protocol_switch.h"
#include "proxy/daemon/protocols.h"
#include "proxy/daemon/proxy_channel.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/relays.h"
#include "proxy/daemon/served_channels.h"
#include "proxy/daemon/stage_meter.h"
#include "proxy/daemon/waiting_messages.h"
#include "proxy/daemon/worker_commands.h"
#include "proxy/daemon/worker_mailbox.h"
#include "stack/stack.h"

namespace braid::proxy {

class Worker {
 public:
  // `counters` and `states` outlive the worker. `max_ports`: a power of two. The first queue of a link is the
  // one that it transmits on.
  Worker(const stack::StackConfig& config, std::vector<LinkQueue> queues, ProxyCounters& counters,
         ProxyStates& states, Instant now, std::uint32_t max_ports, const Protocols& protocols);

  // Frames for proxy `to` go into `out`; frames for this one come out of every `in`. Before the first turn.
  void connect_handoff(unsigned to, Handoff* out) { handoffs_.connect(to, out); }
  void add_handoff_source(Handoff* in) { handoffs_.add_source(in); }
  // Messages that proxy `other` shall send for this one go into `lend`; those that this one shall send for it
  // come out of `borrow`. Before the first turn.
  void connect_relay(unsigned other, Relay* lend, Relay* borrow) { relays_.connect(other, lend, borrow); }

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
  // It had no work, and its thread runs.
  void beat() { own_state_.heartbeat.store(++turns_, std::memory_order_relaxed); }
  // Since the last call: it has freed room in a client's channel.
  bool take_released() { return channels_.take_released(); }
  // Proxies, one bit each, that this one has given work for do_rest() since the last call.
  std::uint32_t take_woken() { return handoffs_.take_woken() | relays_.take_woken(); }
  // It has something to tell the control plane.
  bool has_events() const { return mailbox_.has_events(); }
  // Publishes the load that Dispatch::kLeastLoaded compares: at every turn that changed it, by do_work().
  void publish_load();

  // --- sleeping between turns (proxy/daemon/proxy_sleep.h): the driver's thread sleeps, the worker says on what

  // It will not be called for a while: waiting acknowledgements are sent in the next turn. What others know of it
  // is brought up to date.
  void about_to_sleep(Instant now);
  // Since the last call: it has obeyed commands, or has told the control plane something.
  bool take_told() { return std::exchange(told_, false); }
  // Messages were moved, not only packets of its own, since the last call.
  bool take_served() { return std::exchange(served_, false); }
  // After a turn without work. Whatever there will be to do before next_deadline(), somebody rings one of its wake
  // words for it. False: some of it shows only by polling.
  bool can_be_woken();
  // The words: its own, then those of links, then those of channels. `polled_queues`: queues that have none.
  struct WakeWords {
    std::vector<WakeWord*> words;
    std::size_t links = 0;  // how many of them
    unsigned polled_queues = 0;
  };
  void collect_wake_words(WakeWords& into);
  // Around a sleep on these words (base/wake_word.h).
  void announce_sleep();
  void withdraw_sleep();
  // Its next turn comes at `then` at the latest, unless the scheduler holds it up.
  void sleeps_until(Instant then) { last_turn_ = then; }
  // Any thread that has given it something to do, by another way than command() or send_datagram().
  void wake() { wake_word_.ring_if_asleep(); }

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

  // Plain datagrams, which proxy 0 alone has. Ports are bound before the first turn.
  [[nodiscard]] bool bind(std::uint16_t port) { return stack_.bind(port); }
  // Control plane's thread.
  void send_datagram(const PlainDatagram& datagram) {
    datagrams_.send(datagram);
    wake();
  }
  bool take_datagram(PlainDatagram* datagram) { return datagrams_.take_arrived(datagram); }

  // Datagrams of the transport's protocols. Control plane's thread. What was put there leaves at the next command
  // SendDatagrams.
  DatagramRings& datagram_rings() { return datagram_rings_; }

  // Control plane's thread. False: full, try again.
  [[nodiscard]] bool command(const WorkerCommand& command) {
    const bool pushed = mailbox_.push_command(command);
    wake();
    return pushed;
  }
  // Every command so far has taken effect.
  bool caught_up() const { return mailbox_.caught_up(); }
  [[nodiscard]] bool take_event(WorkerEvent* event) { return mailbox_.take_event(event); }
  // Every sub-connection is up.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  // A peer was refused because its configuration differs.
  bool refused_peer() const { return refused_peer_.load(std::memory_order_relaxed); }
  // The version of the transport of packets that were refused because it is not this node's; 0: there were none.
  std::uint8_t other_version() const { return other_version_.load(std::memory_order_relaxed); }

 private:
  // A turn, or a unit of work, begins. False: this proxy was fenced, and may do nothing yet.
  bool begin(Instant now) {
    if (own_state_.fenced.load(std::memory_order_acquire) && !resume(now)) [[unlikely]]
      return false;
    beat();
    stack_.begin_turn(now);
    return true;
  }
  // It was fenced. True: it has dropped everything that it had, and goes on.
  [[gnu::noinline]] bool resume(Instant now);
  void end_unit(Instant now);
  void start_anew(Instant now);

  // --- the control plane
  int obey_commands(Instant now);
  void obey(const AttachChannel& command) { channels_.attach(*command.channel); }
  void obey(const DetachChannel& command) { channels_.detach(*command.channel); }
  void obey(const ReleaseLane& command) { channels_.release_lane(*command.channel); }
  void obey(const ServeLane& command) { channels_.serve_lane(*command.channel); }
  void obey(const InstallPort& command) { ports_.install(command.port); }
  void obey(const RemovePort& command) { ports_.remove(command.port); }
  void obey(const DrainPort& command);
  void obey(const SendControl& command);
  [[gnu::cold]] void obey(const SendDatagrams& command);
  void obey(const MapClient& command) { relays_.map(command.client, command.memory); }
  void obey(const UnmapClient& command) { relays_.unmap(command.client); }
  void obey(const ForgetProxy& command) { relays_.forget(command.proxy.value()); }
  void obey(const ReclaimLent& command);
  void obey(const SetProxyGenerations& command) { relays_.set_generations(command.generations); }
  void obey(const PreferProxies& command) { paths_.routes().set_active(command.cluster, command.active); }
  // Those about paths.
  template <class Command>
  requires requires(PathMonitor& paths, Instant now, const Command& command) { paths.obey(now, command); }
  void obey(Instant now, const Command& command) {
    paths_.obey(now, command);
    carry_out_paths();
  }
  // Messages that are queued for it are not sent.
  void obey(Instant now, const DrainCluster& command) {
    control_.drop(command.cluster);
    paths_.obey(now, command);
    carry_out_paths();
  }
  void send_control();
  void answer_awaited();
  int send_datagrams(Instant now);
  void protocol_violation(Channel& channel);

  // --- arrivals
  int receive(Instant now);
  template <class Meter>
  void receive_frame(Instant now, LinkId link, ByteView frame, bool may_hand_over, Meter& meter);
  void hand_over(LinkId link, ByteView frame, const stack::Stack::Received& received, bool may_hand_over);
  template <class Meter>
  bool deliver(Instant now, ClusterId source, const stack::Record& record, ByteView bytes,
               const stack::RecordReader& reader, Meter& meter);
  [[gnu::noinline, gnu::cold]] bool deliver_unconnected(Instant now, const stack::Stack::Received& received);
  [[gnu::cold]] void deliver_control(const stack::Stack::Received& received, ByteView bytes);
  [[gnu::cold]] void deliver_datagram(Instant now, ClusterId source, const stack::Record& record,
                                      ByteView bytes);
  [[gnu::cold]] void hand_to_protocol(Instant now, DatagramProtocol& protocol, const Datagram& datagram);

  // --- departures
  template <class Meter>
  int take_descriptors(Meter& meter);
  template <class Meter>
  [[gnu::noinline]] int take_descriptors(Channel& channel, std::uint32_t most, Meter& meter);
  void dispatch(Outgoing& message);
  void dispatch_list(stack::OutMessage* list, bool maybe_duplicates);
  bool send_datagram(const Datagram& datagram);
  void refuse_datagram(const Datagram& datagram, DatagramReturn reason);
  void report_returned(Datagram datagram, DatagramReturn reason);
  int run_relays();
  // The stack wants to transmit.
  int transmit(Instant now);
  void transmit_all(Instant now);
  // finish() has something to do.
  bool has_finished() {
    return stack_.agenda().any_finished() || waiting_.any_deferred() || channels_.release_due();
  }
  int finish();
  void finish(Outgoing& message);
  void fail(Outgoing& message);
  void retry_deferred();

  // --- paths
  void watch_paths(Instant now);
  // Carries out what the paths that were looked at have led to.
  void take_changes();
  void publish_own_counters();  // all but those that the kernel has to be asked for
  void end_drains(Instant now);
  void carry_out_paths();
  void carry_out(const WorkerEvent& event) { mailbox_.report(event); }
  void carry_out(const PathMonitor::EndIncarnation& decision) {
    ports_.end_incarnation(decision.peer, decision.incarnation);
  }
  void carry_out(const PathMonitor::SendAgain& decision) {
    dispatch_list(decision.messages, decision.maybe_duplicates);
  }
  void carry_out(const PathMonitor::Fail& decision);
  void carry_out(const PathMonitor::FailWaiting& decision);

  unsigned self() const { return stack_.config().local.proxy.value(); }
  unsigned proxies() const { return stack_.config().proxies; }

  stack::Stack stack_;
  LinkQueues queues_;
  ProxyCounters& counters_;
  ProxyStates& states_;
  ProxyState& own_state_;
  Handoffs handoffs_;
  PathMonitor paths_;
  Relays relays_;
  WaitingMessages waiting_;
  ServedChannels channels_;
  ControlOutbox control_;
  ProtocolSwitch protocols_;  // before the ports, which point to it
  PortTable ports_;
  bool taking_ = true;   // from clients
  bool served_ = false;  // messages were moved
  bool told_ = false;    // the control plane something
  Instant last_turn_;    // or, during a sleep, when that ends
  Instant watch_due_;
  std::uint64_t turns_ = 0;
  std::uint64_t idle_turns_ = 0;

  PlainDatagrams datagrams_;
  DatagramOutbox datagram_outbox_;
  DatagramRings datagram_rings_;
  WorkerMailbox mailbox_;
  std::atomic<bool> ready_{false};
  std::atomic<bool> refused_peer_{false};
  std::atomic<std::uint8_t> other_version_{0};
  // On a line that is written only around a sleep: other proxies look at it when they hand something over.
  alignas(kCacheLine) WakeWord wake_word_;
};

}  // namespace braid::proxy
