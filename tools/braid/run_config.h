// Everything that shapes a run, as one struct with defaults, and the one list of its settings: key in a file,
// option on the command line, what is allowed, why it is there. Files (yaml_config.cpp), flags (main.cpp),
// help and report all read the list, so none of them can know a setting that the others do not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "convergence/dispatch.h"
#include "proxy/daemon/node_config.h"
#include "sim/iccs.h"

namespace YAML {
class Node;
}

namespace braid::cli {

enum class Wire : std::uint8_t { kShm, kDpdk };
using convergence::Dispatch;
enum class Protect : std::uint8_t { kAuto, kMprotect, kUserfaultfd };
enum class DpdkKind : std::uint8_t { kMemif, kAfPacket };

inline constexpr unsigned kMaxClusters = 64;
inline constexpr unsigned kMaxCompute = 64;
// A port to every peer, and DPDK of Debian 12 is built for 32 ports.
inline constexpr unsigned kMaxMemifClusters = 33;

// Where a cluster meets the network, for dpdk.kind af_packet.
struct InterfaceConfig {
  unsigned cluster = 0;
  std::string netns;      // a name under /var/run/netns; empty: the namespace that braid runs in
  std::string interface;  // without an address of its own, or the kernel answers for us
  std::string address;    // IPv4, of the cluster's stack
  std::string mac;        // of the interface; empty: braidd asks the device
  // How it brings packets to the queue of the proxy that they are for.
  proxy::Steering steering = proxy::Steering::kAuto;
};

struct DpdkConfig {
  DpdkKind kind = DpdkKind::kMemif;
  std::uint32_t memory_mib = 0;  // of each braidd's EAL; 0: what its ports and queues need
  std::vector<InterfaceConfig> interfaces;
};

// Packets as the proxies saw them, for Wireshark.
struct CaptureConfig {
  std::string directory;  // cluster0-proxy0.pcapng, … are written there; empty: nowhere
  // Of each file: a proxy that is captured for an hour shall not fill the disk.
  std::uint32_t limit_mib = 1024;
};

// What is of simulated runs only.
struct SimulationConfig {
  // What things cost: the name of a model beside this command, or a file's path.
  std::string model = "alewife-1997";
  sim::Mode mode = sim::Mode::kReal;
  double proxy_speed = 1;  // a proxy's, in compute nodes
  // Mode::kNoContention: the message whose latency all have; 0: the mean of the same run in Mode::kReal,
  // which is made before.
  std::uint32_t message_bytes = 0;
  std::uint32_t jitter = 4;  // cycles that what a compute node asks for comes later, at most
  bool strict = false;
  // A turn of a program takes milliseconds; 0: none.
  std::uint32_t watchdog_s = 60;
  sim::PlantedMistake mistake = sim::PlantedMistake::kNone;
};

struct RunConfig {
  unsigned clusters = 2;  // the smallest machine with a wire in it
  unsigned compute = 2;   // per cluster: sharing inside a cluster and between clusters both happen
  unsigned proxies = 1;   // per cluster
  unsigned nis = 1;       // network interfaces per cluster, each with an address of its own
  Dispatch dispatch = Dispatch::kRoundRobin;
  Wire wire = Wire::kShm;
  std::uint32_t heap_mib = 256;             // of shared memory, in every cluster
  std::uint32_t window_kib = 256;           // of each connection between two clusters
  Protect protection = Protect::kAuto;      // how accesses to it are noticed
  std::uint32_t start_timeout_ms = 20'000;  // EAL start-up of 64 daemons on two cores takes a while
  std::uint32_t watchdog_s = 0;             // 0: none
  bool misdirect = false;
  // mtu_bytes 0: the wire's own (mtu_bytes()).
  proxy::TransportConfig transport = {.mtu_bytes = 0};
  proxy::FaultConfig faults;
  proxy::IdleConfig idle;
  // Spinning is waste when threads outnumber the cores (measured: four spinning threads on two cores take
  // milliseconds for what yielding ones do in microseconds), so by default the number of threads decides.
  std::optional<std::uint32_t> idle_spins;
  DpdkConfig dpdk;
  CaptureConfig capture;
  SimulationConfig simulation;

  // What is in force after "auto".
  std::uint32_t mtu_bytes() const;
  std::uint32_t spins(unsigned cores) const;
};

const char* to_text(Wire wire);
const char* to_text(Dispatch dispatch);
const char* to_text(DpdkKind kind);
const char* to_text(Protect protection);

// A relation between settings that does not hold: the keys that take part, the likeliest culprit first, and
// what is wrong with the cure.
struct Conflict {
  std::vector<std::string> keys;
  std::string text;
};
std::optional<Conflict> find_conflict(const RunConfig& config);

struct Setting {
  std::string key;      // "transport.mtu_bytes"
  std::string option;   // "--mtu"; empty: in files only
  std::string allowed;  // "1 to 64"
  std::string help;
  bool quoted_text = false;  // a string: may be quoted in YAML
  // Sets it from text; returns what is wrong, with the cure, or nothing.
  std::function<std::string(RunConfig&, const std::string& text)> set = {};
  std::function<nlohmann::json(const RunConfig&)> get = {};
};
std::span<const Setting> settings();
const Setting* find_setting(const std::string& key);
// Settings are of live runs, of simulations, or of both; `key` is one's, or dpdk.interfaces.
bool is_of(const std::string& key, bool simulated);

// The keys of an entry of dpdk.interfaces.
struct InterfaceSetting {
  std::string key;
  bool required;
  std::function<std::string(InterfaceConfig&, const std::string& text)> set = {};
};
std::span<const InterfaceSetting> interface_settings();

nlohmann::json to_json(const RunConfig& config);

// Collects settings from a file and from flags, remembers where each came from, and checks the whole at the
// end. Errors begin with that place: "two.yaml:3:1: key 'clusters': …" or "--clusters: …".
class ConfigBuilder {
 public:
  // A file first, then flags, which win.
  Result<void> load_file(const std::string& path);
  Result<void> load_text(const std::string& yaml, const std::string& name);
  // The same from a part of a file that is read already: what a whole file would say, or one setting with
  // its key in full ("transport.mtu_bytes").
  Result<void> load_node(const YAML::Node& settings, const std::string& file);
  Result<void> load_entry(const YAML::Node& key, const YAML::Node& value, const std::string& file);
  // `setting` has an option.
  Result<void> set_option(const Setting& setting, const std::string& text);
  Result<RunConfig> finish() const;
  // What has been said so far, whether it holds together or not.
  const RunConfig& unchecked() const { return config_; }
  // A file or an option gave it.
  bool is_given(const std::string& key) const { return places_.contains(key); }
  // Where, by key, as errors begin.
  const std::map<std::string, std::string>& given() const { return places_; }

 private:
  RunConfig config_;
  std::map<std::string, std::string> places_;  // by key
};

// The nearest of `known` to `name`, if one is near enough to be meant.
std::optional<std::string> nearest(const std::string& name, const std::vector<std::string>& known);

}  // namespace braid::cli
