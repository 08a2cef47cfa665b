// The hash, the keyed hash, the key derivation and the key agreement that keys are made with, on OpenSSL's libcrypto.
//
// Pure. Hashes allocate nothing; x25519 does, and belongs to handshakes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "base/bytes.h"
#include "stack/secure/raw_bytes.h"

namespace braid::stack {

using Digest = std::array<std::byte, 32>;
using Parts = std::initializer_list<ByteView>;  // hashed one behind the other

// FIPS 180-4
Digest sha256(Parts parts);

// HMAC-SHA256 (RFC 2104) with a key that is used often: what depends on the key alone is done once.
class Hmac {
 public:
  explicit Hmac(ByteView key);
  Hmac(const Hmac&) = delete;
  Hmac& operator=(const Hmac&) = delete;
  ~Hmac();
  Digest operator()(Parts parts) const;

 private:
  using State = std::array<std::uint32_t, 28>;  // a SHA256_CTX
  State inner_;
  State outer_;
};
Digest hmac(ByteView key, Parts parts);

// HKDF-SHA256 (RFC 5869). Of expansion: up to 255 * 32 bytes.
Digest hkdf_extract(ByteView salt, ByteView key);
void hkdf_expand(const Digest& extracted, ByteView info, MutableBytes to);

// X25519 (RFC 7748).
KeyBytes x25519_public(KeyView private_key);
// nullopt: all zero, so the other's key is one of the few that make every result equal (RFC 7748, 6.1).
[[nodiscard]] std::optional<KeyBytes> x25519(KeyView private_key, KeyView public_key);

// Keys from one seed: each is a keyed hash of a state that is replaced after it, so a later state tells of no
// earlier key. Two with the same seed give the same keys.
class RandomKeys {
 public:
  explicit RandomKeys(KeyView seed) { std::copy(seed.begin(), seed.end(), state_.begin()); }
  RandomKeys(const RandomKeys&) = delete;
  RandomKeys& operator=(const RandomKeys&) = delete;
  ~RandomKeys() { wipe(state_); }
  KeyBytes next();

 private:
  KeyBytes state_;
};

}  // namespace braid::stack
