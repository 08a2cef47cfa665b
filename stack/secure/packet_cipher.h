// The two halves of a connection's protection: packets that leave are sealed, those that arrive are opened. Each
// direction has a key of its own.
//
//   header (readable, authenticated) | records, sealed | number (8) | tag (16)
//
// The number counts the packets of this direction, from 0; it is the nonce. The key changes every 2^20 packets, to
// one that follows from it: a packet's number tells its key. Packets may be lost and overtake each other, so the
// opener has the keys before and after the newest, too (SE-6, SE-7).
//
// Pure. Contexts and room are made at construction; a packet allocates nothing. Keys are wiped when they are replaced.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "stack/secure/aead.h"
#include "stack/secure/replay_window.h"

namespace braid::stack {

// What sealing adds to a packet.
inline constexpr std::size_t kSealBytes = 8 + Aead::kTagBytes;
inline constexpr unsigned kPacketsPerKeyBits = 20;

class PacketSealer {
 public:
  void start(CipherKind cipher, KeyView key, std::uint64_t number = 0);
  void stop();
  // Seals what follows the header in its place, and writes kSealBytes behind it; returns the whole length.
  std::size_t seal(std::byte* packet, std::size_t header_bytes, std::size_t bytes);

 private:
  CipherKind cipher_ = CipherKind::kAesGcm;
  Aead key_{Aead::Use::kSeal};
  std::uint64_t number_ = 0;  // of the next packet
};

enum class Opening : std::uint8_t {
  kOpened,
  kForged,    // nobody with the key has sealed this
  kReplayed,  // it was opened before, or may have been
};

class PacketOpener {
 public:
  void start(CipherKind cipher, KeyView key);
  void stop();
  // Writes what was sealed to `to`: sealed.size() - kSealBytes. Unless kOpened nothing has changed.
  [[nodiscard]] Opening open(ByteView header, ByteView sealed, std::byte* to);

 private:
  void move_on();

  CipherKind cipher_ = CipherKind::kAesGcm;
  Aead previous_{Aead::Use::kOpen};
  Aead current_{Aead::Use::kOpen};
  Aead next_{Aead::Use::kOpen};
  std::uint64_t generation_ = 0;  // of current_
  bool has_previous_ = false;
  bool has_next_ = false;
  ReplayWindow seen_;
};

}  // namespace braid::stack
