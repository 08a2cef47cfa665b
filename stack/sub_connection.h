// A reliable connection between two proxies' stacks, shared by every parallel connection that is dispatched
// to it: the handshake with an epoch per incarnation, the sliding window in both directions, retransmission,
// acknowledgement, keep-alive, and the judgement that a path or a peer is dead.
//
// Records are handed up as packets arrive, in whatever order: what needs an order has positions of its own. A
// packet is acknowledged only when the driver says that all of its records lie where they belong.
//
//              a packet of the peer names our epoch
//   kHandshake ────────────────────────────────────────► kEstablished
//       ▲                                                 │   │   ▲
//       └──────── nothing heard for peer_death ───────────┘   └───┘ a new incarnation, or the same node's
//                                                                   reopened end, answered the challenge
//
//   any ── fence() ──► kFenced ── reopen() ──► kHandshake
//   any ── close(), then all acknowledged ──► kClosed
//
// Each incarnation of an end has an epoch, and takes a new one whenever it gives up a peer. A hello that
// comes to an established end from an unknown peer is answered with a hello from the epoch that would follow
// ours: only who is alive can answer that (SC-3). A fenced end drops everything and sends nothing: what
// its driver took back goes other ways, so nothing that is still in flight here may count any more (SC-10).
// Where no other way is left to tell a peer of it, the handshake of the reopened end does (SC-13).
//
// Pure: time, packets and messages come in; poll() writes what should leave now. Owned by the stack's worker.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "stack/agenda.h"
#include "stack/window/congestion.h"
#include "stack/window/receive_window.h"
#include "stack/window/rtt.h"
#include "stack/window/send_window.h"
#include "stack/wire/segment.h"

namespace braid::stack {

// A piece of a message on its way: what the record says, where the bytes lie, and what is not yet
// acknowledged. The driver owns it and the bytes, and leaves both alone until take_finished() returns it.
struct OutMessage {
  Record record;  // of the whole piece: bytes in `bytes`, not in record.bytes
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;

  std::uint32_t unacknowledged = 0;  // bytes; 1 for a message of none
  OutMessage* next = nullptr;        // the queue, later the list of the finished
  bool failed = false;               // finished because the peer was lost, not because it has it
};

struct SubConnectionConfig {
  StackId local;
  StackId remote;
  std::size_t max_payload_bytes = 1472;  // of a UDP datagram; decides where messages are cut (SC-6)
  // Of both directions. 256 packets of 1500 bytes are three times what 10 Gb/s carry in 100 us.
  std::uint32_t window_packets = 256;
  std::uint32_t receive_window_bytes = 4u << 20;  // above 256 packets of 9000 bytes
  CongestionConfig congestion;
  Duration min_rto = 500_us;
  Duration max_rto = 100_ms;
  Duration path_death = 500_ms;
  Duration peer_death = 10_s;
  // A sender with nothing to send learns of its packets' arrival after at most this; below min_rto. An answer
  // that takes longer costs a packet of its own more; a lost packet that nothing follows is noticed so much
  // later.
  Duration ack_delay = 10_us;
  // Packets that may arrive before an acknowledgement leaves at once.
  std::uint32_t ack_every = 16;
  Duration hello_retry = 5_ms;
  // Number of an incarnation's first packet: the same at both ends.
  Seq first_seq;
  // Hash of what both ends must have in common; a peer with another is refused.
  std::uint64_t shared_hash = 0;
  // Of the node, the same in all of its sub-connections and in no other life of it; the hello tells it. 0: it
  // has none, and whoever starts a new handshake from it is taken for another one.
  std::uint64_t incarnation = 0;
  // The UDP port that the peer shall send from; 0: whichever it likes. The hello asks for it (SC-12).
  std::uint16_t wanted_source_port = 0;
};

struct SubConnectionStats {
  std::uint64_t packets_sent = 0;  // all kinds
  std::uint64_t retransmissions = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t fast_retransmissions = 0;
  std::uint64_t tail_probes = 0;
  std::uint64_t window_probes = 0;
  std::uint64_t acknowledgements_sent = 0;  // packets that carried nothing else
  std::uint64_t messages_sent = 0;          // given to send()
  std::uint64_t message_bytes_sent = 0;
  std::uint64_t peers_lost = 0;
  std::uint64_t renewals = 0;  // the same peer started a new handshake (SC-13)
  std::uint64_t path_deaths = 0;
};

// What an arriving packet is.
enum class PacketFate : std::uint8_t {
  kRecords,  // new records: deliver them all, then call delivered()
  kNothing,  // acknowledgement, handshake or probe: dealt with
  kDuplicate,
  kUnknownEpoch,  // of another incarnation of either side: not looked into
  kRefused,       // malformed, an impossible acknowledgement, or a peer with another shared_hash
};

class SubConnection {
 public:
  enum class State : std::uint8_t { kHandshake, kEstablished, kFenced, kClosed };

