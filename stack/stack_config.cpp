#include "stack/stack_config.h"

#include <algorithm>

#include "base/check.h"
#include "stack/outgoing.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {
namespace {

// The longest piece, and the longest headers before it.
constexpr std::size_t kWholePiecePacketBytes = kMaxPacketHeaderBytes + kPartRecordBytes + kMaxPieceBytes;
static_assert(kWholePiecePacketBytes + kSealBytes <= kUdpMaxPayloadBytes);

}  // namespace

void check(const StackConfig& config) {
  CHECK(!config.interfaces.empty());
  CHECK_GE(config.mtu_bytes, kMinMtuBytes);
  for (const RemoteStack& remote : config.remotes) {
    CHECK_LT(remote.id.cluster.value(), kMaxClusters);
    CHECK_LT(remote.id.proxy.value(), kMaxProxiesPerCluster);
    CHECK_LT(remote.link.value(), config.interfaces.size());
  }
}

std::vector<LocalLink> local_links(const StackConfig& config) {
  std::vector<LocalLink> links;
  for (std::uint16_t i = 0; i < config.interfaces.size(); ++i) {
    const Interface& own = config.interfaces[i];
    // With static neighbours only no host learns from it. One proxy announces for the whole node.
    const bool announce = config.local.proxy == ProxyId(0) &&
                          std::any_of(config.remotes.begin(), config.remotes.end(),
                                      [&](const auto& r) { return r.link == LinkId(i) && !r.mac; });
    links.push_back({LinkId(i), own.mac, own.address, announce});
  }
  return links;
}

NeighboursConfig neighbours_config(const StackConfig& config) {
  NeighboursConfig n;
  n.capacity = std::max<std::uint32_t>(n.capacity, static_cast<std::uint32_t>(2 * config.remotes.size()));
  return n;
}

IpSenderConfig sender_config(const StackConfig& config) {
  return {.mtu_bytes = config.mtu_bytes,
          .queued_packets = config.outgoing_packets,
          .arp_timeout = config.arp_timeout,
          .proxies = config.proxies,
          .long_packets = config.fragmentation == Fragmentation::kIp};
}

// IP-3
std::size_t max_payload_bytes(Fragmentation fragmentation, std::uint32_t mtu_bytes, std::size_t seal_bytes) {
  if (fragmentation == Fragmentation::kIp)
    return std::min(kWholePiecePacketBytes + seal_bytes,
                    kMaxFragments * fragment_payload_bytes(mtu_bytes) - kUdpHeaderBytes);
  return mtu_bytes - kIpv4HeaderBytes - kUdpHeaderBytes;
}

std::uint32_t max_train_bytes(std::size_t max_payload_bytes) {
  const std::size_t room = max_payload_bytes - kSealBytes - kMaxPacketHeaderBytes - kMaxRecordHeaderBytes;
  return std::min(kMaxTrainBytes, static_cast<std::uint32_t>(room / kTrainAlignment * kTrainAlignment));
}

SubConnectionConfig sub_connection_config(const StackConfig& config, const RemoteStack& remote) {
  SubConnectionConfig sub = config.sub_connection;
  sub.local = remote.names ? remote.names->us : config.local;
  sub.remote = remote.names ? remote.names->it : remote.id;
  if (remote.names) sub.shared_hash = remote.names->shared_hash;
  sub.incarnation = remote.incarnation;
  sub.wanted_source_port = remote.wanted_source_port;
  sub.max_payload_bytes = max_payload_bytes(config);
  if (!remote.is_sealed) sub.security = {};
  return sub;
}

}  // namespace braid::stack
