// ARP (RFC 826) for IPv4 over Ethernet: which station has an address. What is done with the answers is
// Neighbours' business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/addresses.h"

namespace braid::stack {

inline constexpr std::size_t kArpBytes = 28;

enum class ArpOperation : std::uint16_t { kRequest = 1, kReply = 2 };

struct ArpPacket {
  ArpOperation operation = ArpOperation::kRequest;
  MacAddress sender_mac{};
  Ipv4Address sender_ip{};
  MacAddress target_mac{};  // of no meaning in a request
  Ipv4Address target_ip{};

  // A broadcast "I have this address" without a request.
  constexpr bool is_gratuitous() const { return sender_ip == target_ip; }
  bool operator==(const ArpPacket&) const = default;
};

enum class ArpParse : std::uint8_t {
  kOk,
  kTruncated,     // shorter than kArpBytes
  kOtherKind,     // not IPv4 over Ethernet
  kBadOperation,  // neither request nor reply
  kBadSender,     // the sender's address is one that no single station has: believing it would misdirect us
};

// `bytes` is the frame's payload, padding included. Reads nothing outside it; `out` is written when kOk.
// A sender_ip of 0.0.0.0 is an address probe (RFC 5227) and is accepted in a request.
[[nodiscard]] ArpParse parse_arp(ByteView bytes, ArpPacket& out);

// Writes kArpBytes to the front of `at`, which has room for them; returns their number.
std::size_t write_arp(MutableBytes at, const ArpPacket& packet);

}  // namespace braid::stack
