// Everything that shapes a run of `braid run` or `braid sim`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convergence/dispatch.h"
#include "dsm/engine/types.h"
#include "proxy/nic/steering.h"
#include "settings/cost_model.h"
#include "settings/engine.h"
#include "settings/security.h"
#include "settings/setting.h"
#include "settings/simulation.h"
#include "settings/transport.h"

namespace braid::settings {

enum class Wire : std::uint8_t { kShm, kUdp, kDpdk, kXdp, kPacket };
// Past the kernel's network code at interfaces that keep the kernel's address: between hosts.
constexpr bool is_at_interface(Wire wire) {
  return wire == Wire::kXdp || wire == Wire::kPacket;
}
enum class Protect : std::uint8_t { kAuto, kMprotect, kUserfaultfd };
// What compute nodes and proxies run on: a core each where there are enough, or wherever the kernel lets them.
enum class Bind : std::uint8_t { kCore, kNone };
enum class DpdkKind : std::uint8_t { kMemif, kAfPacket };

// A node has a port to each peer, and DPDK of Debian 12 is built for 32 ports.
inline constexpr unsigned kMaxMemifClusters = 33;

// A network interface of a cluster, for dpdk.kind af_packet.
struct InterfaceConfig {
  unsigned cluster = 0;
  std::string netns;      // a name under /var/run/netns; empty: the namespace that braid runs in
  std::string interface;  // must have no IP address, or the kernel answers for the stack
  std::string address;    // IPv4, of the cluster's stack
  std::string mac;  // of the interface, static at its peers; empty: braidd asks the device, peers ask by ARP
  proxy::Steering steering = proxy::Steering::kAuto;
};

struct DpdkConfig {
  DpdkKind kind = DpdkKind::kMemif;
  std::uint32_t memory_mib = 0;  // of each braidd's EAL; 0: auto, what its ports and queues need
  std::vector<InterfaceConfig> interfaces;
};

// Packets as the proxies saw them, for Wireshark.
struct CaptureConfig {
  std::string directory;  // empty: nothing is written
  std::uint32_t limit_mib = 1024;
};

struct RunConfig {
  unsigned clusters = 2;
  unsigned compute = 2;  // per cluster
  unsigned proxies = 1;  // per cluster
  unsigned nis = 1;      // per cluster
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
  Wire wire = Wire::kShm;
  dsm::Protocol protocol = dsm::Protocol::kEager;
  std::uint32_t heap_mib = 256;
  std::uint32_t window_kib = 0;  // of each connection between two clusters; 0: auto, as below
  Protect protection = Protect::kAuto;
  std::uint32_t start_timeout_ms = 20'000;
  std::uint32_t watchdog_s = 0;        // 0: none
  std::uint32_t watchdog_hint_s = 30;  // 0: none
  bool misdirect = false;
  Bind bind = Bind::kCore;
  TransportConfig transport = {.mtu_bytes = 0};
  FaultConfig faults;
  IdleConfig idle = {.spins = IdleConfig::kAutomaticSpins};
  DpdkConfig dpdk;
  CaptureConfig capture;
  SimulationConfig simulation;
  EngineSettings engine;              // of simulations, and the length of a page
  Costs cycles = Costs::automatic();  // of simulations
  RunSecurityConfig security;

  // Compute nodes and proxies of all clusters.
  unsigned threads() const { return clusters * (compute + proxies); }
  // The values in force where the setting is "auto".
  std::uint32_t mtu_bytes() const;
  std::uint32_t live_window_kib() const;
  std::uint32_t simulated_window_kib(dsm::PageLength length) const;
  std::uint32_t spins(unsigned cores) const;
};
extern const Schema kRunSchema;
inline const Schema& schema_of(const RunConfig*) {
  return kRunSchema;
}

// Is this setting or list of RunConfig used in simulated runs (`simulated`), or in live runs?
bool shapes(const std::string& key, bool simulated);

// Whether this setting has an effect in simulations of that mode.
bool acts_in(const std::string& key, Mode mode);
// The modes in which it has one, for texts: "real or no-contention".
std::string modes_of(const std::string& key);

}  // namespace braid::settings
