#include "tools/braid/plan.h"

#include <algorithm>
#include <cstring>

#include "base/prng.h"
#include "dsm/live/environment.h"

namespace braid::cli {
namespace {

constexpr std::uint16_t kUdpPort = 7700;
constexpr std::uint32_t kEthernetHeaderBytes = 14;
// The memory of all wires of a run together, taken when they are made.
constexpr std::uint64_t kWiresBytes = std::uint64_t{2} << 30;

std::string address_of(const RunConfig& config, unsigned cluster) {
  if (config.wire == Wire::kDpdk && config.dpdk.kind == DpdkKind::kAfPacket) {
    for (const InterfaceConfig& i : config.dpdk.interfaces) {
      if (i.cluster == cluster) return i.address;
    }
  }
  return fmt::format("10.98.{}.1", cluster);
}

// Where a wire joins two nodes only, both know the other's address beforehand and nobody need ask.
std::string static_mac(unsigned cluster) {
  return fmt::format("02:62:72:64:{:02x}:{:02x}", cluster >> 8, cluster & 0xff);
}

void plan_point_to_point(const RunConfig& config, const std::string& run, proxy::NodeConfig& node) {
  node.mac = static_mac(node.cluster);
  for (unsigned k = 0; k < config.clusters; ++k) {
    if (k == node.cluster) continue;
    const bool first_side = node.cluster < k;
    proxy::LinkConfig link;
    link.first_side = first_side;
    if (config.wire == Wire::kDpdk) {
      link.kind = proxy::LinkConfig::Kind::kEthdev;
      // Buffers of 2048 bytes hold every frame that memif takes: one is never spread over several.
      link.device =
          fmt::format("net_memif{},role={},id=0,socket-abstract=yes,socket={}-{}-{},zero-copy=no,bsize=2048",
                      node.links.size(), first_side ? "server" : "client", run,
                      std::min<unsigned>(node.cluster, k), std::max<unsigned>(node.cluster, k));
    }
    node.peers.push_back({.cluster = static_cast<std::uint16_t>(k),
                          .proxies = static_cast<std::uint16_t>(config.proxies),
                          .address = address_of(config, k),
                          .udp_port = kUdpPort,
                          .mac = static_mac(k),
                          .link = static_cast<std::uint16_t>(node.links.size())});
    node.links.push_back(std::move(link));
  }
}

// One interface on a network that all clusters share; who has which address there is asked by ARP.
void plan_interface(const RunConfig& config, proxy::NodeConfig& node) {
  const auto own = std::find_if(config.dpdk.interfaces.begin(), config.dpdk.interfaces.end(),
                                [&](const InterfaceConfig& i) { return i.cluster == node.cluster; });
  CHECK(own != config.dpdk.interfaces.end());
  node.mac = own->mac;
  // A frame of the ring holds the kernel's header and 1514 bytes; 2048 of them fit a buffer, and two a page.
  node.links.push_back(
      {.kind = proxy::LinkConfig::Kind::kEthdev,
       .fd = -1,
       .first_side = true,
       .device = fmt::format("net_af_packet0,iface={},qpairs={},blocksz=4096,framesz=2048,framecnt=512",
                             own->interface, config.proxies)});
  for (unsigned k = 0; k < config.clusters; ++k) {
    if (k == node.cluster) continue;
    node.peers.push_back({.cluster = static_cast<std::uint16_t>(k),
                          .proxies = static_cast<std::uint16_t>(config.proxies),
                          .address = address_of(config, k),
                          .udp_port = kUdpPort,
                          .mac = "",
                          .link = 0});
  }
}

}  // namespace

std::vector<Pair> all_pairs(unsigned clusters) {
  std::vector<Pair> pairs;
  for (unsigned a = 0; a < clusters; ++a) {
    for (unsigned b = a + 1; b < clusters; ++b) pairs.push_back({a, b});
  }
  return pairs;
}

Result<proxy::ShmWireOptions> plan_wire(const RunConfig& config) {
  proxy::ShmWireOptions options;
  options.queues = config.proxies;
  options.max_frame_bytes = config.mtu_bytes() + kEthernetHeaderBytes;
  const std::uint64_t wires = std::max<std::uint64_t>(1, all_pairs(config.clusters).size());
  while (options.frames_per_ring > proxy::kMaxBurst &&
         wires * proxy::ShmWireLayout(options).total_bytes() > kWiresBytes)
    options.frames_per_ring /= 2;
  if (const std::uint64_t bytes = wires * proxy::ShmWireLayout(options).total_bytes();
      bytes > 4 * kWiresBytes) {
    return error(
        "{} clusters with {} proxies each need {} wires of {} MiB together; take fewer clusters or proxies, "
        "or a "
        "smaller --mtu",
        config.clusters, config.proxies, wires, bytes >> 20);
  }
  return options;
}

std::vector<proxy::NodeConfig> plan_nodes(const RunConfig& config, const std::string& run, unsigned cores) {
  Prng seeds(config.faults.seed);
  std::vector<proxy::NodeConfig> nodes;
  for (unsigned k = 0; k < config.clusters; ++k) {
    proxy::NodeConfig node;
    node.cluster = static_cast<std::uint16_t>(k);
    node.clusters = static_cast<std::uint16_t>(config.clusters);
    node.proxies = static_cast<std::uint16_t>(config.proxies);
    node.address = address_of(config, k);
    node.udp_port = kUdpPort;
    if (config.wire == Wire::kDpdk && config.dpdk.kind == DpdkKind::kAfPacket) {
      plan_interface(config, node);
    } else {
      plan_point_to_point(config, run, node);
    }
    node.transport = config.transport;
    node.transport.mtu_bytes = config.mtu_bytes();
    node.faults = config.faults;
    // Or every cluster would lose the same frames of its own.
    node.faults.seed = seeds.next();
    node.idle = config.idle;
    node.idle.spins = config.spins(cores);
    node.misdirect = config.misdirect;
    node.capture_directory = config.capture.directory;
    node.capture_limit_mib = config.capture.limit_mib;
    node.eal_memory_mib = config.dpdk.memory_mib;
    node.eal_prefix = fmt::format("{}-{}", run, k);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Environment plan_environment(const RunConfig& config, unsigned cluster, const std::string& service,
                             int report_fd) {
  namespace variable = dsm::variable;
  return {{variable::kService, service},
          {variable::kCluster, std::to_string(cluster)},
          {variable::kClusters, std::to_string(config.clusters)},
          {variable::kCompute, std::to_string(config.compute)},
          {variable::kHeapMib, std::to_string(config.heap_mib)},
          {variable::kDispatch, config.dispatch == Dispatch::kFixed ? "fixed" : "round-robin"},
          {variable::kWindowKib, std::to_string(config.window_kib)},
          {variable::kReportFd, std::to_string(report_fd)},
          {variable::kConnectTimeoutMs, std::to_string(config.start_timeout_ms)}};
}

std::vector<std::string> merge_environment(const char* const* inherited, const Environment& added) {
  std::vector<std::string> merged;
  for (; inherited != nullptr && *inherited != nullptr; ++inherited) {
    if (std::strncmp(*inherited, "BRAID_", 6) != 0) merged.emplace_back(*inherited);
  }
  for (const auto& [name, value] : added) merged.push_back(name + "=" + value);
  return merged;
}

}  // namespace braid::cli
