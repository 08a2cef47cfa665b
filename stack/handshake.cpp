#include "stack/handshake.h"

#include "stack/timestamp.h"
#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

constexpr Duration kSlowestHello = 200_ms;
// The shared hash and the node's incarnation; then, only of an end that asks for one, the source port.
constexpr std::size_t kHelloBytes = 16;
constexpr std::size_t kAskingHelloBytes = kHelloBytes + 2;

}  // namespace

Handshake::Handshake(const SubConnectionConfig& config, std::uint64_t epoch, Instant now)
    : config_(config), epoch_(epoch), last_epoch_(epoch), wait_(config.hello_retry), timer_due_(now) {}

Handshake::Hello Handshake::on_hello(const PacketHeader& h, ByteView rest, bool established) {
  if (rest.size() != kHelloBytes && rest.size() != kAskingHelloBytes) return Hello::kMalformed;
  refused_hash_ = load<std::uint64_t>(rest.data()) != config_.shared_hash;
  if (refused_hash_) return Hello::kOtherSettings;
  Peer sender{h.sender_epoch, load<std::uint64_t>(rest.data() + 8), 0};
  if (rest.size() == kAskingHelloBytes) sender.source_port = load<std::uint16_t>(rest.data() + kHelloBytes);
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

void Handshake::set_due(std::uint64_t from, const PacketHeader& hello) {
  due_ = true;
  from_ = from;
  to_ = hello.sender_epoch;
  echo_ = hello.timestamp;
}

void Handshake::challenge(const PacketHeader& hello) {
  set_due(challenge_epoch_, hello);
}

void Handshake::on_timer(Instant now) {
  if (timer_due_ > now) return;
  due_ = true;
  from_ = epoch_;
  to_ = 0;
  echo_ = 0;
  timer_due_ = now + wait_;
  wait_ = std::min(wait_ * 2, kSlowestHello);
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
  if (asks) store(room.data() + length + kHelloBytes, config_.wanted_source_port);
  const std::size_t whole = length + (asks ? kAskingHelloBytes : kHelloBytes);
  *sum = checksum_add(0, room.first(whole));
  return whole;
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
  epoch_ = epoch;
  candidate_ = Peer{};
  challenged_ = Peer{};
  challenge_epoch_ = 0;
  confirmed_ = false;
  due_ = false;
  wait_ = config_.hello_retry;
  timer_due_ = now;
}

// A full-period congruential generator, from the random number that we were given.
std::uint64_t Handshake::next_epoch() {
  do last_epoch_ = last_epoch_ * 0x9e3779b97f4a7c15 + 0x632be59bd9b4e019;
  while (last_epoch_ == 0);  // "unknown"
  return last_epoch_;
}

}  // namespace braid::stack
