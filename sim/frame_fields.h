// The fields of a frame that a virtual network looks at, where stacks write them: after an Ethernet header without
// tags and an IP header without options. Nothing is validated: that is the receiving stack's part.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ethernet.h"

namespace braid::sim {

inline bool has_ethernet_type(ByteView frame, std::uint16_t type) {
  return frame.size() > kEthernetHeaderBytes && load_be<std::uint16_t>(frame.data() + 12) == type;
}
inline bool is_ipv4(ByteView frame) {
  return has_ethernet_type(frame, 0x0800);
}
inline bool is_arp(ByteView frame) {
  return has_ethernet_type(frame, 0x0806);
}
// To all stations.
inline bool is_broadcast(ByteView frame) {
  constexpr std::size_t kMacBytes = 6;
  return frame.size() >= kMacBytes && std::all_of(frame.begin(), frame.begin() + kMacBytes,
                                                  [](std::byte b) { return b == std::byte{0xff}; });
}

// The UDP ports of an IP packet; nullopt: the frame is of another kind, or too short.
inline std::optional<std::uint16_t> source_port(ByteView frame) {
  constexpr std::size_t kAt = kEthernetHeaderBytes + 20;
  if (!is_ipv4(frame) || frame.size() < kAt + 2) return {};
  return load_be<std::uint16_t>(frame.data() + kAt);
}
inline std::optional<std::uint16_t> destination_port(ByteView frame) {
  constexpr std::size_t kAt = kEthernetHeaderBytes + 22;
  if (!is_ipv4(frame) || frame.size() < kAt + 2) return {};
  return load_be<std::uint16_t>(frame.data() + kAt);
}

}  // namespace braid::sim