  // `epoch` is random and never used before by this pair. `entry`: where its stack looks for what it wants.
  SubConnection(const SubConnectionConfig& config, std::uint64_t epoch, Instant now, Agenda::Entry entry);
  SubConnection(const SubConnection&) = delete;
  SubConnection& operator=(const SubConnection&) = delete;

  // --- sending

  // Queues a message. It is sent when the peer is there and the window allows; take_finished() gives it back.
  void send(OutMessage& message);
  // Could poll() have something to write at `now`? Cheap.
  bool wants_to_send(Instant now) const {
    return (established() && ((unsent_ != nullptr && may_send(now)) || window_.lost_any())) ||
           entry_.due() <= now;
  }
  // Writes the next packet that should leave into `room` (a UDP payload of at least max_payload_bytes) and
  // returns its length, 0 when there is none; `sum` is the checksum of what was written. Call until 0.
  std::size_t poll(Instant now, MutableBytes room, std::uint64_t* sum);
  // The messages that were acknowledged, or failed, since the last call, linked by `next`.
  OutMessage* take_finished();
  // Ends this incarnation: no packet of its epochs is looked into, nothing is sent, nobody is judged, until
  // reopen(). Returns every message that is not wholly acknowledged, oldest first, linked by `next` and as it
  // was before send(): the driver's again, to send another way. Those that are come from take_finished().
  OutMessage* fence(Instant now);
  // The orderly end: when every message is acknowledged the peer is told that this incarnation ends, so that
  // it need not find out. Nothing more is given to send(). state() is kClosed when that is done, or when
  // there is nobody to tell.
  void close(Instant now);
  // Takes back what was queued before the peer was there, as fence() does; nothing else changes. state() is
  // kHandshake.
  OutMessage* recall();
  // Starts a handshake as `incarnation` of its node, from `epoch` (random and never used before; 0: one of its
  // own). state() is kFenced or kClosed.
  void reopen(Instant now, std::uint64_t incarnation, std::uint64_t epoch = 0);

  // What its packets call the two ends, and what those must have in common, from the next incarnation on.
  // state() is kFenced or kClosed.
  void rename(StackId local, StackId remote, std::uint64_t shared_hash);

  // --- receiving

  // A packet whose addresses name this sub-connection. `rest` is what follows the packet header. It may have
  // waited for `unseen`, in which the driver did not look: that is not the network's delay.
  PacketFate on_packet(Instant now, const PacketHeader& header, ByteView rest, Duration unseen = Duration());
  // The driver put every record of the packet where it belongs (SC-4).
  void delivered(Instant now, const PacketHeader& header);

  // How much the driver takes from now on, beyond what it has acknowledged: 0 packets or bytes stop the peer.
  void set_receive_window(Instant now, std::uint32_t packets, std::uint32_t bytes);

  // --- time

  // Timeouts and judgements; call when next_deadline() has come.
  void on_timer(Instant now);
  Instant next_deadline() const { return entry_.due(); }
  // This side was not running for a while: what it did not hear then says nothing.
  void on_scheduling_gap(Instant now);
  // Acknowledge now what would be acknowledged later: the worker is about to sleep.
  void flush_ack(Instant now);

  // --- asking

