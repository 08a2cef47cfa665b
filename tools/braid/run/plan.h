// The plan of a run, made before anything is started: each daemon's configuration, each application's
// environment, the wires between them. Pure: the supervisor fills in the descriptors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "proxy/daemon/node_config.h"
#include "proxy/nic/shm_wire.h"
#include "settings/run.h"
#include "tools/braid/run/hosts.h"

namespace braid::cli {

// Between hosts, and over the kernel's UDP on one, a run's ports begin in this range, below those that Linux gives to sockets that
// name none.
inline constexpr std::uint16_t kFirstUdpPort = 7700;
inline constexpr unsigned kUdpPorts = 768 * kMaxProxies;
static_assert(kFirstUdpPort + kUdpPorts <= 32768);
// The first port of a run: that of the first cluster of each host. The next cluster of a host begins kMaxProxies further.
std::uint16_t first_udp_port(const std::string& run);

// What networks of hosts carry if nobody has set them up for more.
inline constexpr unsigned kHostsMtuBytes = 1500;

// As many frames per ring as a modest part of the machine's memory allows: large machines get short rings. `wires`: how many
// there are on this host.
Result<proxy::ShmWireOptions> plan_wire(const settings::RunConfig& config, std::size_t wires);

// One for each cluster. `run` is a name that no other run on this host has; `cores` decides what idle.spins
// auto means. Descriptors are left out, except that link i of cluster k leads to its i-th peer in ascending
// order.
std::vector<proxy::NodeConfig> plan_nodes(const settings::RunConfig& config, const std::string& run,
                                          unsigned cores);

// The same for clusters of several hosts: shared memory between those of one host, sockets between hosts.
// idle.spins is left to each host.
std::vector<proxy::NodeConfig> plan_nodes_of_hosts(const settings::RunConfig& config, const std::string& run,
                                                   const std::vector<Host>& hosts);

// A plan that came from another host as JSON. Its bounds and relations are checked when its descriptors are known (launcher.h).
Result<proxy::NodeConfig> read_plan(const std::string& text);

// The two links that a shared-memory wire joins: that of the lower cluster, and that of the higher.
struct WireEnds {
  proxy::LinkConfig* first;
  proxy::LinkConfig* second;
};
// Of all shm links between the nodes; both ends of each must be among them. Points into `nodes`.
std::vector<WireEnds> shm_wires(std::vector<proxy::NodeConfig>& nodes);

// The variables that are added to an application process's environment.
using Environment = std::vector<std::pair<std::string, std::string>>;
Environment plan_environment(const settings::RunConfig& config, unsigned cluster, const std::string& service,
                             int report_fd, int pulse_fd = -1);

// What the names of variables begin with that only a run gives to its processes.
inline constexpr std::string_view kOwnVariables = "BRAID_";

// `inherited` (environ) without those, and `added`: NAME=value. Each name is there once: what is added wins, the last of several.
std::vector<std::string> merge_environment(const char* const* inherited, const Environment& added);

}  // namespace braid::cli
