// The configuration of one node's braidd. `braid run` writes it as JSON for each of its daemons; on a host of
// a real cluster it is a file (docs/OPERATIONS.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "convergence/peer_choice.h"
#include "proxy/nic/steering.h"
#include "settings/security.h"
#include "settings/transport.h"
#include "stack/secure/secret.h"

namespace braid::settings {

struct LinkConfig {
  enum class Kind : std::uint8_t { kShm, kEthdev, kUdp, kXdp, kPacket };
  Kind kind = Kind::kShm;
  int fd = -1;             // shm: the wire's memory, an inherited descriptor
  bool first_side = true;  // shm: which of the two sides this node is
  std::string device;      // ethdev: the --vdev argument, "net_memif0,role=server,…"
  std::string address = {};
  std::string mac = {};
  std::uint16_t prefix_bits = 0;
  std::string gateway = {};
  proxy::Steering steering = proxy::Steering::kAuto;
};

// The node's address on such a link is one of the kernel's, which routes and resolves.
constexpr bool is_addressed_by_kernel(LinkConfig::Kind kind) {
  return kind == LinkConfig::Kind::kUdp || kind == LinkConfig::Kind::kXdp ||
         kind == LinkConfig::Kind::kPacket;
}

// Each proxy has a socket of the kernel's on such a link, so nodes may share an address and have ports of their own.
constexpr bool has_socket_of_port(LinkConfig::Kind kind) {
  return kind == LinkConfig::Kind::kUdp || kind == LinkConfig::Kind::kPacket;
}

// A network interface of a peer, and the link to it.
struct NiConfig {
  std::string address;     // IPv4, dotted
  std::string mac;         // static neighbour entry; empty: ask by ARP
  std::uint16_t link = 0;  // index into links
};

struct PeerConfig {
  std::uint16_t cluster = 0;
  std::uint16_t proxies = 1;
  std::string address;         // IPv4, dotted
  std::uint16_t udp_port = 0;  // of its proxy 0; proxy i has udp_port + i
  std::string mac;             // static neighbour entry; empty: ask by ARP
  std::uint16_t link = 0;      // index into links
  std::vector<NiConfig> more_nis = {};

  std::size_t nis() const { return 1 + more_nis.size(); }
  NiConfig ni(std::size_t i) const { return i == 0 ? NiConfig{address, mac, link} : more_nis[i - 1]; }
};

// Connections with clusters of other machines (docs/OPERATIONS.md). Both are off by default: a
// machine's own configuration decides who may connect to its listeners.
struct MachinesConfig {
  bool connect = false;
  bool accept = false;
  std::uint16_t udp_port = 7699;
  std::uint16_t slots = 4;
  std::uint16_t max_proxies = 8;
  bool any() const { return connect || accept; }
};

// Sizes of the channels that clients and proxies share.
struct ChannelConfig {
  std::uint32_t send_descriptors = 0;     // 0: auto, by the bytes of the data area
  std::uint32_t arrival_descriptors = 0;  // 0: auto, one for each granule of the windows
  std::uint32_t max_ports = 8192;
};

struct NodeConfig {
  std::uint16_t cluster = 0;
  std::uint16_t clusters = 1;
  std::uint16_t proxies = 1;
  std::string address;
  std::uint16_t udp_port = 7700;
  std::string mac;
  std::vector<LinkConfig> links;
  std::vector<PeerConfig> peers;
  TransportConfig transport;
  MachinesConfig machines;
  FaultConfig faults;
  IdleConfig idle;
  ChannelConfig channel;
  bool misdirect = false;
  std::uint32_t eal_memory_mib = 64;
  std::string eal_prefix;
  int listen_fd = -1;
  std::string listen_address;
  int ready_fd = -1;
  int counters_fd = -1;
  std::uint64_t seed = 0;  // 0: from the system
  std::string capture_directory;
  std::uint32_t capture_limit_mib = 1024;
  std::string processors;  // as of base/processors.h, by proxy; empty: any
  SecurityConfig security;
  // No setting, because settings are printed: what `security` names, once it is read, or given by a process that has its node inside.
  std::shared_ptr<const stack::Secret> secret = nullptr;

  // Every value in its bounds, every relation between them. The error names the key.
  Result<void> validate() const;
};
extern const Schema kNodeSchema;

inline const Schema& schema_of(const NodeConfig*) {
  return kNodeSchema;
}

// Whether a link's packets are sealed, and whether those of any link are: then the node needs a secret.
bool is_sealed(const NodeConfig& node, const LinkConfig& link);
bool needs_secret(const NodeConfig& node);
// Whether every machine that reaches one of its links could connect to the node's listeners: machines.accept, and a link that
// leaves the host with plain packets.
bool lets_anybody_in(const NodeConfig& node);

// A hash of the settings that must be equal at both ends of a sub-connection; the hello carries it.
std::uint64_t agreed_hash(const TransportConfig& transport);

}  // namespace braid::settings
