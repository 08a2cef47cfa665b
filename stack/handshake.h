// The identities of a sub-connection's two ends: their epochs, the hellos that exchange them, and the challenge
// of an unknown peer (SC-1, SC-2, SC-3, SC-12).
//
// Each incarnation of an end has an epoch, and takes a new one whenever it gives up a peer. A hello that comes
// to an established end from an unknown peer is answered with a hello from the epoch that would follow ours:
// only a peer that is alive can answer that.
//
// With a secret (SE-2, SE-3) hellos are authenticated, and carry the messages of a key exchange besides: only between
// epochs that both ends have named, so that a sender has shown that it receives what is sent to its address before
// it costs a public-key operation. A peer is known, or answers a challenge, when the exchange is complete.
//
//   any ── hello ──► any;  ◄── hello that names the sender's epoch ──;  then, of the ends of these two epochs,
//   initiator ── first message ──► responder: established ── second message ──► initiator: established
//
// It decides what a hello means; what follows from it (messages that fail, a window that starts anew) is the
// sub-connection's. Pure; owned by it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/time.h"
#include "stack/secure/key_exchange.h"
#include "stack/sub_connection_config.h"
#include "stack/wire/segment.h"

namespace braid::stack {

// Why hellos of a sender are refused.
enum class Refusal : std::uint8_t {
  kNone,
  kOtherSettings,     // it has another shared hash
  kNoSecret,          // it has no secret, and we have one
  kOtherSecret,       // it has another secret, or its hello was changed on the way
  kUnexpectedSecret,  // it has a secret, and we have none
};

class Handshake {
 public:
  // One that we may have a connection with, as its hello describes it.
  struct Peer {
    std::uint64_t epoch = 0;        // 0: none
    std::uint64_t incarnation = 0;  // of its node
    std::uint16_t source_port = 0;  // that it asks us to send from
  };

  // Both outlive it. `epoch` is random and never used before by this pair. `keys`: nullptr without a secret.
  Handshake(const SubConnectionConfig& config, std::uint64_t epoch, Instant now, KeyExchange* keys = nullptr);

  // --- what arrives

  // The kinds of an arriving hello.
  enum class Hello : std::uint8_t {
    kMalformed,
    kOtherSettings,  // a peer with another shared hash
    kUnknownEpoch,   // it answers an incarnation of ours that is no more (SC-2)
    kIntroduced,     // of candidate(), which does not know us: answer() it
    kEstablishes,    // of candidate(), which knows us
    kOfPeer,         // of our peer
    kUnknownPeer,    // of another than our peer, which may be alive: challenge() it (SC-3)
    kTakesOver,      // of challenged(), which has answered: it is the peer from now on
    kRefusedSender,  // without the secret, with another, or with one where we have none: refusal() (SE-2)
    // With a secret:
    kContinues,  // what it needs is on its way, or was done before; nothing else has changed
    kEnds,       // as kTakesOver would, but `ending`
  };
  // `rest` follows the header in memory. `ending`: an answered challenge ends this end (SC-11).
  Hello on_hello(const PacketHeader& header, ByteView rest, bool established, bool ending = false);
  // A hello with so many bytes behind its header is of an end with a secret, whose other packets are sealed.
  static bool is_sealed_hello(std::size_t bytes);
  // Is it a packet of the connection that candidate() and we have, or begin?
  bool is_current(const PacketHeader& h) const {
    return h.receiver_epoch == epoch_ && h.sender_epoch == candidate_.epoch;
  }
  // Only the hello that challenged an unknown peer can have told the sender this epoch (SC-3).
  bool answers_challenge(const PacketHeader& h) const {
    return h.receiver_epoch == challenge_epoch_ && h.sender_epoch == challenged_.epoch;
  }
  // It names an epoch that only hellos of ours have told.
  bool names_us(const PacketHeader& h) const {
    return h.receiver_epoch != 0 && (h.receiver_epoch == epoch_ || h.receiver_epoch == challenge_epoch_);
  }
  // Before an end is established: who said hello last. Then: the peer.
  const Peer& candidate() const { return candidate_; }
  const Peer& challenged() const { return challenged_; }
  // Ours, if the one that was challenged turns out to be alive.
  std::uint64_t challenge_epoch() const { return challenge_epoch_; }

  // --- what leaves

