#include "stack/handshake.h"

#include <utility>

#include "stack/timestamp.h"
#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

constexpr Duration kSlowestHello = 200_ms;
// A whole window of the peer may arrive while the answer is missing.
constexpr Duration kAskAgainWait = 1_ms;
// The shared hash and the node's incarnation; then, only of an end that asks for one, the source port.
constexpr std::size_t kHelloBytes = 16;
constexpr std::size_t kAskingHelloBytes = kHelloBytes + 2;
// With a secret: those, the source port in any case, the cipher and the kind of the message that follows. Then the
// message, and what authenticates everything before it.
constexpr std::size_t kSealedHelloBytes = kAskingHelloBytes + 2;

// The two ends as the hellos of one call them, and its epoch and incarnation: what the exchange is bound to (SE-4).
constexpr std::size_t kSideBytes = 6 + 8 + 8;
using Side = std::array<std::byte, kSideBytes>;

Side side_of(const StackId& source, const StackId& destination, std::uint64_t epoch,
             std::uint64_t incarnation) {
  Side side;
  store_be(side.data(), source.cluster.value());
  store(side.data() + 2, source.proxy.value());
  store_be(side.data() + 3, destination.cluster.value());
  store(side.data() + 5, destination.proxy.value());
  store_be(side.data() + 6, epoch);
  store_be(side.data() + 14, incarnation);
  return side;
}

using Prologue = std::array<std::byte, 1 + 2 * kSideBytes + 8>;

Prologue prologue_of(const Side& initiator, const Side& responder, std::uint64_t shared_hash) {
  Prologue prologue;
  prologue[0] = std::byte{kWireVersion};
  std::copy(initiator.begin(), initiator.end(), prologue.begin() + 1);
  std::copy(responder.begin(), responder.end(), prologue.begin() + 1 + kSideBytes);
  store(prologue.data() + 1 + 2 * kSideBytes, shared_hash);
  return prologue;
}

}  // namespace

Handshake::Handshake(const SubConnectionConfig& config, std::uint64_t epoch, Instant now, KeyExchange* keys)
    : config_(config),
      keys_(keys),
      epoch_(epoch),
      last_epoch_(epoch),
      asleep_(config.greets_at_first_use),
      wait_(config.hello_retry),
      timer_due_(asleep_ ? Instant::never() : now) {}

Handshake::Hello Handshake::refuse(Refusal why) {
  refusal_ = why;
  return why == Refusal::kOtherSettings ? Hello::kOtherSettings : Hello::kRefusedSender;
}

bool Handshake::is_sealed_hello(std::size_t bytes) {
  constexpr std::size_t kBytes = kSealedHelloBytes + KeyExchange::kMacBytes;
  return bytes == kBytes || bytes == kBytes + KeyExchange::kMessageBytes;
}

Handshake::Hello Handshake::on_hello(const PacketHeader& h, ByteView rest, bool established, bool ending) {
  const bool is_plain = rest.size() == kHelloBytes || rest.size() == kAskingHelloBytes;
  if (!is_plain && !is_sealed_hello(rest.size())) return Hello::kMalformed;
  if (!is_plain && keys_ == nullptr) return refuse(Refusal::kUnexpectedSecret);
  std::size_t bytes = rest.size();
  if (keys_ != nullptr) {  // SE-2: before anything else of it is looked at
    if (is_plain) return refuse(Refusal::kNoSecret);
    bytes -= KeyExchange::kMacBytes;
    const std::byte* const begin = rest.data() - packet_header_bytes(h.sack_words);
    const std::byte* const mac = rest.data() + bytes;
    if (!keys_->is_authentic({begin, mac}, mac)) return refuse(Refusal::kOtherSecret);
  }
  Contents hello;
  hello.shared_hash = load<std::uint64_t>(rest.data());
  if (hello.shared_hash != config_.shared_hash) return refuse(Refusal::kOtherSettings);
  refusal_ = Refusal::kNone;
  hello.sender = {h.sender_epoch, load<std::uint64_t>(rest.data() + 8), 0};
  if (rest.size() != kHelloBytes) hello.sender.source_port = load<std::uint16_t>(rest.data() + kHelloBytes);
  if (is_plain) return on_plain_hello(h, hello, established);
  hello.cipher = load<CipherKind>(rest.data() + kAskingHelloBytes);
  hello.kind = load<KeyExchange::Message>(rest.data() + kAskingHelloBytes + 1);
  hello.message = rest.subspan(kSealedHelloBytes, bytes - kSealedHelloBytes);
  return on_sealed_hello(h, hello, established, ending);
}