  State state() const { return state_; }
  bool established() const { return state_ == State::kEstablished; }
  // send() may be called: it is neither fenced nor closed, nor shall it be closed.
  bool may_take() const { return !closing_ && state_ != State::kFenced && state_ != State::kClosed; }
  // The peer spoke to this incarnation, not only of it: its end of every earlier one is closed (SC-13).
  bool confirmed() const { return confirmed_; }
  // Nothing was heard for the path death time.
  bool path_dead() const { return path_dead_; }
  // True once after the peer was lost: every message that was queued has been failed. Until it was asked, no
  // records of the peer's new incarnation are handed up, so that none overtakes the news, and nothing is sent
  // (SC-7).
  bool take_lost() {
    if (!lost_) return false;
    entry_.set_ready();
    lost_ = false;
    return true;
  }
  bool refused_hash() const { return refused_hash_; }
  // The last peer said that it ends: it was not merely silent.
  bool peer_closed() const { return peer_closed_; }
  bool has_unfinished() const { return unsent_ != nullptr || !window_.idle(); }
  // Messages that were given to send() and are neither finished nor fenced, and their bytes: the load.
  std::uint32_t queued_messages() const {
    return static_cast<std::uint32_t>(stats_.messages_sent - gone_messages_);
  }
  std::uint64_t queued_bytes() const { return stats_.message_bytes_sent - gone_bytes_; }
  std::uint64_t epoch() const { return epoch_; }
  // Of the peer that is established, or in the handshake; 0: none.
  std::uint64_t peer_epoch() const { return peer_epoch_; }
  // The peer was established with that epoch, now or before (of long ago nothing is known).
  bool has_met(std::uint64_t peer_epoch) const {
    return std::find(met_.begin(), met_.end(), peer_epoch) != met_.end();
  }
  // Of the latest peer that was established, also when it was lost since; 0 before the first.
  std::uint64_t peer_incarnation() const { return peer_incarnation_; }
  // Of the latest peer that was lost.
  std::uint64_t lost_incarnation() const { return lost_incarnation_; }
  // The UDP port that the peer wants our packets from; 0: it does not mind. Its word, which may be nonsense.
  std::uint16_t asked_source_port() const { return peer_asks_; }
  const SubConnectionConfig& config() const { return config_; }
  const SubConnectionStats& stats() const { return stats_; }
  Duration srtt() const { return rtt_.srtt(); }
  std::uint32_t in_flight_packets() const { return window_.in_flight(); }
  std::uint32_t congestion_window_packets() const { return congestion_.window_packets(); }
  void check() const;

 private:
  // The records of a packet: consecutive messages, from `offset` of the first to `last_bytes` of the last.
  // They never change (SC-6), and the messages stay linked as long as one of their packets is not
  // acknowledged.
  struct Content {
    OutMessage* first = nullptr;
    std::uint32_t offset = 0;
    std::uint32_t last_bytes = 0;
    std::uint8_t records = 0;
  };

  // A packet that is being written. Its header and short records are summed all together in the end, long
  // ones while they are copied; what of the header is known only then is zero until then.
  struct PacketWriter {
    std::byte* begin;
    std::byte* at;
    const std::byte* summed;
    std::uint64_t total;
    void put(const OutMessage& m, std::uint32_t offset, std::uint32_t bytes);
  };

  // What a hello tells of its sender.
  struct HelloContent {
    std::uint64_t incarnation = 0;
    std::uint16_t source_port = 0;  // that it asks for
  };

  bool may_send(Instant now) const {
    return window_.may_send() && window_.in_flight() < told_packets_ &&
           window_.in_flight_bytes() < std::uint64_t{told_units_} * kWindowUnitBytes &&
           congestion_.may_send(now, window_.outstanding());
  }
  // Something is due then. entry_.due() is never later than what is due next; early costs a look.
  void wake(Instant when) {
    if (when < entry_.due()) entry_.set_due(when);
  }
  // Only the peer's window, or only the peer's silence about it, keeps us from sending (SW-9).
  bool shut_out() const {
    return unsent_ != nullptr && window_.idle() && (told_packets_ == 0 || told_units_ == 0);
  }
  // When the last packet goes again, unless word of it comes first; never() if it has, or nothing is under
  // way (SW-10).
  Instant tail_probe_due() const;
  void on_loss_timers(Instant now);
  void data_left(Instant now, bool asked);
  void take_window(Instant now, const PacketHeader& header);
  PacketFate on_close(Instant now);
  PacketWriter open_packet(Instant now, PacketType type, Seq seq, MutableBytes room);
  Content cut_packet(PacketWriter& packet);
  std::size_t close_packet(Instant now, const PacketWriter& packet, std::uint8_t records, bool ack_at_once,
                           std::uint64_t* sum);
  // A packet without records.
  std::size_t write_empty(Instant now, PacketType type, MutableBytes room, std::uint64_t* sum);
  template <class F>
  static void for_each_record(const Content& content, F&& f);
  std::uint32_t part_bytes(const OutMessage& m, std::uint32_t offset) const;
  std::size_t write_hello(Instant now, MutableBytes room, std::uint64_t* sum);
  void finish_messages(const Content& content, bool failed);
  void finish(OutMessage& message, bool failed);
  // False: it acknowledges what was never sent; nothing has changed.
  [[nodiscard]] bool on_acknowledgement(Instant now, const PacketHeader& header, Duration unseen);
  PacketFate on_hello(Instant now, const PacketHeader& header, ByteView rest);
  void establish(Instant now, std::uint64_t peer_epoch, const HelloContent& content);
  // Unlinks what is not wholly acknowledged, and leaves it as it was before send().
  OutMessage* take_back();
  void queue_again(OutMessage* first);
  void fail_everything();
  // Nothing is left of the conversation; the next would be from `epoch`.
  void start_over(Instant now, State state, std::uint64_t epoch);
  // The sub-connection starts anew, from `epoch`.
  void lose_peer(Instant now, std::uint64_t epoch);
  // The unknown peer that was challenged has answered: from now on it is the peer.
  void take_over(Instant now, std::uint64_t peer_epoch, const HelloContent& content);
  void challenge(Instant now, const PacketHeader& hello);
  void answer(const PacketHeader& hello, std::uint64_t as);
  // The round trip that the packet's echo tells of.
  std::optional<Duration> round_trip(Instant now, const PacketHeader& header) const;
  std::uint64_t next_epoch();
  void schedule();
  Instant next_event() const;
  static std::uint32_t timestamp(Instant now);
  static std::uint16_t units(std::uint32_t bytes);

