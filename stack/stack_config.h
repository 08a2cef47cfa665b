// The configuration of a stack, and the configurations of its parts that follow from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/limits.h"
#include "base/time.h"
#include "stack/fragmentation.h"
#include "stack/interface.h"
#include "stack/ip_sender.h"
#include "stack/neighbours.h"
#include "stack/reassembly.h"
#include "stack/remote.h"
#include "stack/sub_connection_config.h"
#include "stack/udp_ports.h"
#include "stack/wire/segment.h"

namespace braid::stack {

using braid::kMaxClusters;

struct StackConfig {
  StackId local;
  std::vector<Interface> interfaces;   // by link, at least one
  std::uint16_t udp_port_base = 7700;  // proxy i of this node listens on base + i
  std::uint16_t proxies = 1;           // of this node: whose ports are ours to hand over
  std::uint32_t mtu_bytes = 1500;
  Fragmentation fragmentation = Fragmentation::kTransport;
  ReassemblyConfig reassembly;
  // Datagrams and ICMP messages that may wait to leave, each of 64 KiB of address space; one more is dropped.
  std::uint32_t outgoing_packets = 16;
  Duration arp_timeout = 3_s;  // with ARP; then they are dropped
  // ICMP errors about packets that nothing here takes: enough for a person who tries, few in a flood.
  std::uint32_t icmp_errors_per_second = 100;
  std::uint32_t icmp_errors_at_once = 20;
  SubConnectionConfig
      sub_connection;  // local, remote and max_payload_bytes are filled in; `security` is all remotes'
  std::vector<RemoteStack> remotes;
  std::uint64_t seed = 1;  // of epochs and of packets' identifications
};

// Every IPv4 host must accept this size (RFC 791); below it our longest headers may not fit.
inline constexpr std::uint32_t kMinMtuBytes = 576;

// Stops the program unless there is a link, the MTU is kMinMtuBytes at least, and every remote is one that a stack
// can have, on one of the links.
void check(const StackConfig& config);

// The station on each link. It announces its address if this is proxy 0 and another host may learn from that.
std::vector<LocalLink> local_links(const StackConfig& config);
// With room for all remotes, and as many others.
NeighboursConfig neighbours_config(const StackConfig& config);
IpSenderConfig sender_config(const StackConfig& config);
// Of a UDP datagram of a sub-connection (SC-6): what fits the MTU, or with fragmentation by IP a whole piece, as far as
// it takes no more than kMaxFragments (IP-3). `seal_bytes`: what sealing adds.
std::size_t max_payload_bytes(Fragmentation fragmentation, std::uint32_t mtu_bytes,
                              std::size_t seal_bytes = 0);
inline std::size_t max_payload_bytes(const StackConfig& config) {
  return max_payload_bytes(config.fragmentation, config.mtu_bytes, seal_bytes(config.sub_connection));
}
// Of a train, so that its record fits into every packet with such a payload, sealed or not.
std::uint32_t max_train_bytes(std::size_t max_payload_bytes);
// Of the sub-connection to `remote`: what its packets call the two ends, and what those have in common.
SubConnectionConfig sub_connection_config(const StackConfig& config, const RemoteStack& remote);

}  // namespace braid::stack
