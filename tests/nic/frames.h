// Frames for the tests of wires: numbered ones whose every byte is known, and correct Ethernet/IPv4/UDP ones
// whose checksums are computed here, apart from the code that is under test.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ethernet.h"
#include "proxy/nic/nic_queue.h"

namespace braid::proxy::test {

inline constexpr std::uint32_t kEthernetBytes = kEthernetHeaderBytes;
inline constexpr std::uint32_t kUdpPayloadOffset = kEthernetBytes + 20 + 8;
inline constexpr std::uint16_t kTestEtherType = 0x88b5;  // IEEE 802: for local experiments
inline constexpr std::uint32_t kNumberedHeaderBytes = kEthernetBytes + 8;

// The byte at `offset` of the frame with this number; a torn or stale frame does not match.
inline std::byte pattern(std::uint64_t number, std::uint32_t offset) {
  return static_cast<std::byte>((number * 131 + offset * 7) >> 1);
}

// A number, then a pattern made from it; `length` >= kNumberedHeaderBytes.
inline void write_numbered(std::byte* frame, std::uint32_t length, std::uint64_t number) {
  CHECK_GE(length, kNumberedHeaderBytes);
  std::fill_n(frame, 12, std::byte{0x02});
  store_be<std::uint16_t>(frame + 12, kTestEtherType);
  store_be<std::uint64_t>(frame + kEthernetBytes, number);
  for (std::uint32_t i = kNumberedHeaderBytes; i < length; ++i) frame[i] = pattern(number, i);
}

inline bool is_numbered(ByteView frame) {
  return frame.size() >= kNumberedHeaderBytes && load_be<std::uint16_t>(frame.data() + 12) == kTestEtherType;
}
inline std::uint64_t number_of(ByteView frame) {
  return load_be<std::uint64_t>(frame.data() + kEthernetBytes);
}
inline bool pattern_holds(ByteView frame) {
  const std::uint64_t number = number_of(frame);
  for (std::uint32_t i = kNumberedHeaderBytes; i < frame.size(); ++i) {
    if (frame[i] != pattern(number, i)) return false;
  }
  return true;
}

// Offers numbered frames [first, first + count) to the queue, in one burst; returns how many it took.
template <std::invocable<std::uint64_t> LengthOf>
std::size_t send_numbered(NicQueue& queue, std::uint64_t first, std::size_t count, LengthOf length_of) {
  std::array<TxFrame, kMaxBurst> frames;
  const std::size_t offered = queue.reserve(std::span(frames).first(std::min(count, kMaxBurst)));
  for (std::size_t i = 0; i < offered; ++i) {
    frames[i].length = length_of(first + i);
    write_numbered(frames[i].data, frames[i].length, first + i);
  }
  queue.commit(std::span(frames).first(offered));
  return offered;
}
inline std::size_t send_numbered(NicQueue& queue, std::uint64_t first, std::size_t count,
                                 std::uint32_t length = kNumberedHeaderBytes) {
  return send_numbered(queue, first, count, [length](std::uint64_t) { return length; });
}

// The ones' complement sum of RFC 1071, byte pair by byte pair; `sum` carries on from another range.
inline std::uint32_t internet_sum(ByteView bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

// Ethernet, IPv4 and UDP around `payload_bytes` bytes of a pattern, with right checksums.
inline std::vector<std::byte> udp_frame(std::uint64_t number, std::uint32_t payload_bytes) {
  std::vector<std::byte> frame(kUdpPayloadOffset + payload_bytes);
  std::byte* const ip = frame.data() + kEthernetBytes;
  std::byte* const udp = ip + 20;
  std::fill_n(frame.data(), 12, std::byte{0x02});
  store_be<std::uint16_t>(frame.data() + 12, 0x0800);
  ip[0] = std::byte{0x45};
  store_be<std::uint16_t>(ip + 2, static_cast<std::uint16_t>(28 + payload_bytes));
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  store_be<std::uint32_t>(ip + 12, 0x0a000001);
  store_be<std::uint32_t>(ip + 16, 0x0a000002);
  store_be<std::uint16_t>(ip + 10, static_cast<std::uint16_t>(~internet_sum(ByteView(ip, 20))));
  store_be<std::uint16_t>(udp, 5000);
  store_be<std::uint16_t>(udp + 2, 5001);
  store_be<std::uint16_t>(udp + 4, static_cast<std::uint16_t>(8 + payload_bytes));
  for (std::uint32_t i = 0; i < payload_bytes; ++i) udp[8 + i] = pattern(number, i);
  if (payload_bytes >= 8) store_be<std::uint64_t>(udp + 8, number);
  std::uint32_t sum = internet_sum(ByteView(ip + 12, 8), 17 + 8 + payload_bytes);
  sum = internet_sum(ByteView(udp, 8 + payload_bytes), sum);
  const auto checksum = static_cast<std::uint16_t>(~sum);
  store_be<std::uint16_t>(udp + 6, checksum == 0 ? std::uint16_t{0xffff} : checksum);
  return frame;
}

inline bool ip_checksum_holds(ByteView frame) {
  return internet_sum(frame.subspan(kEthernetBytes, 20)) == 0xffff;
}
// Only for frames whose lengths are intact.
inline bool udp_checksum_holds(ByteView frame) {
  const ByteView udp = frame.subspan(kEthernetBytes + 20);
  const std::uint32_t sum =
      internet_sum(frame.subspan(kEthernetBytes + 12, 8), static_cast<std::uint32_t>(17 + udp.size()));
  return internet_sum(udp, sum) == 0xffff;
}

}  // namespace braid::proxy::test
