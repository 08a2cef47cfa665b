// What one end of a sub-connection does with the run's secret before there are packets to seal: it authenticates
// its hellos and checks the peer's, and agrees on keys with the peer of one pair of epochs.
//
//                 initiator                                responder
//   begin()       first message  ────────────────────────► answer()      second message, complete
//   finish()      complete       ◄────────────────────────
//
// It knows the contents of hellos no more than that they are bytes; what a hello means is Handshake's.
//
// Pure; owned by the sub-connection. begin(), answer() and finish() allocate and cost a public-key operation; what
// is done for a hello of one without the secret is one keyed hash.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "stack/secure/noise.h"
#include "stack/secure/primitives.h"
#include "stack/secure/secret.h"

namespace braid::stack {

// The epochs that an exchange is between.
struct EpochPair {
  std::uint64_t own = 0;
  std::uint64_t peer = 0;
  bool operator==(const EpochPair&) const = default;
};

class KeyExchange {
 public:
  static constexpr std::size_t kMacBytes = 16;
  static constexpr std::size_t kMessageBytes = Noise::kOverheadBytes;
  enum class Message : std::uint8_t { kNone = 0, kFirst = 1, kSecond = 2 };

  // `security` has a secret. `purpose` differs between all that have the same seed.
  KeyExchange(const Security& security, ByteView purpose);
  KeyExchange(const KeyExchange&) = delete;
  KeyExchange& operator=(const KeyExchange&) = delete;
  ~KeyExchange() { forget(); }

  // The first kMacBytes of the keyed hash of the hello before them.
  void authenticate(ByteView hello, std::byte* mac) const;
  [[nodiscard]] bool is_authentic(ByteView hello, const std::byte* mac) const;

  // The cipher that this end wants.
  CipherKind wanted() const { return wanted_; }
  // Between ends that want these.
  static CipherKind agreed(CipherKind a, CipherKind b) {
    return a == CipherKind::kAesGcm && b == CipherKind::kAesGcm ? a : CipherKind::kChaChaPoly;
  }
  std::uint64_t random_number();

  // The exchange between these epochs is begun or complete, and not forgotten.
  bool is_between(const EpochPair& epochs) const { return epochs_ == epochs; }
  std::uint64_t own_epoch() const { return epochs_.own; }
  // This end has answered it.
  bool has_answered(const EpochPair& epochs) const { return is_between(epochs) && !initiator_; }
  // This end has begun it, and has not got the answer.
  bool awaits_answer(const EpochPair& epochs) const { return is_between(epochs) && noise_.has_value(); }
  void begin(const EpochPair& epochs, CipherKind cipher, ByteView prologue);
  // False: `message` is not of one with the secret and the same prologue; nothing has changed.
  [[nodiscard]] bool answer(const EpochPair& epochs, CipherKind cipher, ByteView prologue, ByteView message);
  // False: the same; the exchange is forgotten.
  [[nodiscard]] bool finish(ByteView message);
  void forget();

  // To send to the other end, once or again: the first or the second of the exchange.
  ByteView message() const { return message_; }
  // The peer has sent this before.
  bool is_repeated(ByteView message) const;
  CipherKind cipher() const { return cipher_; }
  // After it is complete: its keys, which the caller wipes. They are taken once; the message stays.
  [[nodiscard]] std::optional<Noise::Keys> take_keys();

 private:
  std::shared_ptr<const Secret> secret_;
  Hmac hello_key_;
  RandomKeys random_;
  CipherKind wanted_;
  EpochPair epochs_;
  bool initiator_ = false;
  CipherKind cipher_ = CipherKind::kAesGcm;
  std::optional<Noise> noise_;  // of the initiator that waits for the answer
  std::optional<Noise::Keys> keys_;
  std::array<std::byte, kMessageBytes> message_{};   // ours
  std::array<std::byte, kMessageBytes> received_{};  // the peer's, of the responder
};

}  // namespace braid::stack
