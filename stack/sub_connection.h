// A reliable connection between two proxies' stacks, shared by every parallel connection that is dispatched
// to it: the handshake with an epoch per incarnation, the sliding window in both directions, retransmission,
// acknowledgement, keep-alive, and the judgement that a path or a peer is dead.
//
// Records are handed up as packets arrive, in whatever order: what needs an order has positions of its own. A
// packet is acknowledged only when the driver says that all of its records lie where they belong.
//
//   state machine   sub_connection_state.h
//   Handshake       who the two ends are: epochs, hellos, the challenge of an unknown peer
//   MessageQueue    messages, from send() until their driver has them back; cut into packets
//   LossRecovery    packets in flight, what is lost of them, when the next may leave
//   PeerWindow      how much the peer takes
//   Acknowledger    which packets have arrived, and when the peer is told
//   Liveness        whether path and peer are alive
//   PeerAddress     where packets go, if that may change
//   OrderlyEnd      the closing of one end, of which the other is told
//
// These decide; this class carries packets and decisions from one to the other, and owns what concerns all of
// them: the state.
//
// A fenced end drops everything and sends nothing: what its driver took back goes other ways, so nothing that
// is still in flight here may count any more (SC-10). Where no other way is left to tell a peer of it, the
// handshake of the reopened end does (SC-13).
//
// Pure: time, packets and messages come in; poll() writes what should leave now. Owned by the stack's worker.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "stack/acknowledger.h"
#include "stack/agenda.h"
#include "stack/handshake.h"
#include "stack/liveness.h"
#include "stack/loss_recovery.h"
#include "stack/message_queue.h"
#include "stack/orderly_end.h"
#include "stack/packet_writer.h"
#include "stack/peer_address.h"
#include "stack/peer_window.h"
#include "stack/secure/key_exchange.h"
#include "stack/secure/packet_cipher.h"
#include "stack/sub_connection_config.h"
#include "stack/sub_connection_state.h"
#include "stack/wire/segment.h"

namespace braid::stack {

struct SubConnectionStats {
  std::uint64_t packets_sent = 0;  // all kinds
  std::uint64_t retransmissions = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t fast_retransmissions = 0;
  std::uint64_t tail_probes = 0;
  std::uint64_t window_probes = 0;
  // Retransmissions of packets that had arrived, by what caused them. A lost acknowledgement hides one.
  std::uint64_t spurious_timeouts = 0;
  std::uint64_t spurious_fast_retransmissions = 0;  // tail probes may have told of them
  std::uint64_t spurious_tail_probes = 0;           // whose answer told that nothing was lost
  std::uint64_t acknowledgements_sent = 0;          // packets that carried nothing else
  std::uint64_t messages_sent = 0;                  // given to send()
  std::uint64_t message_bytes_sent = 0;
  std::uint64_t peers_lost = 0;
  std::uint64_t renewals = 0;  // the same peer started a new handshake (SC-13)
  std::uint64_t path_deaths = 0;
  // Handshakes with a peer, by what becomes of the packets after them.
  std::uint64_t handshakes_aes_gcm = 0;
  std::uint64_t handshakes_chacha20 = 0;
  std::uint64_t handshakes_plain = 0;
  // Of the peer's address (SE-8).
  std::uint64_t address_moves = 0;
  std::uint64_t address_challenges = 0;  // sent
  std::uint64_t address_validations_failed = 0;
};

// The result of an arriving packet.
enum class PacketFate : std::uint8_t {
  kRecords,  // new records: deliver them all, then call delivered()
  kNothing,  // acknowledgement, handshake or probe: dealt with
  kDuplicate,
  kUnknownEpoch,  // of another incarnation of either side: not looked into
  kRefused,       // malformed, an impossible acknowledgement, or a peer with another shared_hash
  // With a secret, or from a sender with one (SE-2, SE-5, SE-6). Nothing has changed.
  kRefusedSender,  // refusal() says why
  kForged,         // of the connection's epochs, but not sealed with its keys
  kReplayed,       // it was opened before
};

class SubConnection {
 public:
  using State = SubConnectionState;

