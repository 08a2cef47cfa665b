// Ethernet, IPv4 and UDP around a payload, with correct lengths and checksums, apart from the code under test:
// a fuzzer that had to guess checksums would not get past them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/ethernet.h"

namespace braid::fuzz {

struct FrameEnds {
  std::uint8_t source_mac[6];
  std::uint8_t destination_mac[6];
  std::uint32_t source_address;
  std::uint32_t destination_address;
  std::uint16_t source_port;
  std::uint16_t destination_port;
};

inline constexpr std::size_t kEthernetBytes = kEthernetHeaderBytes;
inline constexpr std::size_t kIpv4Bytes = 20;
inline constexpr std::size_t kUdpBytes = 8;
inline constexpr std::size_t kPayloadAt = kEthernetBytes + kIpv4Bytes + kUdpBytes;

inline std::uint32_t internet_sum(ByteView bytes, std::uint32_t sum = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    sum = (sum & 0xffff) + (sum >> 16);
  }
  return sum;
}

inline void put_ethernet(std::byte* to, const FrameEnds& ends, std::uint16_t type) {
  std::memcpy(to, ends.destination_mac, 6);
  std::memcpy(to + 6, ends.source_mac, 6);
  store_be<std::uint16_t>(to + 12, type);
}

// A header of 20 bytes; `fragment` is the field of flags and offset.
inline void put_ipv4(std::byte* to, const FrameEnds& ends, std::uint8_t protocol, std::size_t payload_bytes,
                     std::uint16_t id = 0, std::uint16_t fragment = 0x4000) {
  std::fill_n(to, kIpv4Bytes, std::byte{0});
  to[0] = std::byte{0x45};
  store_be<std::uint16_t>(to + 2, static_cast<std::uint16_t>(kIpv4Bytes + payload_bytes));
  store_be<std::uint16_t>(to + 4, id);
  store_be<std::uint16_t>(to + 6, fragment);
  to[8] = std::byte{64};
  to[9] = static_cast<std::byte>(protocol);
  store_be<std::uint32_t>(to + 12, ends.source_address);
  store_be<std::uint32_t>(to + 16, ends.destination_address);
  store_be<std::uint16_t>(to + 10, static_cast<std::uint16_t>(~internet_sum(ByteView(to, kIpv4Bytes))));
}

// Corrects the checksum of the datagram at `udp`.
inline void fix_udp_checksum(MutableBytes udp, std::uint32_t source, std::uint32_t destination) {
  store_be<std::uint16_t>(udp.data() + 6, 0);
  std::byte pseudo[8];
  store_be(pseudo, source);
  store_be(pseudo + 4, destination);
  std::uint32_t sum = internet_sum(ByteView(pseudo, 8), static_cast<std::uint32_t>(17 + udp.size()));
  sum = internet_sum(udp, (sum & 0xffff) + (sum >> 16));
  const auto checksum = static_cast<std::uint16_t>(~sum);
  store_be<std::uint16_t>(udp.data() + 6, checksum == 0 ? std::uint16_t{0xffff} : checksum);
}

inline std::vector<std::byte> udp_datagram(const FrameEnds& ends, ByteView payload) {
  std::vector<std::byte> udp(kUdpBytes + payload.size());
  store_be(udp.data(), ends.source_port);
  store_be(udp.data() + 2, ends.destination_port);
  store_be<std::uint16_t>(udp.data() + 4, static_cast<std::uint16_t>(udp.size()));
  std::copy(payload.begin(), payload.end(), udp.begin() + kUdpBytes);
  fix_udp_checksum(udp, ends.source_address, ends.destination_address);
  return udp;
}

inline std::vector<std::byte> ipv4_frame(const FrameEnds& ends, std::uint8_t protocol, ByteView payload,
                                         std::uint16_t id = 0, std::uint16_t fragment = 0x4000) {
  std::vector<std::byte> frame(kEthernetBytes + kIpv4Bytes + payload.size());
  put_ethernet(frame.data(), ends, 0x0800);
  put_ipv4(frame.data() + kEthernetBytes, ends, protocol, payload.size(), id, fragment);
  std::copy(payload.begin(), payload.end(), frame.begin() + kEthernetBytes + kIpv4Bytes);
  return frame;
}

inline std::vector<std::byte> udp_frame(const FrameEnds& ends, ByteView payload) {
  return ipv4_frame(ends, 17, udp_datagram(ends, payload));
}

// Corrects both checksums of a frame with an IPv4 header of 20 bytes and a whole datagram.
inline void fix_checksums(MutableBytes frame) {
  if (frame.size() < kPayloadAt) return;
  std::byte* const ip = frame.data() + kEthernetBytes;
  store_be<std::uint16_t>(ip + 10, 0);
  store_be<std::uint16_t>(ip + 10, static_cast<std::uint16_t>(~internet_sum(ByteView(ip, kIpv4Bytes))));
  fix_udp_checksum(frame.subspan(kEthernetBytes + kIpv4Bytes), load_be<std::uint32_t>(ip + 12),
                   load_be<std::uint32_t>(ip + 16));
}

}  // namespace braid::fuzz