  SubConnectionConfig config_;
  State state_ = State::kHandshake;
  std::uint64_t epoch_;
  std::uint64_t peer_epoch_ = 0;       // kHandshake: of the last hello, 0 before one came
  std::uint64_t last_epoch_;           // that we have made up, whether or not it is in use
  std::uint64_t challenge_epoch_ = 0;  // ours, if the unknown peer turns out to be alive; 0: nobody was asked
  std::uint64_t unknown_peer_epoch_ = 0;  // whom it was told to
  HelloContent peer_hello_;               // kHandshake: in the hello that told peer_epoch_
  HelloContent unknown_peer_hello_;
  std::uint16_t peer_asks_ = 0;  // for our packets' UDP source port
  std::uint64_t peer_incarnation_ = 0;
  std::uint64_t lost_incarnation_ = 0;
  std::array<std::uint64_t, 8> met_{};  // epochs of peers
  std::size_t next_met_ = 0;

  SendWindow<Content> window_;
  OutMessage* unsent_ = nullptr;  // first message of which something was not yet sent
  std::uint32_t unsent_offset_ = 0;
  OutMessage* last_ = nullptr;
  OutMessage* finished_ = nullptr;
  OutMessage** finished_tail_ = &finished_;  // where the next one is linked; what it points to is not set
  std::uint64_t gone_messages_ = 0;          // of stats_.messages_sent: finished, or fenced
  std::uint64_t gone_bytes_ = 0;
  RttEstimator rtt_;
  Congestion congestion_;
  std::uint16_t told_packets_ = 0xffff;  // that the peer takes, and in units of kWindowUnitBytes
  std::uint16_t told_units_ = 0xffff;
  Instant data_sent_;          // the last packet with records left
  Instant progress_;           // something was acknowledged for the first time
  std::uint32_t burst_ = 0;    // new packets since the queue was empty
  bool tail_asked_ = false;    // it asks for its acknowledgement at once
  bool tail_probed_ = false;   // since the last progress
  Instant window_probe_next_;  // while shut_out()
  Duration window_probe_wait_;

  ReceiveWindow received_;
  std::uint32_t window_packets_;  // what we take
  std::uint16_t window_units_;
  std::uint32_t echo_ = 0;            // timestamp to return with the next acknowledgement
  Instant echo_since_;                // it may have arrived then
  std::uint32_t unacknowledged_ = 0;  // packets that arrived since the last acknowledgement left
  Instant ack_due_ = Instant::never();

  bool hello_due_ = false;
  std::uint64_t hello_from_ = 0;  // the epochs in the next hello; to 0: to whoever is there
  std::uint64_t hello_to_ = 0;
  std::uint32_t hello_echo_ = 0;
  Duration hello_wait_;
  Instant hello_next_;
  Instant last_heard_;
  Instant last_sent_;
  bool path_dead_ = false;
  bool confirmed_ = false;
  bool lost_ = false;
  bool refused_hash_ = false;
  bool closing_ = false;
  bool peer_closed_ = false;
  unsigned goodbyes_ = 0;  // that were said
  Instant goodbye_next_;
  Agenda::Entry entry_;
  SubConnectionStats stats_;
};

}  // namespace braid::stack
