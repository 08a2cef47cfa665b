#include "settings/run.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "base/check.h"
#include "settings/addresses.h"
#include "settings/limits.h"
#include "settings/reader.h"
#include "settings/run_words.h"
#include "settings/words.h"

namespace braid::settings {
namespace {

constexpr std::uint32_t kDpdkMaxMtuBytes = 1500;  // memif and af_packet of DPDK 22.11 take no longer frames

// --- network interfaces of clusters

bool is_namespace(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && text != "." && text != "..";
}
// 15 characters is IFNAMSIZ without its zero. A comma would end the device argument.
bool is_interface(const std::string& text) {
  return !text.empty() && text.size() <= 15 && text.find_first_of("/, \t") == std::string::npos;
}

using I = InterfaceConfig;
constexpr Setting kInterface[] = {
    declare<&I::cluster>(
        {.name = "cluster", .help = "the cluster that uses it", .most = kMaxClusters - 1, .required = true}),
    declare<&I::netns>({.name = "netns",
                        .help = "the network namespace of the interface; none: the one that braid runs in",
                        .allowed = "the name of a network namespace, as in 'ip netns list'",
                        .fits = is_namespace}),
    declare<&I::interface>(
        {.name = "interface",
         .help = "the interface's name; it must have no IP address, or the kernel answers for the stack",
         .allowed = "the name of a network interface, at most 15 characters",
         .fits = is_interface,
         .required = true}),
    host(declare<&I::address>(
        {.name = "address", .help = "the IPv4 address of the cluster's stack", .required = true})),
    station(declare<&I::mac>(
        {.name = "mac",
         .help =
             "the interface's Ethernet address, which the other clusters then take from here and not from ARP; "
             "none: the daemon asks the device, and the others ask by ARP"})),
    declare<&I::steering>(
        {.name = "steering", .help = "how packets reach the queue of their proxy (docs/OPERATIONS.md)"})};
constinit const Schema kInterfaceSchema = {.settings = kInterface};

using D = DpdkConfig;
constexpr Setting kDpdk[] = {
    declare<&D::kind>(
        {.name = "kind",
         .option = "--dpdk",
         .help =
             "DPDK ports for --wire dpdk: memif between the daemons (no root), or af_packet on network interfaces (root)",
         .scope = Scope::kLive}),
    declare<&D::memory_mib>(
        {.name = "memory_mib",
         .unit = "MiB",
         .help = "memory of each daemon's EAL in ordinary pages, MiB; auto: what its ports and queues need",
         .least = 16,
         .most = kMaxEalMib,
         .automatic = 0,
         .scope = Scope::kLive})};
constexpr List kDpdkLists[] = {
    list<&D::interfaces>("interfaces", "for af_packet: one entry for each interface of each cluster",
                         "{cluster: 0, interface: …, address: …}", kInterfaceSchema, Scope::kLive)};
constinit const Schema kDpdkSchema = {.settings = kDpdk, .lists = kDpdkLists};

using P = CaptureConfig;
constexpr Setting kCapture[] = {
    declare<&P::directory>(
        {.name = "directory",
         .option = "--capture",
         .help = "write every packet that a proxy receives or sends to DIR/cluster<k>-proxy<p>.pcapng, for "
                 "Wireshark with tools/wireshark/braid.lua",
         .allowed = "a folder",
         .scope = Scope::kLive}),
    declare<&P::limit_mib>(
        {.name = "limit_mib",
         .option = "--capture-limit",
         .unit = "MiB",
         .help = "the largest size of each capture file, MiB; later packets are only counted",
         .reason = "a capture of an hour must not fill the disk",
         .least = 1,
         .most = kMaxCaptureMib,
         .scope = Scope::kLive})};
constinit const Schema kCaptureSchema = {.settings = kCapture};

// --- the run

using C = RunConfig;
constexpr Setting kRun[] = {
    declare<&C::clusters>(
        {.name = "clusters",
         .option = "--clusters",
         .help = "clusters (SMPs) of the machine; each has a braidd and an application process",
         .reason = "the smallest machine with a wire in it",
         .least = 1,
         .most = kMaxClusters,
         .beyond = "; for more compute nodes take larger clusters ('compute')"}),
    declare<&C::compute>({.name = "compute",
                          .option = "--compute",
                          .help = "compute nodes (application threads) of each cluster",
                          .reason = "programs share memory both inside a cluster and between clusters",
                          .least = 1,
                          .most = kMaxComputeNodes,
                          .beyond = "; for more compute nodes take more clusters ('clusters')"}),
    declare<&C::proxies>(
        {.name = "proxies",
         .option = "--proxies",
         .help = "proxies (protocol threads with a stack and a queue of their own) of each cluster",
         .least = 1,
         .most = kMaxProxies}),
    declare<&C::nis>({.name = "nis",
                      .option = "--nis",
                      .help =
                          "network interfaces of each cluster, each with an address of its own; proxy i uses "
                          "interface i modulo their number",
                      .least = 1,
                      .most = kMaxNis}),
    declare<&C::dispatch>(
        {.name = "dispatch",
         .option = "--dispatch",
         .help = "which proxy carries a message: always the same for a compute node (fixed), each in "
                 "turn (rr), or the one with the shortest queue (least-loaded)"}),
    declare<&C::wire>(
        {.name = "wire",
         .option = "--wire",
         .help =
             "what connects the clusters: shared memory between the daemons (shm), the kernel's UDP (udp), DPDK "
             "ports (dpdk), or between hosts AF_XDP (af_xdp) or AF_PACKET (af_packet)",
         .reason = "needs no privileges",
         .scope = Scope::kLive}),
    declare<&C::protocol>(
        {.name = "protocol",
         .option = "--protocol",
         .help =
             "when copies of a page that a release has written are invalidated: before the release is complete (eager), "
             "or at the next lock, barrier or variable of the cluster that has the copy (lazy); mgs is eager with the "
             "constants of the paper's page protocol ('engine'), and only simulated"}),
    declare<&C::heap_mib>({.name = "heap_mib",
                           .option = "--heap-mib",
                           .unit = "MiB",
                           .help = "shared memory that applications may allocate, MiB",
                           .reason = "memory is taken only when it is used",
                           .least = 1,
                           .most = kMaxHeapMib}),
    declare<&C::window_kib>(
        {.name = "window_kib",
         .option = "--window-kib",
         .unit = "KiB",
         .help =
             "how much one cluster may send to another before the receiver has taken it, KiB; a power of two",
         .reason =
             "512 in live runs, which lets a message carry 64 KiB of pages; 256 in simulations, or the least that "
             "carries a page",
         .least = kMinWindowKib,
         .most = kMaxWindowKib,
         .automatic = 0}),
    declare<&C::protection>(
        {.name = "protection",
         .option = "--protection",
         .help =
             "how accesses to shared memory are detected: mprotect, userfaultfd (Linux 6.4; cheaper, no limit of "
             "mappings), or userfaultfd where the kernel has it (auto)",
         .scope = Scope::kLive}),
    declare<&C::start_timeout_ms>({.name = "start_timeout_ms",
                                   .option = "--start-timeout",
                                   .unit = "ms",
                                   .help = "time within which all daemons must be connected, ms",
                                   .reason = "the EAL of 64 daemons on two cores takes a while to start",
                                   .least = 100,
                                   .most = kDayMs,
                                   .scope = Scope::kLive}),
    declare<&C::watchdog_s>(
        {.name = "watchdog_s",
         .option = "--watchdog",
         .unit = "s",
         .help =
             "end the run when every compute node has waited and nothing has moved for this time, s, and print "
             "what each waits for; 0: never",
         .most = kDayMs / 1000,
         .scope = Scope::kLive}),
    declare<&C::watchdog_hint_s>(
        {.name = "watchdog_hint_s",
         .option = "--watchdog-hint",
         .unit = "s",
         .help =
             "print what each compute node waits for when nothing has moved for this time, s, and go on; once also when some "
             "have waited so long while all others computed without a call of the runtime, as a loop does that polls a plain "
             "variable; 0: never",
         .reason = "much longer than waits for a lost packet are",
         .most = kDayMs / 1000,
         .scope = Scope::kLive}),
    declare<&C::misdirect>(
        {.name = "misdirect",
         .option = "--misdirect",
         .help =
             "let every packet arrive at the queue of another proxy, so that all packets are handed over in software",
         .scope = Scope::kLive}),
    declare<&C::bind>(
        {.name = "bind",
         .option = "--bind",
         .help =
             "a core of its own for each proxy and each compute node of a host that has enough of them (core), or whatever "
             "the kernel chooses (none)",
         .reason = "what a thread finds in its core's caches is its own",
         .scope = Scope::kLive})};
constexpr Section kRunSections[] = {
    section<&C::transport>("transport", "Transport", kTransportSchema),
    section<&C::faults>("faults", "Faults on the wire, injected where frames arrive", kFaultSchema),
    section<&C::idle>("idle", "How a proxy waits", kIdleSchema),
    section<&C::capture>("capture", "Capture", kCaptureSchema),
    section<&C::simulation>("simulation", "Simulation", kSimulationSchema),
    section<&C::engine>("engine", "Constants of the page engine", kEngineSchema),
    section<&C::cycles>("cycles", "Costs other than the model's", kRunCostSchema),
    section<&C::dpdk>("dpdk", "DPDK", kDpdkSchema),
    section<&C::security>("security", "Encryption and authentication", kRunSecuritySchema)};

std::optional<Conflict> window_is_a_power(const C& c) {
  if (c.window_kib == 0 || std::has_single_bit(c.window_kib)) return std::nullopt;
  return Conflict{{"window_kib"},
                  fmt::format("{} is not a power of two; take {} or {}", c.window_kib,
                              std::bit_floor(c.window_kib), std::bit_ceil(c.window_kib))};
}

std::optional<Conflict> window_carries_a_page(const C& c) {
  if (c.window_kib == 0) return std::nullopt;
  const std::string problem = window_problem(c.window_kib, c.engine.page_length());
  if (problem.empty()) return std::nullopt;
  return Conflict{{"window_kib", "engine.page_bytes"}, problem};
}

std::optional<Conflict> there_is_another_proxy(const C& c) {
  if (c.misdirect && (c.wire == Wire::kUdp || c.wire == Wire::kPacket))
    return Conflict{
        {"misdirect", "wire"},
        "the kernel brings each packet to the socket of its proxy; take another wire, or set misdirect to false"};
  if (!c.misdirect || c.proxies > 1) return std::nullopt;
  return Conflict{
      {"misdirect", "proxies"},
      "with one proxy there is none to misdirect to; set proxies to 2 or more, or misdirect to false"};
}

std::optional<Conflict> wire_carries_the_mtu(const C& c) {
  if (c.wire == Wire::kXdp && c.transport.mtu_bytes > kMaxXdpMtuBytes)
    return Conflict{
        {"transport.mtu_bytes", "wire"},
        fmt::format("{} is too long for wire af_xdp, whose frames fit a page; allowed: {} to {}, or take "
                    "wire udp",
                    c.transport.mtu_bytes, kMinMtuBytes, kMaxXdpMtuBytes)};
  if (c.wire != Wire::kDpdk || c.transport.mtu_bytes <= kDpdkMaxMtuBytes) return std::nullopt;
  return Conflict{{"transport.mtu_bytes", "wire"},
                  fmt::format("{} is too long for wire dpdk; allowed: {} to {}, or take wire shm",
                              c.transport.mtu_bytes, kMinMtuBytes, kDpdkMaxMtuBytes)};
}

std::optional<Conflict> wire_delivers_fragments(const C& c) {
  const bool is_interface = is_at_interface(c.wire);
  if ((c.wire == Wire::kUdp || is_interface) && c.transport.fragmentation == stack::Fragmentation::kIp)
    return Conflict{
        {"transport.fragmentation", "wire"},
        fmt::format("ip is not possible {}", is_interface ? kNoFragmentsAtInterface : kNoFragmentsOverUdp)};
  if (c.wire != Wire::kDpdk || c.dpdk.kind != DpdkKind::kAfPacket ||
      c.transport.fragmentation != stack::Fragmentation::kIp)
    return std::nullopt;
  return Conflict{{"transport.fragmentation", "dpdk.kind"},
                  fmt::format("ip is not possible {}", kNoFragments)};
}

std::optional<Conflict> each_interface_has_a_proxy(const C& c) {
  if (c.nis <= c.proxies) return std::nullopt;
  return Conflict{
      {"nis", "proxies"},
      fmt::format("{} network interfaces for {} proxies: each proxy uses one; set proxies to at least nis",
                  c.nis, c.proxies)};
}

std::optional<Conflict> dpdk_has_the_ports(const C& c) {
  if (c.wire != Wire::kDpdk || c.dpdk.kind != DpdkKind::kMemif ||
      (c.clusters - 1) * c.nis <= kMaxMemifClusters - 1)
    return std::nullopt;
  return Conflict{
      {"clusters", "wire", "dpdk.kind"},
      fmt::format("{} clusters need {} memif ports each and DPDK has 32; take at most {} clusters, wire "
                  "shm, or dpdk.kind af_packet",
                  c.clusters, (c.clusters - 1) * c.nis, (kMaxMemifClusters - 1) / c.nis + 1)};
}

// No two clusters have an address or an interface in common.
std::optional<Conflict> interfaces_are_different(const C& c) {
  if (c.dpdk.kind == DpdkKind::kMemif && !c.dpdk.interfaces.empty())
    return Conflict{{"dpdk.interfaces", "dpdk.kind"},
                    "memif uses no interfaces; remove them, or set dpdk.kind to af_packet"};
  if (c.wire != Wire::kDpdk) return std::nullopt;
  std::set<std::string> addresses;
  std::set<std::pair<std::string, std::string>> interfaces;
  for (const I& i : c.dpdk.interfaces) {
    if (!addresses.insert(i.address).second)
      return Conflict{{"dpdk.interfaces"},
                      fmt::format("two clusters have the address {}; give each its own", i.address)};
    if (!interfaces.insert({i.netns, i.interface}).second)
      return Conflict{{"dpdk.interfaces"},
                      fmt::format("two clusters have the interface {}{}{}; give each its own", i.interface,
                                  i.netns.empty() ? "" : " of namespace ", i.netns)};
  }
  return std::nullopt;
}

std::optional<Conflict> clusters_have_interfaces(const C& c) {
  if (c.wire != Wire::kDpdk || c.dpdk.kind != DpdkKind::kAfPacket) return std::nullopt;
  std::map<unsigned, unsigned> count;  // of each cluster
  for (const I& i : c.dpdk.interfaces) ++count[i.cluster];
  for (unsigned k = 0; k < c.clusters; ++k) {
    if (count[k] == c.nis) continue;
    if (count[k] > 0)
      return Conflict{{"dpdk.interfaces", "nis"},
                      fmt::format("cluster {} has {} interfaces and nis is {}; make both numbers equal", k,
                                  count[k], c.nis)};
    return Conflict{{"dpdk.interfaces", "dpdk.kind", "clusters"},
                    fmt::format("cluster {} of {} has no interface; dpdk.kind af_packet needs an entry "
                                "{{cluster: {}, interface: …, address: …}} for each cluster",
                                k, c.clusters, k)};
  }
  return std::nullopt;
}

// --- incidents of a simulation

std::string incident_key(std::size_t i, const char* key) {
  return fmt::format("simulation.incidents[{}].{}", i, key);
}

std::optional<Conflict> incidents_have_proxies(const C& c) {
  if (c.simulation.incidents.empty()) return std::nullopt;
  if (c.clusters < 2)
    return Conflict{
        {"simulation.incidents", "clusters"},
        "one cluster uses no proxies, so nothing can happen to them; remove the incidents, or set "
        "clusters to 2 or more"};
  if (c.simulation.mode == Mode::kReal) return std::nullopt;
  return Conflict{
      {"simulation.incidents", "simulation.mode"},
      "messages bypass the proxies in this mode, so nothing can happen to them; remove the incidents, "
      "or set simulation.mode to real"};
}

std::optional<Conflict> incidents_name_what_is_there(const C& c) {
  for (std::size_t i = 0; i < c.simulation.incidents.size(); ++i) {
    const IncidentConfig& incident = c.simulation.incidents[i];
    const auto beyond = [&](const char* key, int value, unsigned most, const char* cure) {
      return Conflict{
          {incident_key(i, key), cure},
          fmt::format("{} does not exist; allowed with {} {}: 0 to {}", value, cure, most + 1, most)};
    };
    if (incident.cluster >= c.clusters)
      return beyond("cluster", static_cast<int>(incident.cluster), c.clusters - 1, "clusters");
    if (incident.proxy >= static_cast<int>(c.proxies))
      return beyond("proxy", incident.proxy, c.proxies - 1, "proxies");
    if (incident.ni >= static_cast<int>(c.nis)) return beyond("ni", incident.ni, c.nis - 1, "nis");
    if (incident.active > static_cast<int>(c.proxies))
      return Conflict{{incident_key(i, "active"), "proxies"},
                      fmt::format("{} are more than there are; allowed with proxies {}: 1 to {}",
                                  incident.active, c.proxies, c.proxies)};
  }
  return std::nullopt;
}

// A cluster that cannot be reached for ever is lost, and its program with it.
std::optional<Conflict> incidents_leave_a_proxy(const C& c) {
  std::map<unsigned, std::set<unsigned>> gone;  // by cluster: proxies that never return
  for (std::size_t i = 0; i < c.simulation.incidents.size(); ++i) {
    const IncidentConfig& incident = c.simulation.incidents[i];
    if (incident.for_us != 0 || incident.kind == IncidentKind::kActiveProxies) continue;
    std::set<unsigned>& of_cluster = gone[incident.cluster];
    for (unsigned p = 0; p < c.proxies; ++p) {
      const bool stops = incident.proxy == static_cast<int>(p);
      const bool is_cut_off = incident.ni == static_cast<int>(p % c.nis);
      if (stops || is_cut_off) of_cluster.insert(p);
    }
    if (of_cluster.size() < c.proxies) continue;
    const bool is_ni = incident.kind == IncidentKind::kNiFails;
    return Conflict{
        {incident_key(i, is_ni ? "ni" : "proxy"), incident_key(i, "kind")},
        fmt::format("leaves cluster {} without a proxy for ever, and its peers give it up; add "
                    "'for_us', after which the {} returns, or set {} to more",
                    incident.cluster, is_ni ? "network interface" : "proxy", is_ni ? "nis" : "proxies")};
  }
  return std::nullopt;
}

constexpr Relation kRunRelations[] = {
    relation<C, window_is_a_power>("window_kib is a power of two"),
    relation<C, window_carries_a_page>(
        "a quarter of window_kib carries a page of engine.page_bytes with its byte mask: 128 for 16384, 256 for 32768, "
        "512 for 65536"),
    relation<C, there_is_another_proxy>(
        "misdirect needs two proxies and a wire that is not udp or af_packet"),
    relation<C, wire_carries_the_mtu>("with wire dpdk transport.mtu_bytes is at most 1500, with af_xdp 3826"),
    relation<C, wire_delivers_fragments>(
        "with wire udp, af_xdp or af_packet, or dpdk.kind af_packet, transport.fragmentation is transport"),
    relation<C, each_interface_has_a_proxy>("nis is at most proxies"),
    relation<C, dpdk_has_the_ports>("a cluster has at most 32 memif ports: (clusters - 1) * nis"),
    relation<C, interfaces_are_different>(
        "dpdk.interfaces are for dpdk.kind af_packet, and no two have an address or an interface in common"),
    relation<C, clusters_have_interfaces>(
        "with dpdk.kind af_packet each cluster has nis entries in dpdk.interfaces"),
    relation<C, incidents_have_proxies>(
        "simulation.incidents are for two clusters or more and simulation.mode real"),
    relation<C, incidents_name_what_is_there>(
        "simulation.incidents name clusters, proxies and network interfaces that exist"),
    relation<C, incidents_leave_a_proxy>(
        "simulation.incidents leave each cluster a proxy that is in service at the end")};

}  // namespace

constinit const Schema kRunSchema = {.settings = kRun, .sections = kRunSections, .relations = kRunRelations};

std::uint32_t RunConfig::mtu_bytes() const {
  if (transport.mtu_bytes != 0) return transport.mtu_bytes;
  switch (wire) {
    case Wire::kDpdk:
      return kDpdkMaxMtuBytes;
    case Wire::kXdp:
      return kMaxXdpMtuBytes;
    case Wire::kShm:
    case Wire::kUdp:
    case Wire::kPacket:
      return kMaxMtuBytes;
  }
  CHECK(false);
}

std::uint32_t RunConfig::live_window_kib() const {
  return window_kib != 0 ? window_kib : kLiveWindowKib;
}

std::uint32_t RunConfig::simulated_window_kib(dsm::PageLength length) const {
  return window_kib != 0 ? window_kib : std::max(kSimulatedWindowKib, least_window_kib(length));
}

std::uint32_t RunConfig::spins(unsigned cores) const {
  if (idle.spins != IdleConfig::kAutomaticSpins) return idle.spins;
  return threads() > cores ? 0 : IdleConfig{}.spins;
}

bool shapes(const std::string& key, bool simulated) {
  Scope scope = Scope::kBoth;
  if (const Setting* const setting = find_setting(kRunSchema, key)) {
    scope = setting->scope;
  } else {
    const List* const list = find_list(kRunSchema, key.substr(0, key.find('[')));  // or a key of an entry
    CHECK(list != nullptr);
    scope = list->scope;
  }
  return scope == Scope::kBoth || (scope == Scope::kSimulated) == simulated;
}

namespace {

// A model's file has the costs of compute nodes first.
bool is_cost_of_a_way(const std::string& name) {
  const std::span<const Setting> costs = cost_settings();
  const auto at = [&](std::string_view wanted) {
    return std::find_if(costs.begin(), costs.end(), [&](const Setting& cost) { return cost.name == wanted; });
  };
  const auto found = at(name);
  return found != costs.end() && found >= at("window_send");
}

}  // namespace

bool acts_in(const std::string& key, Mode mode) {
  if (mode == Mode::kReal) return key != "simulation.message_bytes";
  // In other modes no frame is on a link.
  if (key.starts_with("faults.") && key != "faults.seed") return false;
  if (mode == Mode::kNoContention)
    return true;  // a message takes as long as one of proxies that do nothing else
  if (key.starts_with("transport.") || key == "simulation.message_bytes") return false;
  constexpr std::array kOfProxies = {
      "proxies", "nis", "dispatch", "window_kib", "simulation.proxy_speed", "simulation.mutant"};
  if (std::find(kOfProxies.begin(), kOfProxies.end(), key) != kOfProxies.end()) return false;
  return !key.starts_with("cycles.") || !is_cost_of_a_way(key.substr(sizeof "cycles." - 1));
}

std::string modes_of(const std::string& key) {
  std::string all;
  for (const Mode mode : {Mode::kReal, Mode::kNoContention, Mode::kNoDelay})
    if (acts_in(key, mode)) all += fmt::format("{}{}", all.empty() ? "" : " or ", word_of(mode));
  return all;
}

}  // namespace braid::settings
