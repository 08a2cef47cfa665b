#include "tools/braid/run/plan.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <map>

#include "base/ethernet.h"
#include "base/fnv.h"
#include "base/limits.h"
#include "base/prng.h"
#include "dsm/live/environment.h"
#include "settings/reader.h"
#include "settings/run_words.h"
#include "settings/views/json.h"
#include "settings/words.h"
#include "stack/wire/addresses.h"

namespace braid::cli {
namespace {

// The memory of all wires of a run together, taken when they are made.
constexpr std::uint64_t kWiresBytes = std::uint64_t{2} << 30;

// The entries of the interfaces of a cluster, for dpdk.kind af_packet.
std::vector<const settings::InterfaceConfig*> interfaces_of(const settings::RunConfig& config,
                                                            unsigned cluster) {
  std::vector<const settings::InterfaceConfig*> own;
  for (const settings::InterfaceConfig& i : config.dpdk.interfaces)
    if (i.cluster == cluster) own.push_back(&i);
  return own;
}

std::uint64_t hash_of(const std::string& run) {
  Fnv1a hash;
  for (const char c : run) hash.add(static_cast<std::uint8_t>(c));
  return hash.value();
}

// A part of the loopback network, of 2046, that other runs on this host hardly have.
std::uint32_t network_of(const std::string& run) {
  static_assert(kMaxClusters * kMaxNis == 1 << 13);
  return static_cast<std::uint32_t>(0x7f000000 + ((hash_of(run) >> 32) % 2046 + 1) * (1 << 13));
}

// On a wire of its own, which nothing else is on.
std::string private_address(unsigned cluster, unsigned ni) {
  return fmt::format("10.98.{}.{}", cluster, ni + 1);
}

std::string address_of(const settings::RunConfig& config, const std::string& run, unsigned cluster,
                       unsigned ni) {
  if (config.wire == settings::Wire::kUdp)
    return stack::Ipv4Address(network_of(run) + cluster * kMaxNis + ni).to_string();
  if (config.wire == settings::Wire::kDpdk && config.dpdk.kind == settings::DpdkKind::kAfPacket)
    return interfaces_of(config, cluster).at(ni)->address;
  return private_address(cluster, ni);
}

// Where a wire joins two nodes only, both know the other's address beforehand and nobody need ask.
std::string static_mac(unsigned cluster, unsigned ni) {
  return fmt::format("02:62:72:{:02x}:{:02x}:{:02x}", 0x64 + ni, cluster >> 8, cluster & 0xff);
}

std::uint16_t proxies_on(const settings::RunConfig& config, const Host& host) {
  return static_cast<std::uint16_t>(host.proxies == 0 ? config.proxies : host.proxies);
}

proxy::PeerConfig plan_peer(const settings::RunConfig& config, unsigned cluster) {
  proxy::PeerConfig peer;
  peer.cluster = static_cast<std::uint16_t>(cluster);
  peer.proxies = static_cast<std::uint16_t>(config.proxies);
  peer.udp_port = kFirstUdpPort;
  return peer;
}

void add_ni(proxy::PeerConfig& peer, const proxy::NiConfig& ni) {
  if (peer.address.empty()) {
    peer.address = ni.address;
    peer.mac = ni.mac;
    peer.link = ni.link;
  } else {
    peer.more_nis.push_back(ni);
  }
}

// NI n of this node and NI n of each other are joined.
void plan_point_to_point(const settings::RunConfig& config, const std::string& run, proxy::NodeConfig& node) {
  node.mac = static_mac(node.cluster, 0);
  for (unsigned k = 0; k < config.clusters; ++k) {
    if (k == node.cluster) continue;
    const bool first_side = node.cluster < k;
    proxy::PeerConfig peer = plan_peer(config, k);
    for (unsigned n = 0; n < config.nis; ++n) {
      proxy::LinkConfig link;
      link.first_side = first_side;
      if (n > 0) {
        link.address = address_of(config, run, node.cluster, n);
        link.mac = static_mac(node.cluster, n);
      }
      if (config.wire == settings::Wire::kDpdk) {
        link.kind = proxy::LinkConfig::Kind::kEthdev;
        // Buffers of 2048 bytes hold every frame that memif takes: one is never spread over several.
        link.device = fmt::format(
            "net_memif{},role={},id=0,socket-abstract=yes,socket={}-{}-{}-{},zero-copy=no,bsize=2048",
            node.links.size(), first_side ? "server" : "client", run, std::min<unsigned>(node.cluster, k),
            std::max<unsigned>(node.cluster, k), n);
      }
      add_ni(peer, {address_of(config, run, k, n), static_mac(k, n),
                    static_cast<std::uint16_t>(node.links.size())});
      node.links.push_back(std::move(link));
    }
    node.peers.push_back(std::move(peer));
  }
}

// NI n of every cluster is NI n of all others' peer.
void plan_shared_networks(const settings::RunConfig& config, const std::string& run, proxy::NodeConfig& node,
                          const auto& mac_of) {
  for (unsigned k = 0; k < config.clusters; ++k) {
    if (k == node.cluster) continue;
    proxy::PeerConfig peer = plan_peer(config, k);
    peer.udp_port = node.udp_port;
    for (unsigned n = 0; n < config.nis; ++n)
      add_ni(peer, {address_of(config, run, k, n), mac_of(k, n), static_cast<std::uint16_t>(n)});
    node.peers.push_back(std::move(peer));
  }
}

// Sockets on addresses of the loopback network, which nobody need set up.
void plan_sockets(const settings::RunConfig& config, const std::string& run, proxy::NodeConfig& node) {
  node.udp_port = first_udp_port(run);
  for (unsigned n = 0; n < config.nis; ++n) {
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kUdp;
    if (n > 0) link.address = address_of(config, run, node.cluster, n);
    node.links.push_back(std::move(link));
  }
  plan_shared_networks(config, run, node, [](unsigned, unsigned) { return std::string(); });
}

// Interfaces on networks that all clusters share. Which station has an address is asked by ARP unless the
// configuration says it.
void plan_interfaces(const settings::RunConfig& config, const std::string& run, proxy::NodeConfig& node) {
  const std::vector<const settings::InterfaceConfig*> own = interfaces_of(config, node.cluster);
  CHECK_EQ(own.size(), config.nis);
  node.mac = own[0]->mac;
  for (unsigned n = 0; n < config.nis; ++n) {
    proxy::LinkConfig link;
    link.kind = proxy::LinkConfig::Kind::kEthdev;
    // A frame of the ring holds the kernel's header and 1514 bytes; 2048 of them fit a buffer, and two a
    // page.
    link.device = fmt::format("net_af_packet{},iface={},qpairs={},blocksz=4096,framesz=2048,framecnt=512", n,
                              own[n]->interface, config.proxies);
    link.steering = own[n]->steering;
    if (n > 0) {
      link.address = own[n]->address;
      link.mac = own[n]->mac;
    }
    node.links.push_back(std::move(link));
  }
  plan_shared_networks(config, run, node,
                       [&](unsigned k, unsigned n) { return interfaces_of(config, k).at(n)->mac; });
}

// What does not depend on the wire.
std::vector<proxy::NodeConfig> equal_nodes(const settings::RunConfig& config, const std::string& run) {
  Prng seeds(config.faults.seed);
  std::vector<proxy::NodeConfig> nodes(config.clusters);
  for (unsigned k = 0; k < config.clusters; ++k) {
    proxy::NodeConfig& node = nodes[k];
    node.cluster = static_cast<std::uint16_t>(k);
    node.clusters = static_cast<std::uint16_t>(config.clusters);
    node.proxies = static_cast<std::uint16_t>(config.proxies);
    node.udp_port = kFirstUdpPort;
    node.transport = config.transport;
    node.transport.mtu_bytes = config.mtu_bytes();
    node.faults = config.faults;
    // Or every cluster would lose the same frames of its own.
    node.faults.seed = seeds.next();
    node.idle = config.idle;
    node.misdirect = config.misdirect;
    node.capture_directory = config.capture.directory;
    node.capture_limit_mib = config.capture.limit_mib;
    node.security.mode = config.security.mode;
    node.security.keylog = config.security.keylog;
    node.eal_memory_mib = config.dpdk.memory_mib;
    node.eal_prefix = fmt::format("{}-{}", run, k);
  }
  return nodes;
}

// Clusters of one host share its addresses, and have ports of their own.
std::uint16_t port_on(const std::string& run, const Host& host, unsigned cluster) {
  return static_cast<std::uint16_t>(first_udp_port(run) + (cluster - host.first_cluster) * kMaxProxies);
}

proxy::LinkConfig::Kind kind_of(settings::Wire wire) {
  if (wire == settings::Wire::kXdp) return proxy::LinkConfig::Kind::kXdp;
  return wire == settings::Wire::kPacket ? proxy::LinkConfig::Kind::kPacket : proxy::LinkConfig::Kind::kUdp;
}

void plan_own_sockets(const settings::RunConfig& config, const std::string& run, const Host& host,
                      proxy::NodeConfig& node) {
  node.address = host.addresses[0];
  node.udp_port = port_on(run, host, node.cluster);
  for (std::size_t n = 0; n < host.addresses.size(); ++n) {
    proxy::LinkConfig link;
    link.kind = kind_of(config.wire);
    if (n > 0) link.address = host.addresses[n];
    node.links.push_back(std::move(link));
  }
}

// A shm link to a cluster of the same host.
void add_wire(proxy::NodeConfig& node, unsigned cluster, unsigned ni, proxy::PeerConfig& peer) {
  proxy::LinkConfig link;
  link.first_side = node.cluster < cluster;
  link.address = private_address(node.cluster, ni);
  link.mac = static_mac(node.cluster, ni);
  add_ni(peer, {private_address(cluster, ni), static_mac(cluster, ni),
                static_cast<std::uint16_t>(node.links.size())});
  node.links.push_back(std::move(link));
}

// Those of the host's clusters that are not the node itself, which is on `own` and whose sockets are planned. Of two hosts with
// different numbers of NIs both use as many as the one with fewer.
void plan_peers_on(const settings::RunConfig& config, const std::string& run, const Host& host,
                   const Host& own, proxy::NodeConfig& node) {
  const std::size_t nis = std::min(host.addresses.size(), own.addresses.size());
  for (unsigned k = host.first_cluster; k < host.first_cluster + host.clusters; ++k) {
    if (k == node.cluster) continue;
    proxy::PeerConfig peer = plan_peer(config, k);
    peer.udp_port = port_on(run, host, k);
    peer.proxies = proxies_on(config, host);
    for (unsigned n = 0; n < nis; ++n) {
      if (&host == &own)
        add_wire(node, k, n, peer);
      else
        add_ni(peer, {host.addresses[n], "", static_cast<std::uint16_t>(n)});
    }
    node.peers.push_back(std::move(peer));
  }
}

}  // namespace

std::uint16_t first_udp_port(const std::string& run) {
  return static_cast<std::uint16_t>(kFirstUdpPort + hash_of(run) % (kUdpPorts / kMaxProxies) * kMaxProxies);
}

Result<proxy::ShmWireOptions> plan_wire(const settings::RunConfig& config, std::size_t wires) {
  proxy::ShmWireOptions options;
  options.queues = config.proxies;
  options.max_frame_bytes = config.mtu_bytes() + kEthernetHeaderBytes;
  wires = std::max<std::size_t>(1, wires);
  while (options.frames_per_ring > proxy::kMaxBurst &&
         wires * proxy::ShmWireLayout(options).total_bytes() > kWiresBytes)
    options.frames_per_ring /= 2;
  if (const std::uint64_t bytes = wires * proxy::ShmWireLayout(options).total_bytes();
      bytes > 4 * kWiresBytes) {
    return error(
        "{} clusters with {} proxies each need {} wires of {} MiB together; take fewer clusters or proxies, "
        "or a smaller --mtu",
        config.clusters, config.proxies, wires, bytes >> 20);
  }
  return options;
}

std::vector<proxy::NodeConfig> plan_nodes(const settings::RunConfig& config, const std::string& run,
                                          unsigned cores) {
  std::vector<proxy::NodeConfig> nodes = equal_nodes(config, run);
  for (proxy::NodeConfig& node : nodes) {
    node.address = address_of(config, run, node.cluster, 0);
    if (config.wire == settings::Wire::kUdp) {
      plan_sockets(config, run, node);
    } else if (config.wire == settings::Wire::kDpdk && config.dpdk.kind == settings::DpdkKind::kAfPacket) {
      plan_interfaces(config, run, node);
    } else {
      plan_point_to_point(config, run, node);
    }
    node.idle.spins = config.spins(cores);
  }
  return nodes;
}

std::vector<proxy::NodeConfig> plan_nodes_of_hosts(const settings::RunConfig& config, const std::string& run,
                                                   const std::vector<Host>& hosts) {
  std::vector<proxy::NodeConfig> nodes = equal_nodes(config, run);
  for (const Host& own : hosts) {
    for (unsigned k = own.first_cluster; k < own.first_cluster + own.clusters; ++k) {
      nodes[k].idle.spins = 0;
      nodes[k].proxies = proxies_on(config, own);
      // Hosts may share a network's file system, where lines of two that write at once are lost: each node has a file of its
      // own, which opens the captures beside it.
      if (!config.security.keylog.empty())
        nodes[k].security.keylog = fmt::format("{}.cluster{}", config.security.keylog, k);
      plan_own_sockets(config, run, own, nodes[k]);
      for (const Host& other : hosts) plan_peers_on(config, run, other, own, nodes[k]);
    }
  }
  return nodes;
}

Result<proxy::NodeConfig> read_plan(const std::string& text) {
  const Result<settings::Document> document = settings::parse_json(text, "the plan of a node");
  if (!document) return document.error();
  settings::Collector<proxy::NodeConfig> collector;
  if (const Result<void> done = collector.load(*document); !done) return done.error();
  return collector.unchecked();
}

std::vector<WireEnds> shm_wires(std::vector<proxy::NodeConfig>& nodes) {
  // By the lower cluster, the higher one and the NI.
  std::map<std::array<std::size_t, 3>, WireEnds> wires;
  for (proxy::NodeConfig& node : nodes) {
    for (const proxy::PeerConfig& peer : node.peers) {
      for (std::size_t n = 0; n < peer.nis(); ++n) {
        proxy::LinkConfig& link = node.links[peer.ni(n).link];
        if (link.kind != proxy::LinkConfig::Kind::kShm) continue;
        const auto [lower, higher] = std::minmax<std::size_t>({node.cluster, peer.cluster});
        WireEnds& wire = wires[{lower, higher, n}];
        (node.cluster == lower ? wire.first : wire.second) = &link;
      }
    }
  }
  std::vector<WireEnds> all;
  for (const auto& [place, wire] : wires) all.push_back(wire);
  return all;
}

Environment plan_environment(const settings::RunConfig& config, unsigned cluster, const std::string& service,
                             int report_fd, int pulse_fd) {
  namespace variable = dsm::variable;
  Environment all{{variable::kService, service},
                  {variable::kCluster, std::to_string(cluster)},
                  {variable::kClusters, std::to_string(config.clusters)},
                  {variable::kCompute, std::to_string(config.compute)},
                  {variable::kHeapMib, std::to_string(config.heap_mib)},
                  {variable::kPageBytes, std::to_string(config.engine.page_length().bytes())},
                  {variable::kProtocol, std::string(settings::word_of(config.protocol))},
                  {variable::kDispatch, std::string(settings::word_of(config.dispatch))},
                  {variable::kWindowKib, std::to_string(config.live_window_kib())},
                  {variable::kProtection, std::string(settings::word_of(config.protection))},
                  {variable::kReportFd, std::to_string(report_fd)},
                  {variable::kConnectTimeoutMs, std::to_string(config.start_timeout_ms)}};
  if (pulse_fd >= 0) all.emplace_back(variable::kPulseFd, std::to_string(pulse_fd));
  return all;
}

std::vector<std::string> merge_environment(const char* const* inherited, const Environment& added) {
  std::map<std::string, std::string> replacing;
  for (const auto& [name, value] : added) replacing[name] = value;
  std::vector<std::string> merged;
  for (; inherited != nullptr && *inherited != nullptr; ++inherited) {
    const std::string_view variable(*inherited);
    if (!variable.starts_with(kOwnVariables) &&
        !replacing.contains(std::string(variable.substr(0, variable.find('=')))))
      merged.emplace_back(variable);
  }
  for (const auto& [name, value] : replacing) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace braid::cli
