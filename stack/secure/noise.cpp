#include "stack/secure/noise.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/check.h"

namespace braid::stack {
Noise::Noise(Role role, CipherKind cipher, ByteView prologue, KeyView psk, KeyView ephemeral)
    : role_(role), cipher_(cipher) {
  std::copy(psk.begin(), psk.end(), psk_.begin());
  std::copy(ephemeral.begin(), ephemeral.end(), ephemeral_.begin());
  const std::string_view text = cipher == CipherKind::kAesGcm ? "Noise_NNpsk0_25519_AESGCM_SHA256"
                                                              : "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
  const ByteView name = std::as_bytes(std::span(text));
  if (name.size() <= hash_.size())
    std::copy(name.begin(), name.end(), hash_.begin());
  else
    hash_ = sha256({name});
  chaining_ = hash_;
  mix_hash(prologue);
}

Noise::~Noise() {
  wipe(chaining_);
  wipe(psk_);
  wipe(ephemeral_);
}

void Noise::mix_hash(ByteView bytes) {
  hash_ = sha256({hash_, bytes});
}

void Noise::use_key(KeyView key) {
  seal_.set_key(cipher_, key);
  open_.set_key(cipher_, key);
  nonce_ = 0;
}

void Noise::mix_key(ByteView key) {
  std::array<std::byte, 64> keys;
  hkdf_expand(hkdf_extract(chaining_, key), {}, keys);
  std::copy_n(keys.begin(), 32, chaining_.begin());
  use_key(std::span(keys).subspan<32, 32>());
  wipe(keys);
}

void Noise::mix_key_and_hash(ByteView key) {
  std::array<std::byte, 96> keys;
  hkdf_expand(hkdf_extract(chaining_, key), {}, keys);
  std::copy_n(keys.begin(), 32, chaining_.begin());
  mix_hash(std::span(keys).subspan<32, 32>());
  use_key(std::span(keys).subspan<64, 32>());
  wipe(keys);
}

// With a secret the public keys are mixed into the key, so that each handshake's first message has one of its own.
void Noise::mix_ephemeral(KeyView public_key) {
  mix_hash(public_key);
  mix_key(public_key);
}

void Noise::write(ByteView payload, MutableBytes to) {
  CHECK_EQ(to.size(), payload.size() + kOverheadBytes);
  CHECK_EQ(messages_, role_ == Role::kInitiator ? 0u : 1u);
  if (messages_ == 0) mix_key_and_hash(psk_);
  const KeyBytes own = x25519_public(ephemeral_);
  std::copy(own.begin(), own.end(), to.begin());
  mix_ephemeral(own);
  if (messages_ == 1) {
    std::optional<KeyBytes> shared = x25519(ephemeral_, other_);
    CHECK(shared.has_value());  // read() has tried it
    mix_key(*shared);
    wipe(*shared);
  }
  const MutableBytes text = to.subspan(kKeyBytes, payload.size());
  std::copy(payload.begin(), payload.end(), text.begin());
  seal_.seal(nonce_++, hash_, text, text.data() + text.size());
  mix_hash(to.subspan(kKeyBytes));
  ++messages_;
}

bool Noise::read(ByteView message, MutableBytes to) {
  CHECK_EQ(messages_, role_ == Role::kInitiator ? 1u : 0u);
  CHECK_EQ(message.size(), to.size() + kOverheadBytes);
  if (messages_ == 0) mix_key_and_hash(psk_);
  std::copy_n(message.begin(), kKeyBytes, other_.begin());
  mix_ephemeral(other_);
  std::optional<KeyBytes> shared = x25519(ephemeral_, other_);
  if (!shared) return false;
  if (messages_ == 1) mix_key(*shared);
  wipe(*shared);
  const ByteView sealed = message.subspan(kKeyBytes, to.size());
  if (!open_.open(nonce_++, hash_, sealed, sealed.data() + sealed.size(), to.data())) return false;
  mix_hash(message.subspan(kKeyBytes));
  ++messages_;
  return true;
}

Noise::Keys Noise::split() const {
  CHECK(complete());
  std::array<std::byte, 64> both;
  hkdf_expand(hkdf_extract(chaining_, {}), {}, both);
  Keys keys;
  std::copy_n(both.begin(), 32, (role_ == Role::kInitiator ? keys.send : keys.receive).begin());
  std::copy_n(both.begin() + 32, 32, (role_ == Role::kInitiator ? keys.receive : keys.send).begin());
  wipe(both);
  return keys;
}

}  // namespace braid::stack