Handshake::Hello Handshake::on_plain_hello(const PacketHeader& h, const Contents& hello, bool established) {
  const Peer& sender = hello.sender;
  const bool knows_us = h.receiver_epoch == epoch_;
  if (!established) {  // SC-1
    candidate_ = sender;
    return knows_us ? Hello::kEstablishes : Hello::kIntroduced;
  }
  if (h.sender_epoch == candidate_.epoch) return Hello::kOfPeer;
  if (h.receiver_epoch == 0) {
    // Perhaps a new incarnation, perhaps a packet of a dead one that was long in flight (SC-3).
    if (sender.epoch != challenged_.epoch) challenge_epoch_ = next_epoch();
    challenged_ = sender;
    return Hello::kUnknownPeer;
  }
  if (!answers_challenge(h)) return Hello::kUnknownEpoch;  // SC-2
  challenged_ = sender;
  return Hello::kTakesOver;
}

// An old hello is as authentic as a new one. What proves that the sender is alive is that it names an epoch of ours that
// only a hello to it has named.
Handshake::Hello Handshake::on_sealed_hello(const PacketHeader& h, const Contents& hello, bool established,
                                            bool ending) {
  const bool right_cipher = hello.cipher == CipherKind::kAesGcm || hello.cipher == CipherKind::kChaChaPoly;
  const bool has_message = hello.kind != KeyExchange::Message::kNone;
  const bool right_kind = hello.kind <= KeyExchange::Message::kSecond && has_message != hello.message.empty();
  if (!right_cipher || !right_kind) return Hello::kMalformed;
  if (h.sender_epoch == epoch_) return Hello::kUnknownEpoch;  // ours, reflected
  if (!established) {                                         // SC-1
    if (h.receiver_epoch != epoch_) return Hello::kIntroduced;
    candidate_ = hello.sender;
    return exchange(h, hello, epoch_, Hello::kEstablishes);
  }
  if (h.sender_epoch == candidate_.epoch) {
    if (h.receiver_epoch == 0) return Hello::kOfPeer;
    if (h.receiver_epoch != epoch_) return Hello::kUnknownEpoch;
    if (hello.kind == KeyExchange::Message::kFirst && keys_->is_repeated(hello.message))
      answer_exchange(h);  // the second message was lost
    return Hello::kContinues;
  }
  if (h.receiver_epoch == 0) {  // SC-3
    if (hello.sender.epoch != challenged_.epoch) challenge_epoch_ = next_epoch();
    challenged_ = hello.sender;
    return Hello::kUnknownPeer;
  }
  if (!answers_challenge(h)) return Hello::kUnknownEpoch;  // SC-2
  challenged_ = hello.sender;
  if (ending) return Hello::kEnds;
  return exchange(h, hello, challenge_epoch_, Hello::kTakesOver);
}

// The lower end is the initiator, so that hellos that cross agree on it. Clusters of two machines may call each other the
// same: then the one with the lower epoch.
bool Handshake::starts_exchange_with(const PacketHeader& h, std::uint64_t own_epoch) const {
  return side_of(config_.local, config_.remote, own_epoch, 0) <
         side_of(h.source, h.destination, h.sender_epoch, 0);
}

// SE-3. The sender knows `own_epoch`.
Handshake::Hello Handshake::exchange(const PacketHeader& h, const Contents& hello, std::uint64_t own_epoch,
                                     Hello complete) {
  using Message = KeyExchange::Message;
  const EpochPair epochs{own_epoch, h.sender_epoch};
  const bool initiator = starts_exchange_with(h, own_epoch);
  const Side own = side_of(config_.local, config_.remote, own_epoch, config_.incarnation);
  const Side peer = side_of(h.source, h.destination, h.sender_epoch, hello.sender.incarnation);
  if (!initiator) {
    if (hello.kind == Message::kSecond) return Hello::kMalformed;
    if (hello.kind == Message::kNone) {  // it learns that we know its epoch
      set_due(own_epoch, h);
      return Hello::kContinues;
    }
    const Prologue prologue = prologue_of(peer, own, config_.shared_hash);
    return keys_->answer(epochs, hello.cipher, prologue, hello.message) ? complete : Hello::kMalformed;
  }
  if (hello.kind == Message::kFirst) return Hello::kMalformed;
  if (hello.kind == Message::kSecond) {
    if (!keys_->awaits_answer(epochs)) return Hello::kUnknownEpoch;
    return keys_->finish(hello.message) ? complete : Hello::kMalformed;
  }
  if (!keys_->awaits_answer(epochs))
    keys_->begin(epochs, KeyExchange::agreed(keys_->wanted(), hello.cipher),
                 prologue_of(own, peer, config_.shared_hash));
  set_due(own_epoch, h);
  message_ = Message::kFirst;
  return Hello::kContinues;
}

