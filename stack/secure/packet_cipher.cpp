#include "stack/secure/packet_cipher.h"

#include <utility>

namespace braid::stack {
namespace {

// `to` gets the key after that of `from`, of this generation.
void follow(CipherKind cipher, Aead& from, Aead& to, const KeyUse& use, std::uint64_t generation) {
  KeyBytes key = from.next_key();
  to.set_key(cipher, key);
  use.tell(cipher, generation, key);
  wipe(key);
}

}  // namespace

bool open_packet(Aead& key, ByteView header, ByteView sealed, std::byte* to) {
  const std::size_t bytes = sealed.size() - kSealBytes;
  const std::uint64_t number = packet_number(sealed);
  return key.open(number, header, sealed.first(bytes), sealed.data() + bytes + sizeof number, to);
}

void PacketSealer::start(CipherKind cipher, KeyView key, std::uint64_t number, const KeyUse& use) {
  cipher_ = cipher;
  use_ = use;
  key_.set_key(cipher, key);
  number_ = number;
  use_.tell(cipher, generation_of(number), key);
}

void PacketSealer::stop() {
  key_.forget();
}

std::size_t PacketSealer::seal(std::byte* packet, std::size_t header_bytes, std::size_t bytes,
                               std::span<const PartElsewhere> elsewhere) {
  const std::uint64_t number = number_++;
  if (number != 0 && generation_of(number) != generation_of(number - 1)) [[unlikely]]  // SE-7
    follow(cipher_, key_, key_, use_, generation_of(number));
  store(packet + bytes, number);
  key_.seal(number, {packet, header_bytes}, {packet + header_bytes, bytes - header_bytes},
            packet + bytes + sizeof number, elsewhere);
  return bytes + kSealBytes;
}

void PacketOpener::start(CipherKind cipher, KeyView key, const KeyUse& use) {
  stop();
  cipher_ = cipher;
  use_ = use;
  current_.set_key(cipher, key);
  use_.tell(cipher, generation_, key);
}

void PacketOpener::stop() {
  previous_.forget();
  current_.forget();
  next_.forget();
  generation_ = 0;
  has_previous_ = has_next_ = false;
  seen_ = ReplayWindow();
}

Opening PacketOpener::open(ByteView header, ByteView sealed, std::byte* to) {
  if (sealed.size() < kSealBytes) return Opening::kForged;
  const std::uint64_t number = packet_number(sealed);
  if (!seen_.is_new(number)) return Opening::kReplayed;  // SE-6
  const std::uint64_t generation = generation_of(number);
  Aead* key = &current_;
  if (generation != generation_) [[unlikely]] {  // SE-7
    if (generation == generation_ + 1) {
      if (!has_next_) follow(cipher_, current_, next_, use_, generation);
      has_next_ = true;
      key = &next_;
    } else if (has_previous_ && generation + 1 == generation_) {
      key = &previous_;
    } else {
      return Opening::kForged;
    }
  }
  if (!open_packet(*key, header, sealed, to)) return Opening::kForged;
  seen_.mark(number);
  if (key == &next_) move_on();
  // No packet of the key before can be taken any more.
  if (has_previous_ && generation_of(seen_.oldest()) == generation_) [[unlikely]] {
    previous_.forget();
    has_previous_ = false;
  }
  return Opening::kOpened;
}

void PacketOpener::move_on() {
  previous_.forget();
  std::swap(previous_, current_);
  std::swap(current_, next_);
  has_previous_ = true;
  has_next_ = false;
  ++generation_;
}

}  // namespace braid::stack
