#include "proxy/daemon/introduction.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace braid::proxy {
namespace {

using stack::Ipv4Address;

constexpr std::uint32_t kMagic = 0x49647262;  // "brdI"
constexpr std::uint8_t kVersion = 1;

// The first difference, and the setting to change.
std::string difference(const Introduction::Link& ours, const Introduction::Link& theirs) {
  if (ours.mtu_bytes != theirs.mtu_bytes)
    return fmt::format("transport.mtu_bytes is {} there and {} here: set both alike", theirs.mtu_bytes,
                       ours.mtu_bytes);
  if (ours.window_packets != theirs.window_packets)
    return fmt::format("transport.window_packets is {} there and {} here: set both alike",
                       theirs.window_packets, ours.window_packets);
  if (ours.fragmentation != theirs.fragmentation)
    return "transport.fragmentation is another there: set both alike";
  return "transport.all_pairs is another there: set both alike";
}

}  // namespace

IntroductionBytes write_introduction(const Introduction& i) {
  CHECK_LE(i.addresses.size(), kMaxNis);
  IntroductionBytes bytes{};
  std::byte* const at = bytes.data();
  store(at, kMagic);
  store(at + 4, kVersion);
  store(at + 5, static_cast<std::uint8_t>(i.kind));
  store(at + 6, static_cast<std::uint8_t>(i.reason));
  store(at + 7, static_cast<std::uint8_t>(i.addresses.size()));
  store(at + 8, i.nonce);
  store(at + 16, i.incarnation);
  store(at + 24, i.cluster.value());
  store(at + 26, i.slot.value());
  store(at + 28, i.proxies);
  store(at + 30, i.udp_port);
  store(at + 32, i.link.mtu_bytes);
  store(at + 36, i.link.window_packets);
  store(at + 38, static_cast<std::uint8_t>(i.link.fragmentation));
  store(at + 39, static_cast<std::uint8_t>(i.link.all_pairs));
  for (std::size_t n = 0; n < i.addresses.size(); ++n) store(at + 40 + 4 * n, i.addresses[n].value());
  return bytes;
}

std::optional<Introduction> parse_introduction(ByteView bytes) {
  if (bytes.size() != kIntroductionBytes) return std::nullopt;
  const std::byte* const at = bytes.data();
  const auto kind = load<std::uint8_t>(at + 5), reason = load<std::uint8_t>(at + 6);
  const auto nis = load<std::uint8_t>(at + 7);
  const auto fragmentation = load<std::uint8_t>(at + 38), all_pairs = load<std::uint8_t>(at + 39);
  if (load<std::uint32_t>(at) != kMagic || load<std::uint8_t>(at + 4) != kVersion || kind < 1 ||
      kind > static_cast<std::uint8_t>(Introduction::Kind::kRefusal) ||
      reason > static_cast<std::uint8_t>(Introduction::Reason::kBusy) || nis < 1 || nis > kMaxNis ||
      fragmentation > static_cast<std::uint8_t>(stack::Fragmentation::kIp) || all_pairs > 1)
    return std::nullopt;
  Introduction i;
  i.kind = static_cast<Introduction::Kind>(kind);
  i.reason = static_cast<Introduction::Reason>(reason);
  i.nonce = load<std::uint64_t>(at + 8);
  i.incarnation = load<std::uint64_t>(at + 16);
  i.cluster = ClusterId(load<std::uint16_t>(at + 24));
  i.slot = ClusterId(load<std::uint16_t>(at + 26));
  i.proxies = load<std::uint16_t>(at + 28);
  i.udp_port = load<std::uint16_t>(at + 30);
  i.link.mtu_bytes = load<std::uint32_t>(at + 32);
  i.link.window_packets = load<std::uint16_t>(at + 36);
  i.link.fragmentation = static_cast<stack::Fragmentation>(fragmentation);
  i.link.all_pairs = all_pairs == 1;
  for (std::size_t n = 0; n < nis; ++n) {
    const Ipv4Address address(load<std::uint32_t>(at + 40 + 4 * n));
    if (!address.is_unicast() || contains(i.addresses, address)) return std::nullopt;
    i.addresses.push_back(address);
  }
  if (i.proxies < 1 || i.proxies > stack::kMaxProxiesPerCluster || i.udp_port < 1 ||
      i.udp_port + i.proxies - 1 > 65535 || i.cluster.value() >= stack::kMaxClusters ||
      i.slot.value() >= stack::kMaxClusters)
    return std::nullopt;
  return i;
}

std::string to_string(const Ipv4Addresses& addresses) {
  std::string text;
  for (const Ipv4Address a : addresses) text += (text.empty() ? "" : ", ") + a.to_string();
  return text;
}

bool contains(const Ipv4Addresses& all, Ipv4Address one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

bool intersect(const Ipv4Addresses& a, const Ipv4Addresses& b) {
  return std::any_of(a.begin(), a.end(), [&](Ipv4Address x) { return contains(b, x); });
}

std::string foreign_address(const Ipv4Addresses& addresses, const Ipv4Addresses& clusters) {
  for (const Ipv4Address a : addresses)
    if (!contains(clusters, a))
      return fmt::format("{} is not an address of the cluster at {}", a.to_string(), to_string(clusters));
  return {};
}

std::string answer_problem(const Introduction& answer, Ipv4Address from, const Introduction& self,
                           std::uint16_t max_proxies, const Ipv4Addresses& called) {
  if (answer.incarnation == self.incarnation) return fmt::format("{} is this node itself", from.to_string());
  if (answer.link != self.link) return difference(self.link, answer.link);
  if (answer.proxies > max_proxies)
    return fmt::format("the cluster there has {} proxies and machines.max_proxies is {} here", answer.proxies,
                       max_proxies);
  return foreign_address(called, answer.addresses);
}

std::string refusal_text(const Introduction& refusal, Ipv4Address from, const Introduction& self) {
  const auto text = [&](const std::string& why) { return from.to_string() + " " + why; };
  switch (refusal.reason) {
    case Introduction::Reason::kNone:
    case Introduction::Reason::kBusy:
      break;
    case Introduction::Reason::kNotAllowed:
      return text("does not let other machines in: set machines.accept in its configuration");
    case Introduction::Reason::kDifferent:
      return text("has another configuration: " + difference(self.link, refusal.link));
    case Introduction::Reason::kTooManyProxies:
      return text(fmt::format("takes clusters of at most {} proxies (machines.max_proxies), and this has {}",
                              refusal.proxies, self.proxies));
    case Introduction::Reason::kNoSlot:
      return text("knows as many clusters of other machines as it may (machines.slots)");
    case Introduction::Reason::kNoRoute:
      return text(fmt::format("cannot reach all of {}: give its link a gateway", to_string(self.addresses)));
  }
  return text("refuses");
}

}  // namespace braid::proxy