void Handshake::answer_exchange(const PacketHeader& hello) {
  if (!keys_->has_answered({epoch_, hello.sender_epoch})) return;
  set_due(epoch_, hello);
  message_ = KeyExchange::Message::kSecond;
}

bool Handshake::ask_again(Instant now, const PacketHeader& packet) {
  if (now < ask_again_due_ || !keys_->awaits_answer({packet.receiver_epoch, packet.sender_epoch}))
    return false;
  ask_again_due_ = now + kAskAgainWait;
  set_due(packet.receiver_epoch, packet);
  message_ = KeyExchange::Message::kFirst;
  return true;
}

void Handshake::set_due(std::uint64_t from, const PacketHeader& hello) {
  due_ = true;
  from_ = from;
  to_ = hello.sender_epoch;
  echo_ = hello.timestamp;
  message_ = KeyExchange::Message::kNone;
}

void Handshake::challenge(const PacketHeader& hello) {
  set_due(challenge_epoch_, hello);
}

bool Handshake::on_timer(Instant now) {
  if (timer_due_ > now) return false;
  due_ = true;
  from_ = epoch_;
  to_ = 0;
  echo_ = 0;
  message_ = KeyExchange::Message::kNone;
  timer_due_ = now + wait_;
  wait_ = std::min(wait_ * 2, kSlowestHello);
  return true;
}

// SC-14
void Handshake::greet(Instant when) {
  if (std::exchange(asleep_, false)) timer_due_ = when;
}

std::size_t Handshake::write_hello(Instant now, MutableBytes room, std::uint64_t* sum) {
  due_ = false;
  PacketHeader h;
  h.type = PacketType::kHello;
  h.source = config_.local;
  h.destination = config_.remote;
  h.sender_epoch = from_;
  h.receiver_epoch = to_;
  h.timestamp = timestamp(now);
  h.timestamp_echo = echo_;
  const std::size_t length = write_packet_header(room.data(), h);
  store(room.data() + length, config_.shared_hash);
  store(room.data() + length + 8, config_.incarnation);
  const bool asks = config_.wanted_source_port != 0;  // SC-12
  if (asks || keys_ != nullptr) store(room.data() + length + kHelloBytes, config_.wanted_source_port);
  std::size_t whole = length + (asks ? kAskingHelloBytes : kHelloBytes);
  if (keys_ != nullptr) whole = write_sealed_part(room.data(), length);
  *sum = checksum_add(0, room.first(whole));
  return whole;
}

// Returns the hello's whole length.
std::size_t Handshake::write_sealed_part(std::byte* hello, std::size_t header_bytes) {
  const bool in_exchange = message_ != KeyExchange::Message::kNone;
  std::byte* at = hello + header_bytes + kAskingHelloBytes;
  store(at, in_exchange ? keys_->cipher() : keys_->wanted());
  store(at + 1, message_);
  at += 2;
  if (in_exchange) at = std::copy(keys_->message().begin(), keys_->message().end(), at);
  message_ = KeyExchange::Message::kNone;
  keys_->authenticate({hello, at}, at);
  return static_cast<std::size_t>(at - hello) + KeyExchange::kMacBytes;
}

void Handshake::establish(const Peer& peer) {
  candidate_ = peer;
  peer_incarnation_ = peer.incarnation;
  asked_source_port_ = peer.source_port;
  met_[next_met_++ % met_.size()] = peer.epoch;
  due_ = false;
  challenged_ = Peer{};
  challenge_epoch_ = 0;
}

void Handshake::start_over(Instant now, std::uint64_t epoch) {
  if (keys_ != nullptr && keys_->own_epoch() != epoch) keys_->forget();
  epoch_ = epoch;
  candidate_ = Peer{};
  challenged_ = Peer{};
  challenge_epoch_ = 0;
  confirmed_ = false;
  asleep_ = false;
  due_ = false;
  wait_ = config_.hello_retry;
  timer_due_ = now;
}

// A full-period congruential generator, from the random number that we were given; with a secret, another one.
std::uint64_t Handshake::next_epoch() {
  if (keys_ != nullptr) {
    do last_epoch_ = keys_->random_number();
    while (last_epoch_ == 0);
    return last_epoch_;
  }
  do last_epoch_ = last_epoch_ * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
  while (last_epoch_ == 0);  // "unknown"
  return last_epoch_;
}

}  // namespace braid::stack
