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
#include <span>

#include "base/bytes.h"
#include "stack/secure/aead.h"
#include "stack/secure/key_observer.h"
#include "stack/secure/replay_window.h"

namespace braid::stack {

// What sealing adds to a packet.
inline constexpr std::size_t kSealBytes = 8 + Aead::kTagBytes;
inline constexpr unsigned kPacketsPerKeyBits = 20;

// Which of a direction's keys seals the packet of this number (SE-7).
constexpr std::uint64_t generation_of(std::uint64_t number) {
  return number >> kPacketsPerKeyBits;
}
// The number of a packet; `sealed`, what follows its header, has at least kSealBytes.
inline std::uint64_t packet_number(ByteView sealed) {
  return load<std::uint64_t>(sealed.data() + sealed.size() - kSealBytes);
}
// Opens a packet with the key that its number has, whether or not it was opened before: writes sealed.size() - kSealBytes to
// `to`, which may be where they lie. False: another key has sealed it, or nobody; what was written means nothing.
[[nodiscard]] bool open_packet(Aead& key, ByteView header, ByteView sealed, std::byte* to);

class PacketSealer {
 public:
  // `key` is that of `number`, which the next packet has. `use`: who is told of it and of those that follow.
  void start(CipherKind cipher, KeyView key, std::uint64_t number = 0, const KeyUse& use = {});
  void stop();
  // Seals what follows the header in its place, and writes kSealBytes behind it; returns the whole length. `elsewhere`:
  // as Aead::seal().
  std::size_t seal(std::byte* packet, std::size_t header_bytes, std::size_t bytes,
                   std::span<const PartElsewhere> elsewhere = {});

 private:
  CipherKind cipher_ = CipherKind::kAesGcm;
  KeyUse use_;
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
  void start(CipherKind cipher, KeyView key, const KeyUse& use = {});
  void stop();
  // Writes what was sealed to `to`: sealed.size() - kSealBytes. Unless kOpened nothing has changed.
  [[nodiscard]] Opening open(ByteView header, ByteView sealed, std::byte* to);
  // The number behind the newest that was opened.
  std::uint64_t end() const { return seen_.end(); }

 private:
  void move_on();

  CipherKind cipher_ = CipherKind::kAesGcm;
  KeyUse use_;
  Aead previous_{Aead::Use::kOpen};
  Aead current_{Aead::Use::kOpen};
  Aead next_{Aead::Use::kOpen};
  std::uint64_t generation_ = 0;  // of current_
  bool has_previous_ = false;
  bool has_next_ = false;
  ReplayWindow seen_;
};

}  // namespace braid::stack
