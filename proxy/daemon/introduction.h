// The datagram by which two nodes of different machines introduce themselves, before there is any sub-connection
// between them, and what the two must have in common. The texts name the setting to change; they are for the
// client's user.
//
// Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "stack/fragmentation.h"
#include "stack/stack.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

struct Introduction {
  enum class Kind : std::uint8_t { kCall = 1, kAnswer, kRefusal };
  enum class Reason : std::uint8_t {
    kNone,
    kNotAllowed,      // the node does not accept other machines
    kDifferent,       // the two differ in `link`
    kTooManyProxies,  // the caller has more than `proxies`, the most that the node accepts
    kNoSlot,          // all slots are taken
    kNoRoute,         // one of the caller's addresses cannot be reached from there
    kBusy,            // an earlier incarnation of the caller is not lost there yet: call again
  };
  // Must be equal on both sides.
  struct Link {
    std::uint32_t mtu_bytes = 0;
    std::uint16_t window_packets = 0;
    stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;
    bool all_pairs = false;
    bool operator==(const Link&) const = default;
  };
  Kind kind = Kind::kCall;
  Reason reason = Reason::kNone;
  std::uint64_t nonce = 0;        // the caller's, repeated in answer and refusal
  std::uint64_t incarnation = 0;  // of the sender's node
  ClusterId cluster;              // the number of the sender's cluster in its own machine
  ClusterId slot;                 // the sender's slot for the receiver's cluster
  std::uint16_t proxies = 0;
  std::uint16_t udp_port = 0;  // of proxy 0
  Link link;
  std::vector<stack::Ipv4Address> addresses;  // of the sender's NIs, 1 .. kMaxNis
};
inline constexpr std::size_t kIntroductionBytes = 72;
using IntroductionBytes = std::array<std::byte, kIntroductionBytes>;
IntroductionBytes write_introduction(const Introduction& introduction);
// nullopt: the bytes are no introduction, or a field is out of range.
std::optional<Introduction> parse_introduction(ByteView bytes);

using Ipv4Addresses = std::vector<stack::Ipv4Address>;
bool contains(const Ipv4Addresses& all, stack::Ipv4Address one);
bool intersect(const Ipv4Addresses& a, const Ipv4Addresses& b);
// "10.0.0.1, 10.0.0.2"
std::string to_string(const Ipv4Addresses& addresses);

// Names an address that is not one of the cluster's; empty if all are.
std::string foreign_address(const Ipv4Addresses& addresses, const Ipv4Addresses& clusters);
// Why the node `self`, which accepts at most `max_proxies`, cannot use the answer of `from`, which it called at
// the addresses `called`. Empty: it can.
std::string answer_problem(const Introduction& answer, stack::Ipv4Address from, const Introduction& self,
                           std::uint16_t max_proxies, const Ipv4Addresses& called);
// Why `from` refuses a connection with the node `self`. `refusal.reason` is neither kNone nor kBusy.
std::string refusal_text(const Introduction& refusal, stack::Ipv4Address from, const Introduction& self);

}  // namespace braid::proxy
