// The handshake NNpsk0 of the Noise protocol framework (revision 34), with X25519 and SHA-256: two messages, after
// which both ends, and nobody else, have the same pair of keys.
//
//   initiator ── psk, e ──► responder
//             ◄── e, ee ──
//
// Both prove that they have the secret. The keys also depend on two ephemeral ones, so who learns the secret
// later reads nothing of what was sealed before. They depend on the prologue, too: ends with different ones
// do not understand each other's messages.
//
// Pure. It allocates, and belongs to handshakes. Keys are wiped with it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/secure/aead.h"
#include "stack/secure/primitives.h"

namespace braid::stack {

class Noise {
 public:
  enum class Role : std::uint8_t { kInitiator, kResponder };
  // What a message has besides its payload.
  static constexpr std::size_t kOverheadBytes = kKeyBytes + Aead::kTagBytes;
  struct Keys {
    KeyBytes send;
    KeyBytes receive;
    void wipe_all() {
      wipe(send);
      wipe(receive);
    }
  };

  // `ephemeral` is random and used for this handshake alone.
  Noise(Role role, CipherKind cipher, ByteView prologue, KeyView psk, KeyView ephemeral);
  Noise(const Noise&) = delete;
  Noise& operator=(const Noise&) = delete;
  ~Noise();

  // The initiator writes first; then each in turn. `to` holds the payload and kOverheadBytes.
  void write(ByteView payload, MutableBytes to);
  // Writes the payload to `to`, message.size() - kOverheadBytes. False: it was not made for this handshake by
  // one with the secret, and this handshake has failed.
  [[nodiscard]] bool read(ByteView message, MutableBytes to);
  bool complete() const { return messages_ == 2; }
  // When complete.
  Keys split() const;
  const Digest& hash() const { return hash_; }

 private:
  void mix_hash(ByteView bytes);
  void mix_key(ByteView key);
  void mix_key_and_hash(ByteView key);
  void use_key(KeyView key);
  void mix_ephemeral(KeyView public_key);

  Role role_;
  CipherKind cipher_;
  Digest hash_{};
  Digest chaining_{};
  KeyBytes psk_;
  KeyBytes ephemeral_;
  KeyBytes other_{};
  Aead seal_{Aead::Use::kSeal};
  Aead open_{Aead::Use::kOpen};
  std::uint64_t nonce_ = 0;
  unsigned messages_ = 0;
};

}  // namespace braid::stack