  // `epoch` is random and never used before by this pair. `entry`: where its stack looks for what it wants.
  SubConnection(const SubConnectionConfig& config, std::uint64_t epoch, Instant now, Agenda::Entry entry);
  SubConnection(const SubConnection&) = delete;
  SubConnection& operator=(const SubConnection&) = delete;

  // --- sending

  // Queues a message. It is sent when the peer is there and the window allows; take_finished() gives it back.
  void send(OutMessage& message);
  // Could poll() have something to write at `now`? Cheap.
  bool wants_to_send(Instant now) const {
    return (established() && ((messages_.has_unsent() && may_send(now)) || recovery_.lost_any())) ||
           entry_.due() <= now;
  }
  // Writes the next packet that should leave into `room` (a UDP payload of at least max_payload_bytes) and
  // returns its length, 0 when there is none; `sum` is the checksum of what was written. Call until 0. It goes to the
  // peer, unless elsewhere() says otherwise.
  std::size_t poll(Instant now, MutableBytes room, std::uint64_t* sum);
  // Not nullptr: what poll() just wrote goes there, and nothing else does.
  const Endpoint* elsewhere() const { return elsewhere_; }
  // The messages that were acknowledged, or failed, since the last call, linked by `next`.
  OutMessage* take_finished() { return messages_.take_finished(); }
  // Ends this incarnation: every packet of its epochs is dropped, nothing is sent, no peer is judged, until
  // reopen(). Returns every message that is not wholly acknowledged, oldest first, linked by `next` and as it
  // was before send(): the driver's again, to send another way. Those that are come from take_finished().
  OutMessage* fence(Instant now);
  // The orderly end: when every message is acknowledged the peer is told that this incarnation ends, so that
  // no timeout is needed. Nothing more is given to send(). state() is kClosed when that is done, or when
  // no peer has to be told.
  void close(Instant now);
  // Takes back what was queued before the peer was there, as fence() does; nothing else changes. state() is
  // kHandshake.
  OutMessage* recall();
  // Starts a handshake as `incarnation` of its node, from `epoch` (random and never used before; 0: one of its
  // own). state() is kFenced or kClosed.
  void reopen(Instant now, std::uint64_t incarnation, std::uint64_t epoch = 0);

  // Sets the names of the two ends and the hash of their shared settings, from the next incarnation on.
  // Requires that state() is kFenced or kClosed.
  void rename(StackId local, StackId remote, std::uint64_t shared_hash);
  // From now on the peer's address may change (SE-8): it is `home` at first, which `link` leads to. Of no effect without
  // a secret.
  void let_move(const Endpoint& home, LinkId link);

  // The first handshake begins, unless it has begun (SC-14). Of no effect in later ones.
  void greet(Instant when);
  // It waits for its first use.
  bool asleep() const { return state_ == State::kHandshake && handshake_.asleep(); }

  // --- receiving

  // A packet whose addresses name this sub-connection. `rest` is what follows the packet header, in the same
  // memory. It may have waited for `unseen`, in which the driver did not look: that is not the network's delay.
  // `from`: needed only where the peer may move.
  PacketFate on_packet(Instant now, const PacketHeader& header, ByteView rest, Duration unseen = Duration(),
                       const Origin& from = {});
  // Such a hello costs a keyed hash before it is believed (SE-2). `bytes`: behind its header.
  bool hashes_hello(std::size_t bytes) const {
    return seal_ != nullptr && state_ != State::kFenced && state_ != State::kClosed &&
           Handshake::is_sealed_hello(bytes);
  }
  // Its sender knows an epoch of ours.
  bool is_named_by(const PacketHeader& hello) const { return handshake_.names_us(hello); }
  // True once after the peer's address has changed: it is peer_address() now.
  bool take_moved() {
    if (!moved_) return false;
    moved_ = false;
    return true;
  }
  // Only after let_move(), and with a secret.
  const Endpoint& peer_address() const { return seal_->address.current(); }
  // The records of the packet that on_packet() just found to have some; valid until its next call. `rest` as
  // there.
  ByteView records(ByteView rest) const { return seal_ == nullptr ? rest : seal_->records; }
  // The driver put every record of the packet where it belongs (SC-4).
  void delivered(Instant now, const PacketHeader& header);

