// ICMP (RFC 792): messages about IP itself, read and written. What is answered, and how often, is the stack's
// business.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/addresses.h"
#include "stack/wire/ipv4.h"

namespace braid::stack {

inline constexpr std::size_t kIcmpHeaderBytes = 8;
// Of the packet that an error is about it quotes the header and so many bytes behind it (RFC 792): the ports.
inline constexpr std::size_t kIcmpQuotedPayloadBytes = 8;

// Types that we know; a message may carry any other.
enum class IcmpType : std::uint8_t {
  kEchoReply = 0,
  kUnreachable = 3,
  kSourceQuench = 4,
  kRedirect = 5,
  kEcho = 8,
  kTimeExceeded = 11,
  kParameterProblem = 12,
};

// About another packet? Nobody may answer such a message with another (RFC 1122, 3.2.2).
constexpr bool is_error(IcmpType type) {
  return type == IcmpType::kUnreachable || type == IcmpType::kSourceQuench || type == IcmpType::kRedirect ||
         type == IcmpType::kTimeExceeded || type == IcmpType::kParameterProblem;
}

// Why a destination could not be reached; a message may carry any other.
enum class Unreachable : std::uint8_t {
  kNetwork = 0,
  kHost = 1,
  kProtocol = 2,
  kPort = 3,
  kTooBig = 4,  // it may not be fragmented; the message says what would have fitted
};
const char* to_string(Unreachable reason);
inline constexpr std::uint8_t kReassemblyTimeExceeded = 1;  // code of kTimeExceeded

struct IcmpMessage {
  IcmpType type{};
  std::uint8_t code = 0;
  std::uint32_t rest = 0;  // echo: identifier and sequence; kTooBig: the MTU in the lower half; else 0
  ByteView body;
};

enum class IcmpParse : std::uint8_t { kOk, kTruncated, kBadChecksum };

// `bytes` is the payload of one whole IPv4 packet. Reads nothing outside it; `out` is written when kOk, and
// points into `bytes`.
[[nodiscard]] IcmpParse parse_icmp(ByteView bytes, IcmpMessage& out);

// The part of an ICMP error that quotes the packet it is about.
struct IcmpQuote {
  Ipv4Address source;
  Ipv4Address destination;
  IpProtocol protocol{};
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};
// `body` is that of an error. False if it quotes too little, or no packet's beginning.
[[nodiscard]] bool parse_icmp_quote(ByteView body, IcmpQuote& out);

// Writes kIcmpHeaderBytes to the front of `at`, which has room for them; returns their number. `body_sum` is
// the sum (checksum_add, copy_and_sum) over the body that follows.
std::size_t write_icmp(MutableBytes at, IcmpType type, std::uint8_t code, std::uint32_t rest,
                       std::uint64_t body_sum);

}  // namespace braid::stack
