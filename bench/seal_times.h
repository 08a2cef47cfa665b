// What sealing a packet and opening it takes, alone.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "stack/secure/packet_cipher.h"
#include "stack/wire/segment.h"

namespace braid::bench {

// Nanoseconds.
struct SealTimes {
  double seal;
  double open;
};

// Of a packet with so many bytes behind the header.
inline SealTimes seal_times(stack::CipherKind kind, std::size_t bytes) {
  constexpr std::size_t kHeader = stack::kPacketHeaderBytes;
  const stack::KeyBytes key{};
  const int packets = bytes > 1000 ? 2000 : 20'000;
  stack::PacketSealer sealer;
  stack::PacketOpener opener;
  sealer.start(kind, key);
  opener.start(kind, key);
  std::vector<std::byte> packet(kHeader + bytes + stack::kSealBytes), room(bytes);
  std::int64_t sealing = 0, opening = 0;
  for (int batch = 0; batch < packets / 10; ++batch) {
    // Ten at a time, so that reading the clock does not count.
    std::vector<std::vector<std::byte>> sealed(10, packet);
    const Instant began = monotonic_now();
    for (auto& p : sealed) sealer.seal(p.data(), kHeader, kHeader + bytes);
    const Instant between = monotonic_now();
    for (auto& p : sealed)
      CHECK(opener.open(ByteView(p).first(kHeader), ByteView(p).subspan(kHeader), room.data()) ==
            stack::Opening::kOpened);
    const Instant ended = monotonic_now();
    sealing += (between - began).ns();
    opening += (ended - between).ns();
  }
  return {static_cast<double>(sealing) / packets, static_cast<double>(opening) / packets};
}

}  // namespace braid::bench