  // How much the driver takes from now on, beyond what it has acknowledged: 0 packets or bytes stop the peer.
  void set_receive_window(Instant now, std::uint32_t packets, std::uint32_t bytes);

  // --- time

  // Timeouts and judgements; call when next_deadline() has come.
  void on_timer(Instant now);
  Instant next_deadline() const { return entry_.due(); }
  // This end did not run for `gap` until now: that it received nothing then says nothing about the peer.
  void on_scheduling_gap(Instant now, Duration gap);
  // Acknowledge now what would be acknowledged later: the worker is about to sleep.
  void flush_ack(Instant now);

  // --- asking

  State state() const { return state_; }
  bool established() const { return state_ == State::kEstablished; }
  // send() may be called: it is neither fenced nor closed, nor shall it be closed.
  bool may_take() const { return !end_.closing() && state_ != State::kFenced && state_ != State::kClosed; }
  // The peer sent a packet to this incarnation, not only a hello: it closed every earlier one (SC-13).
  bool confirmed() const { return handshake_.confirmed(); }
  // Nothing was received for the path death time; of a quiet path for longer (SC-8).
  bool path_dead() const { return liveness_.path_dead(); }
  // The same also where there is no connection yet, or no more.
  bool silent(Instant now) const { return liveness_.silent(now); }
  // True once after the peer was lost: every message that was queued has been failed. Until it was asked, no
  // records of the peer's new incarnation are handed up, so that none comes before that, and nothing is sent
  // (SC-7).
  bool take_lost() {
    if (!lost_) return false;
    entry_.set_ready();
    lost_ = false;
    return true;
  }
  // Why the latest hello was refused.
  Refusal refusal() const { return handshake_.refusal(); }
  bool refused_hash() const { return refusal() == Refusal::kOtherSettings; }
  bool sealed() const { return seal_ != nullptr; }
  // The last peer said that it ends: it was not merely silent.
  bool peer_closed() const { return end_.peer_closed(); }
  bool has_unfinished() const { return messages_.has_unsent() || !recovery_.idle(); }
  // Messages that were given to send() and are neither finished nor fenced, and their bytes: the load.
  std::uint32_t queued_messages() const { return messages_.queued_messages(); }
  std::uint64_t queued_bytes() const { return messages_.queued_bytes(); }
  std::uint64_t epoch() const { return handshake_.epoch(); }
  // Of the peer that is established, or in the handshake; 0: none.
  std::uint64_t peer_epoch() const { return handshake_.candidate().epoch; }
  // The peer was established with that epoch, now or before (of long ago nothing is known).
  bool has_met(std::uint64_t peer_epoch) const { return handshake_.has_met(peer_epoch); }
  // Of the latest peer that was established, also when it was lost since; 0 before the first.
  std::uint64_t peer_incarnation() const { return handshake_.peer_incarnation(); }
  // Of the latest peer that was lost.
  std::uint64_t lost_incarnation() const { return handshake_.lost_incarnation(); }
  // The UDP port that the peer asks us to send from; 0: any. It is not checked.
  std::uint16_t asked_source_port() const { return handshake_.asked_source_port(); }
  const SubConnectionConfig& config() const { return config_; }
  SubConnectionStats stats() const;
  Duration srtt() const { return recovery_.rtt().srtt(); }
  std::uint32_t in_flight_packets() const { return recovery_.window().in_flight(); }
  std::uint32_t congestion_window_packets() const { return recovery_.congestion().window_packets(); }
  void check() const;

 private:
  // Frees what a quiet end does not need; a record that leaves or arrives has it made again.
  void give_back();

  // What there is only with a secret.
  struct Seal {
    Seal(const SubConnectionConfig& config, std::uint64_t epoch);
    KeyExchange exchange;
    PacketSealer sealer;
    PacketOpener opener;
    PeerAddress address;
    UnmovedRecords unmoved;       // of the packet that is being written
    std::vector<std::byte> room;  // of opened packets; empty while none come
    ByteView records;             // in it, of the last
  };

