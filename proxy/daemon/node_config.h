// All that one node's braidd must know, as a struct with defaults, checked once. Read from JSON (by `braid
// run`, or a file on a machine of a real cluster).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "convergence/peer_choice.h"
#include "proxy/nic/steering.h"
#include "stack/fragmentation.h"
#include "stack/sub_connection.h"
#include "stack/window/congestion.h"

namespace braid::proxy {

struct LinkConfig {
  enum class Kind : std::uint8_t { kShm, kEthdev };
  Kind kind = Kind::kShm;
  int fd = -1;             // shm: the wire's memory, an inherited descriptor
  bool first_side = true;  // shm: which of the two sides this node is
  std::string
      device;  // ethdev: the --vdev argument, e.g. "net_memif0,role=server,…"; its ports count in order
  // What the node is on this link; empty: what it is everywhere.
  std::string address = {};
  std::string mac = {};
  // Addresses that begin with so many bits of ours are on the link, all others behind the gateway. 0: every
  // address is on the link.
  std::uint16_t prefix_bits = 0;
  std::string gateway = {};  // empty: none
  // ethdev: how the port brings packets to the queue of the proxy that they are for.
  Steering steering = Steering::kAuto;
};

// A network interface of a peer, and the way there.
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
  std::vector<NiConfig> more_nis =
      {};  // it has these too: proxy i is reached at the one that i modulo their number names

  std::size_t nis() const { return 1 + more_nis.size(); }
  NiConfig ni(std::size_t i) const { return i == 0 ? NiConfig{address, mac, link} : more_nis[i - 1]; }
};

// Probabilities per frame, injected where a proxy receives; see proxy/nic/faulty_queue.h.
struct FaultConfig {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  std::uint32_t flip_past_checksum_every =
      0;                             // every n-th long frame: one bit of payload, checksum repaired; 0: never
  std::uint32_t drop_all_after = 0;  // every frame after so many, on each queue: the link goes dark; 0: never
  std::uint64_t seed = 1;
  bool any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || flip_past_checksum_every > 0 ||
           drop_all_after > 0;
  }
};

// How a proxy waits when there is nothing to do: it spins, then yields, then sleeps ever longer.
struct IdleConfig {
  std::uint32_t spins = 200;   // turns without work; 0 when there are more busy threads than cores
  std::uint32_t yields = 500;  // then sched_yield between turns
  std::uint32_t sleep_min_us = 20;
  std::uint32_t sleep_max_us = 200;
};

using convergence::PeerChoice;

// Of the sub-connections; the peers must agree on the first three (hashed into the hello).
struct TransportConfig {
  std::uint32_t mtu_bytes = 1500;                                         // IP packet
  stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;  // hashed too
  std::uint32_t window_packets = 256;  // in flight per sub-connection, at most 256
  std::uint32_t path_death_ms = 500;
  std::uint32_t peer_death_ms = 10'000;
  std::uint32_t min_rto_us = 500;  // above the scheduling noise of a machine with more threads than cores
  std::uint32_t max_rto_us = 100'000;
  stack::CongestionControl congestion = stack::CongestionControl::kDelay;
  PeerChoice peer = PeerChoice::kAligned;
  bool all_pairs = false;  // a sub-connection for every pair of proxies; else for those that are aligned
};

// What of them a sub-connection is told; the rest of its configuration is as it is by default.
stack::SubConnectionConfig sub_connection_config(const TransportConfig& transport);

// Connections with clusters of other logical machines (docs/OPERATIONS.md). Off unless said otherwise: who
// may connect to a machine's listeners decides that machine.
struct MachinesConfig {
  bool connect = false;           // clients of this node may connect to them
  bool accept = false;            // they may connect to this node's listeners
  std::uint16_t udp_port = 7699;  // where nodes introduce themselves; no proxy's
  // Other clusters that are known at once, and the most proxies that one may have: memory is taken for all of
  // them at the start.
  std::uint16_t places = 4;
  std::uint16_t most_proxies = 8;
  bool any() const { return connect || accept; }
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
  // Sends everything to the peer's queue 0, whatever the proxy: every packet for another proxy is handed over
  // in software.
  bool misdirect = false;
  std::uint32_t eal_memory_mib = 64;
  std::string eal_prefix;
  // Where clients attach: an inherited listening descriptor, or else a path ("@name": abstract).
  int listen_fd = -1;
  std::string listen_address;
  int ready_fd = -1;       // one byte is written there when all sub-connections are up
  int counters_fd = -1;    // memory for NodeCounters (proxy/channel/node_counters.h); -1: private
  std::uint64_t seed = 0;  // of epochs; 0: from the system
  // Where each proxy writes the frames that it receives and sends, cluster<k>-proxy<p>.pcapng, a folder that
  // exists; empty: nowhere. No file grows beyond the limit.
  std::string capture_directory;
  std::uint32_t capture_limit_mib = 1024;

  Result<void> validate() const;
};

// `what` names the source in error texts.
Result<NodeConfig> parse_node_config(const std::string& json, const std::string& what);
std::string to_json(const NodeConfig& config);

}  // namespace braid::proxy