  void answer(const PacketHeader& hello) { set_due(epoch_, hello); }
  void challenge(const PacketHeader& hello);
  // With a secret: the sender of `hello`, now the peer, gets the second message if it waits for it.
  void answer_exchange(const PacketHeader& hello);
  // A packet that cannot be opened shows that its sender has the keys already, and we wait for the second message:
  // it was lost, or is late. True: the first leaves again.
  bool ask_again(Instant now, const PacketHeader& packet);
  // Without a peer a hello is repeated. True: one is due that answers none.
  bool on_timer(Instant now);
  // It says nothing of its own accord yet (SC-14). Ends with greet(), or when it starts over.
  bool asleep() const { return asleep_; }
  // The first hello leaves at `when`, unless it is awake.
  void greet(Instant when);
  Instant timer_due() const { return timer_due_; }
  bool hello_due() const { return due_; }
  // Writes it, into room for the longest packet; returns its length.
  std::size_t write_hello(Instant now, MutableBytes room, std::uint64_t* sum);

  // --- what is decided

  // It is the peer now.
  void establish(const Peer& peer);
  // Without a peer, and from `epoch`.
  void start_over(Instant now, std::uint64_t epoch);
  // The latest peer was lost, not only renewed.
  void lose_peer() { lost_incarnation_ = peer_incarnation_; }
  // One that was never used before: all numbers of 64 bits in an order without short cycles.
  std::uint64_t next_epoch();
  // The peer has sent something in this connection, not only hellos.
  void confirm() { confirmed_ = true; }

  std::uint64_t epoch() const { return epoch_; }
  bool confirmed() const { return confirmed_; }
  // Why the latest hello was refused; kNone: it was not.
  Refusal refusal() const { return refusal_; }
  void forget_refusal() { refusal_ = Refusal::kNone; }
  // Of the latest peer that was established, also when it was lost since; 0 before the first.
  std::uint64_t peer_incarnation() const { return peer_incarnation_; }
  std::uint64_t lost_incarnation() const { return lost_incarnation_; }
  std::uint16_t asked_source_port() const { return asked_source_port_; }
  // Was established with that epoch, now or before; of long ago nothing is known.
  bool has_met(std::uint64_t peer_epoch) const {
    return std::find(met_.begin(), met_.end(), peer_epoch) != met_.end();
  }

 private:
  // What a hello says behind the header, of an end with or without a secret.
  struct Contents {
    std::uint64_t shared_hash = 0;
    Peer sender;
    CipherKind cipher{};
    KeyExchange::Message kind{};
    ByteView message;
  };

  void set_due(std::uint64_t from, const PacketHeader& hello);
  std::size_t write_sealed_part(std::byte* hello, std::size_t header_bytes);
  Hello refuse(Refusal why);
  Hello on_plain_hello(const PacketHeader& header, const Contents& hello, bool established);
  Hello on_sealed_hello(const PacketHeader& header, const Contents& hello, bool established, bool ending);
  Hello exchange(const PacketHeader& header, const Contents& hello, std::uint64_t own_epoch, Hello complete);
  bool starts_exchange_with(const PacketHeader& header, std::uint64_t own_epoch) const;

  const SubConnectionConfig& config_;
  KeyExchange* keys_;  // nullptr: no secret
  std::uint64_t epoch_;
  std::uint64_t last_epoch_;  // that we have made up, whether or not it is in use
  Peer candidate_;
  Peer challenged_;
  std::uint64_t challenge_epoch_ = 0;  // 0: no peer was challenged
  bool confirmed_ = false;
  Refusal refusal_ = Refusal::kNone;
  std::uint16_t asked_source_port_ = 0;  // as the latest peer's hello had it
  std::uint64_t peer_incarnation_ = 0;
  std::uint64_t lost_incarnation_ = 0;
  std::array<std::uint64_t, 8> met_{};  // epochs of peers
  std::size_t next_met_ = 0;

  bool asleep_ = false;
  bool due_ = false;
  std::uint64_t from_ = 0;  // the epochs in the next hello; to 0: to any end at that address
  std::uint64_t to_ = 0;
  std::uint32_t echo_ = 0;
  KeyExchange::Message message_ = KeyExchange::Message::kNone;  // that it carries
  Instant ask_again_due_;
  Duration wait_;
  Instant timer_due_;
};

}  // namespace braid::stack