  bool may_send(Instant now) const {
    const PacketWindow& window = recovery_.window();
    return recovery_.may_send(now) && peer_window_.allows(window.in_flight(), window.in_flight_bytes());
  }
  // Only the peer's window, or only the peer's silence about it, keeps us from sending (SW-9).
  bool shut_out() const { return messages_.has_unsent() && recovery_.idle() && peer_window_.closed(); }
  // It closes, and everything is acknowledged.
  bool may_end() const { return end_.closing() && !has_unfinished(); }
  // Something is due then. entry_.due() is never later than what is due next; early costs a look.
  void wake(Instant when) {
    if (when < entry_.due()) entry_.set_due(when);
  }
  // Adds what recovery_ counted, which ends with the connection.
  void add_verdicts(SubConnectionStats& stats) const;
  void schedule() { entry_.set_due(next_event()); }
  Instant next_event() const;

  PacketHeader header_of(Instant now, PacketType type, Seq seq);
  PacketWriter open_packet(Instant now, PacketType type, Seq seq, MutableBytes room);
  std::size_t close_packet(Instant now, const PacketWriter& packet, std::uint8_t records, bool ack_at_once,
                           std::uint64_t* sum);
  [[gnu::noinline]] std::size_t seal(std::byte* packet, std::size_t bytes, std::uint64_t* sum);
  // A packet without records.
  std::size_t write_empty(Instant now, PacketType type, MutableBytes room, std::uint64_t* sum,
                          bool ack_at_once = false);
  std::size_t write_hello(Instant now, MutableBytes room, std::uint64_t* sum);
  std::size_t write_new(Instant now, MutableBytes room, std::uint64_t* sum);
  std::size_t write_lost(Instant now, Seq seq, MutableBytes room, std::uint64_t* sum);
  // A packet without records that is due: an acknowledgement, a probe, a Close.
  std::size_t write_due(Instant now, MutableBytes room, std::uint64_t* sum);
  // A challenge, or the answer to one, that is due.
  [[gnu::noinline]] std::size_t write_validation(Instant now, MutableBytes room, std::uint64_t* sum);
  // The packet that is being written goes there.
  void go_elsewhere(const Endpoint& end) { elsewhere_ = end == seal_->address.current() ? nullptr : &end; }
  void data_left(Instant now);

  PacketFate unknown_epoch(Instant now);
  // Opens what follows the header. nullopt: `rest` is that now.
  [[nodiscard]] std::optional<PacketFate> open(Instant now, const PacketHeader& header, ByteView& rest,
                                               const Origin& from);
  void watch_address(Instant now, const Origin& from, std::size_t bytes, bool newest);
  void on_response(const Origin& from, std::uint64_t challenge);
  // False: it acknowledges what was never sent; nothing has changed.
  [[nodiscard]] bool on_acknowledgement(Instant now, const PacketHeader& header, Duration unseen);
  void update_peer_window(Instant now, const PacketHeader& header);
  PacketFate on_hello(Instant now, const PacketHeader& header, ByteView rest, const Origin& from);
  PacketFate on_close(Instant now);
  void judge_peer(Instant now);

  void enter(SubConnectionEvent event);
  void establish(Instant now, const Handshake::Peer& peer);
  // Nothing is left of the connection; the next would be from `epoch`.
  void start_over(Instant now, SubConnectionEvent why, std::uint64_t epoch);
  // The sub-connection starts anew, from `epoch`; every message fails.
  void lose_peer(Instant now, std::uint64_t epoch);
  // The unknown peer that was challenged has answered: from now on it is the peer.
  void take_over(Instant now);

  SubConnectionConfig config_;
  std::unique_ptr<Seal> seal_;  // nullptr: packets are plain
  State state_ = State::kHandshake;
  Handshake handshake_;
  MessageQueue messages_;
  LossRecovery recovery_;
  PeerWindow peer_window_;
  Acknowledger acknowledger_;
  Liveness liveness_;
  std::uint32_t burst_ = 0;  // new packets since the queue was empty
  bool lost_ = false;
  bool moved_ = false;
  const Endpoint* elsewhere_ = nullptr;
  OrderlyEnd end_;
  Agenda::Entry entry_;
  SubConnectionStats stats_;
};

}  // namespace braid::stack
