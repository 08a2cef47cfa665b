#include "tools/braid/run_config.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>

#include "proxy/channel/channel.h"
#include "stack/wire/addresses.h"
#include "tools/braid/number_in.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kMinMtuBytes = 576;       // what every IPv4 host must take (RFC 791)
constexpr std::uint32_t kShmMaxMtuBytes = 9000;   // a page and its headers in one packet, twice over
constexpr std::uint32_t kDpdkMaxMtuBytes = 1500;  // memif and af_packet of DPDK 22.11 take no longer frames
constexpr std::uint32_t kDayMs = 86'400'000;
constexpr std::uint32_t kMaxPeerDeathMs = 137'000;  // packets' timestamps tell no longer times apart

template <class E>
struct Name {
  E value;
  const char* text;
};
constexpr Name<Wire> kWires[] = {{Wire::kShm, "shm"}, {Wire::kDpdk, "dpdk"}};
constexpr Name<Dispatch> kDispatches[] = {{Dispatch::kFixed, "fixed"},
                                          {Dispatch::kRoundRobin, "rr"},
                                          {Dispatch::kRoundRobin, "round-robin"},
                                          {Dispatch::kLeastLoaded, "least-loaded"}};
constexpr Name<stack::CongestionControl> kCongestionControls[] = {
    {stack::CongestionControl::kNone, "none"}, {stack::CongestionControl::kDelay, "delay"}};
constexpr Name<stack::Fragmentation> kFragmentations[] = {{stack::Fragmentation::kTransport, "transport"},
                                                          {stack::Fragmentation::kIp, "ip"}};
constexpr Name<proxy::PeerChoice> kPeerChoices[] = {{proxy::PeerChoice::kAligned, "aligned"},
                                                    {proxy::PeerChoice::kRoundRobin, "round-robin"}};
constexpr Name<proxy::Steering> kSteerings[] = {{proxy::Steering::kAuto, "auto"},
                                                {proxy::Steering::kFlow, "flow"},
                                                {proxy::Steering::kRss, "rss"},
                                                {proxy::Steering::kHandoff, "handoff"}};
constexpr Name<Protect> kProtects[] = {
    {Protect::kAuto, "auto"}, {Protect::kMprotect, "mprotect"}, {Protect::kUserfaultfd, "userfaultfd"}};
constexpr Name<sim::Mode> kModes[] = {{sim::Mode::kReal, "real"},
                                      {sim::Mode::kNoDelay, "no-delay"},
                                      {sim::Mode::kNoContention, "no-contention"}};
constexpr Name<sim::PlantedMistake> kPlantedMistakes[] = {
    {sim::PlantedMistake::kNone, "none"},
    {sim::PlantedMistake::kLastInFirstOut, "last-in-first-out"},
    {sim::PlantedMistake::kForgetsChecksums, "forgets-checksums"}};
constexpr Name<DpdkKind> kDpdkKinds[] = {{DpdkKind::kMemif, "memif"}, {DpdkKind::kAfPacket, "af_packet"}};

template <class E, std::size_t N>
const char* name_of(const Name<E> (&names)[N], E value) {
  for (const Name<E>& name : names) {
    if (name.value == value) return name.text;
  }
  return "?";
}

std::string not_allowed(const std::string& text, const std::string& allowed) {
  return fmt::format("'{}' is not allowed; allowed: {}", text, allowed);
}

// `member(config)` is a reference to an unsigned member. `beyond` is what to say besides to who wants more.
template <class Member>
Setting number(std::string key, std::string option, std::uint64_t min, std::uint64_t max, std::string help,
               Member member, std::string beyond = "") {
  using T = std::remove_reference_t<decltype(member(std::declval<RunConfig&>()))>;
  Setting s{.key = std::move(key),
            .option = std::move(option),
            .allowed = fmt::format("{} to {}", min, max),
            .help = std::move(help)};
  s.set = [member, min, max, beyond = std::move(beyond)](RunConfig& config,
                                                         const std::string& text) -> std::string {
    const auto value = number_in<std::uint64_t>(text);
    if (!value) return fmt::format("'{}' is not a whole number; allowed: {} to {}", text, min, max);
    if (*value < min || *value > max)
      return fmt::format("{} is out of range; allowed: {} to {}{}", *value, min, max,
                         *value > max ? beyond : "");
    member(config) = static_cast<T>(*value);
    return {};
  };
  s.get = [member](const RunConfig& config) { return Json(member(const_cast<RunConfig&>(config))); };
  return s;
}

// A number, or "auto".
template <class Set, class Get>
Setting number_or_auto(std::string key, std::string option, std::uint32_t min, std::uint32_t max,
                       std::string help, Set set, Get get) {
  const std::string allowed = fmt::format("auto, or {} to {}", min, max);
  Setting s{.key = std::move(key), .option = std::move(option), .allowed = allowed, .help = std::move(help)};
  s.set = [=](RunConfig& config, const std::string& text) -> std::string {
    if (text == "auto") {
      set(config, std::nullopt);
      return {};
    }
    const auto value = number_in<std::uint32_t>(text);
    if (!value || *value < min || *value > max) return not_allowed(text, allowed);
    set(config, value);
    return {};
  };
  s.get = [=](const RunConfig& config) {
    const std::optional<std::uint32_t> value = get(config);
    return value ? Json(*value) : Json("auto");
  };
  return s;
}

template <class Member>
Setting fraction(std::string key, std::string option, double min, double max, std::string help,
                 Member member) {
  const std::string allowed = fmt::format("{} to {}", min, max);
  Setting s{.key = std::move(key), .option = std::move(option), .allowed = allowed, .help = std::move(help)};
  s.set = [=](RunConfig& config, const std::string& text) -> std::string {
    const auto value = number_in<double>(text);
    if (!value || !(*value >= min && *value <= max)) return not_allowed(text, allowed);
    member(config) = *value;
    return {};
  };
  s.get = [member](const RunConfig& config) { return Json(member(const_cast<RunConfig&>(config))); };
  return s;
}

template <class Member>
Setting probability(std::string key, std::string option, std::string help, Member member) {
  Setting s{.key = std::move(key),
            .option = std::move(option),
            .allowed = "a probability, 0 to 1",
            .help = std::move(help)};
  s.set = [member](RunConfig& config, const std::string& text) -> std::string {
    const auto value = number_in<double>(text);
    if (!value)
      return fmt::format("'{}' is not a number; allowed: a probability, 0 to 1 (0.01 is one per cent)", text);
    if (!(*value >= 0 && *value <= 1))
      return fmt::format("{} is out of range; allowed: a probability, 0 to 1 (0.01 is one per cent)", text);
    member(config) = *value;
    return {};
  };
  s.get = [member](const RunConfig& config) { return Json(member(const_cast<RunConfig&>(config))); };
  return s;
}

template <class Member, class E, std::size_t N>
Setting choice(std::string key, std::string option, const Name<E> (&names)[N], std::string help,
               Member member) {
  std::string allowed;
  for (const Name<E>& name : names) allowed += (allowed.empty() ? "" : ", ") + std::string(name.text);
  Setting s{.key = std::move(key),
            .option = std::move(option),
            .allowed = allowed,
            .help = std::move(help),
            .quoted_text = true};
  s.set = [member, &names, allowed](RunConfig& config, const std::string& text) -> std::string {
    for (const Name<E>& name : names) {
      if (text != name.text) continue;
      member(config) = name.value;
      return {};
    }
    return not_allowed(text, allowed);
  };
  s.get = [member, &names](const RunConfig& config) {
    return Json(name_of(names, member(const_cast<RunConfig&>(config))));
  };
  return s;
}

template <class Member>
Setting truth(std::string key, std::string option, std::string help, Member member) {
  Setting s{
      .key = std::move(key), .option = std::move(option), .allowed = "true, false", .help = std::move(help)};
  s.set = [member](RunConfig& config, const std::string& text) -> std::string {
    if (text != "true" && text != "false") return not_allowed(text, "true, false");
    member(config) = text == "true";
    return {};
  };
  s.get = [member](const RunConfig& config) { return Json(member(const_cast<RunConfig&>(config))); };
  return s;
}

// The path of something, or nothing; `what` says of what.
template <class Member>
Setting path_of(std::string what, std::string key, std::string option, std::string help, Member member) {
  Setting s{.key = std::move(key),
            .option = std::move(option),
            .allowed = what,
            .help = std::move(help),
            .quoted_text = true};
  s.set = [member, what](RunConfig& config, const std::string& text) -> std::string {
    // It goes into messages and file names; a line's end in it is a slip of the shell.
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }))
      return fmt::format("a name with control characters is not allowed; allowed: {}", what);
    member(config) = text;
    return {};
  };
  s.get = [member](const RunConfig& config) { return Json(member(const_cast<RunConfig&>(config))); };
  return s;
}

std::vector<Setting> make_settings() {
  using C = RunConfig;
  std::vector<Setting> all;
  all.push_back(number(
      "clusters", "--clusters", 1, kMaxClusters, "SMPs of the machine: a braidd and a process each",
      [](C& c) -> unsigned& { return c.clusters; },
      ", for a page's set of copies is one word; for more compute nodes take larger "
      "clusters ('compute')"));
  all.push_back(number(
      "compute", "--compute", 1, kMaxCompute, "compute nodes (application threads) of each cluster",
      [](C& c) -> unsigned& { return c.compute; },
      "; for more compute nodes take more clusters ('clusters')"));
  all.push_back(number("proxies", "--proxies", 1, proxy::kMaxProxies,
                       "proxies (protocol threads) of each cluster",
                       [](C& c) -> unsigned& { return c.proxies; }));
  all.push_back(number("nis", "--nis", 1, 8,
                       "network interfaces of each cluster, each with an address of its own; proxy i uses "
                       "number i modulo so many",
                       [](C& c) -> unsigned& { return c.nis; }));
  all.push_back(
      choice("dispatch", "--dispatch", kDispatches,
             "which proxy takes a message: always the same for a compute node (fixed), or each in turn (rr)",
             [](C& c) -> Dispatch& { return c.dispatch; }));
  all.push_back(choice("wire", "--wire", kWires,
                       "what joins the clusters: memory (shm), or DPDK ports (dpdk)",
                       [](C& c) -> Wire& { return c.wire; }));
  all.push_back(number("heap_mib", "--heap-mib", 1, 65536,
                       "shared memory that applications may allocate, MiB",
                       [](C& c) -> std::uint32_t& { return c.heap_mib; }));
  all.push_back(number("window_kib", "--window-kib", 32, 16384,
                       "what one cluster may send another before it is taken, KiB: a power of two",
                       [](C& c) -> std::uint32_t& { return c.window_kib; }));
  all.push_back(
      choice("protection", "--protection", kProtects,
             "how accesses to shared memory are noticed: mprotect, userfaultfd (Linux 6.4; no limit "
             "of mappings), or the better one that is there (auto)",
             [](C& c) -> Protect& { return c.protection; }));
  all.push_back(number("start_timeout_ms", "--start-timeout", 100, kDayMs,
                       "how long the daemons may take until all are connected, ms",
                       [](C& c) -> std::uint32_t& { return c.start_timeout_ms; }));
  all.push_back(number("watchdog_s", "--watchdog", 0, kDayMs / 1000,
                       "end the run when every compute node has waited and nothing has happened for so long, "
                       "s, and say what each waits for; 0: never",
                       [](C& c) -> std::uint32_t& { return c.watchdog_s; }));
  all.push_back(
      truth("misdirect", "--misdirect",
            "let every packet land on a queue of another proxy, so that all are handed over in software",
            [](C& c) -> bool& { return c.misdirect; }));

  all.push_back(number_or_auto(
      "transport.mtu_bytes", "--mtu", kMinMtuBytes, kShmMaxMtuBytes,
      "longest IP packet, bytes; at most 1500 with --wire dpdk; auto: 9000 (shm), 1500 (dpdk)",
      [](C& c, std::optional<std::uint32_t> v) { c.transport.mtu_bytes = v.value_or(0); },
      [](const C& c) {
        return c.transport.mtu_bytes == 0 ? std::nullopt
                                          : std::optional<std::uint32_t>(c.transport.mtu_bytes);
      }));
  all.push_back(choice("transport.fragmentation", "--fragmentation", kFragmentations,
                       "who cuts messages longer than a packet: the transport, or IP as in the paper",
                       [](C& c) -> stack::Fragmentation& { return c.transport.fragmentation; }));
  all.push_back(number("transport.window_packets", "--window-packets", 1, 256,
                       "packets in flight between two proxies",
                       [](C& c) -> std::uint32_t& { return c.transport.window_packets; }));
  all.push_back(choice("transport.congestion", "--congestion", kCongestionControls,
                       "what limits packets in flight beside the window: nothing, or the delay they meet",
                       [](C& c) -> stack::CongestionControl& { return c.transport.congestion; }));
  all.push_back(choice("transport.peer", "--peer", kPeerChoices,
                       "which proxy of a peer a proxy sends to, of those that it has a sub-connection with",
                       [](C& c) -> proxy::PeerChoice& { return c.transport.peer; }));
  all.push_back(truth("transport.all_pairs", "--all-pairs",
                      "a sub-connection for every pair of proxies, not only for those with the same number",
                      [](C& c) -> bool& { return c.transport.all_pairs; }));
  all.push_back(number("transport.path_death_ms", "--path-death", 1, kMaxPeerDeathMs,
                       "silence after which a path between two proxies is given up, ms",
                       [](C& c) -> std::uint32_t& { return c.transport.path_death_ms; }));
  all.push_back(number("transport.peer_death_ms", "--peer-death", 1, kMaxPeerDeathMs,
                       "silence after which a cluster is declared dead and the run ends, ms",
                       [](C& c) -> std::uint32_t& { return c.transport.peer_death_ms; }));
  all.push_back(number("transport.min_rto_us", "", 1, 10'000'000, "shortest retransmission timeout, us",
                       [](C& c) -> std::uint32_t& { return c.transport.min_rto_us; }));
  all.push_back(number("transport.max_rto_us", "", 1, 60'000'000, "longest retransmission timeout, us",
                       [](C& c) -> std::uint32_t& { return c.transport.max_rto_us; }));

  all.push_back(probability("faults.loss", "--loss", "probability that an arriving frame is lost",
                            [](C& c) -> double& { return c.faults.loss; }));
  all.push_back(probability("faults.duplicate", "--duplicate", "probability that it arrives twice",
                            [](C& c) -> double& { return c.faults.duplicate; }));
  all.push_back(probability("faults.reorder", "--reorder", "probability that later frames overtake it",
                            [](C& c) -> double& { return c.faults.reorder; }));
  all.push_back(probability("faults.corrupt", "--corrupt", "probability that one bit of it is flipped",
                            [](C& c) -> double& { return c.faults.corrupt; }));
  all.push_back(
      number("faults.flip_past_checksum_every", "--flip-past-checksum", 0, 4'294'967'295,
             "flip a bit of every n-th long frame and repair its checksum: results go wrong; 0: never",
             [](C& c) -> std::uint32_t& { return c.faults.flip_past_checksum_every; }));
  all.push_back(number("faults.drop_all_after", "--drop-all-after", 0, 4'294'967'295,
                       "lose every frame after so many, as if the link were cut; 0: never",
                       [](C& c) -> std::uint32_t& { return c.faults.drop_all_after; }));
  all.push_back(number("faults.seed", "--seed", 0, ~std::uint64_t{0},
                       "which faults happen, and in simulations the jitter: the same seed, the same faults",
                       [](C& c) -> std::uint64_t& { return c.faults.seed; }));

  all.push_back(number_or_auto(
      "idle.spins", "", 0, 1'000'000,
      "turns without work before a proxy yields; auto: 0 when there are more threads than cores",
      [](C& c, std::optional<std::uint32_t> v) { c.idle_spins = v; },
      [](const C& c) { return c.idle_spins; }));
  all.push_back(number("idle.yields", "", 0, 1'000'000, "yields before it sleeps",
                       [](C& c) -> std::uint32_t& { return c.idle.yields; }));
  all.push_back(number("idle.sleep_min_us", "", 1, 1'000'000, "its first sleep, us",
                       [](C& c) -> std::uint32_t& { return c.idle.sleep_min_us; }));
  all.push_back(number("idle.sleep_max_us", "", 1, 1'000'000, "its longest sleep, us",
                       [](C& c) -> std::uint32_t& { return c.idle.sleep_max_us; }));

  all.push_back(
      path_of("a folder", "capture.directory", "--capture",
              "write every packet that a proxy receives or sends to DIR/cluster<k>-proxy<p>.pcapng, "
              "for Wireshark with tools/wireshark/braid.lua",
              [](C& c) -> std::string& { return c.capture.directory; }));
  all.push_back(number("capture.limit_mib", "--capture-limit", 1, 1u << 20,
                       "what each of these files may grow to, MiB",
                       [](C& c) -> std::uint32_t& { return c.capture.limit_mib; }));

  all.push_back(path_of("a model", "simulation.model", "--model",
                        "what things cost in simulation: a model's name (alewife-1997, modern) or a file",
                        [](C& c) -> std::string& { return c.simulation.model; }));
  all.push_back(
      choice("simulation.mode", "--mode", kModes,
             "real; no-delay: messages bypass the proxies; no-contention: each takes as long as one of the "
             "program's mean length on an idle system",
             [](C& c) -> sim::Mode& { return c.simulation.mode; }));
  all.push_back(fraction("simulation.proxy_speed", "--proxy-speed", 0.25, 4,
                         "how fast a proxy is, in compute nodes",
                         [](C& c) -> double& { return c.simulation.proxy_speed; }));
  all.push_back(number(
      "simulation.message_bytes", "--message-bytes", 0, 4096,
      "no-contention: the length of the message whose latency all have; 0: the mean of a real run that "
      "is made before",
      [](C& c) -> std::uint32_t& { return c.simulation.message_bytes; }));
  all.push_back(
      number("simulation.jitter", "--jitter", 0, 1'000'000,
             "what a compute node asks for comes up to so many cycles later; the seed draws how many, "
             "each time",
             [](C& c) -> std::uint32_t& { return c.simulation.jitter; }));
  all.push_back(truth("simulation.strict", "--strict",
                      "everything strictly one after the other: slow, and the same result; to see that it is",
                      [](C& c) -> bool& { return c.simulation.strict; }));
  all.push_back(
      number("simulation.watchdog_s", "--watchdog", 0, kDayMs / 1000,
             "end the run when a compute node has waited for a lock of the program's own, or spun in "
             "a library's code, for so long, s; 0: never",
             [](C& c) -> std::uint32_t& { return c.simulation.watchdog_s; }));
  all.push_back(choice("simulation.planted_mistake", "--planted-mistake", kPlantedMistakes,
                       "a mistake in the model, to see that its figures tell",
                       [](C& c) -> sim::PlantedMistake& { return c.simulation.mistake; }));

  all.push_back(
      choice("dpdk.kind", "--dpdk", kDpdkKinds,
             "ports for --wire dpdk: memif between the daemons (no root), or af_packet on network interfaces",
             [](C& c) -> DpdkKind& { return c.dpdk.kind; }));
  all.push_back(number_or_auto(
      "dpdk.memory_mib", "", 16, 65536,
      "memory of each daemon's EAL, MiB; auto: what its ports and queues need",
      [](C& c, std::optional<std::uint32_t> v) { c.dpdk.memory_mib = v.value_or(0); },
      [](const C& c) {
        return c.dpdk.memory_mib == 0 ? std::nullopt : std::optional<std::uint32_t>(c.dpdk.memory_mib);
      }));
  return all;
}

std::vector<InterfaceSetting> make_interface_settings() {
  using I = InterfaceConfig;
  std::vector<InterfaceSetting> all;
  all.push_back({"cluster", true, [](I& i, const std::string& text) -> std::string {
                   const auto value = number_in<unsigned>(text);
                   if (!value || *value >= kMaxClusters)
                     return not_allowed(text, fmt::format("0 to {}", kMaxClusters - 1));
                   i.cluster = *value;
                   return {};
                 }});
  all.push_back({"netns", false, [](I& i, const std::string& text) -> std::string {
                   if (text.empty() || text.find('/') != std::string::npos || text == "." || text == "..")
                     return not_allowed(text, "the name of a network namespace, as in 'ip netns list'");
                   i.netns = text;
                   return {};
                 }});
  all.push_back({"interface", true, [](I& i, const std::string& text) -> std::string {
                   // 15 characters: IFNAMSIZ. A comma would end the device argument.
                   if (text.empty() || text.size() > 15 || text.find_first_of("/, \t") != std::string::npos)
                     return not_allowed(text, "the name of a network interface, at most 15 characters");
                   i.interface = text;
                   return {};
                 }});
  all.push_back({"address", true, [](I& i, const std::string& text) -> std::string {
                   const auto address = stack::Ipv4Address::parse(text);
                   if (!address || !address->is_unicast())
                     return not_allowed(text, "one host's IPv4 address, e.g. 10.98.0.1");
                   i.address = text;
                   return {};
                 }});
  all.push_back({"mac", false, [](I& i, const std::string& text) -> std::string {
                   const auto mac = stack::MacAddress::parse(text);
                   if (!mac || !mac->is_unicast())
                     return not_allowed(text, "one station's address in quotes, e.g. \"02:62:72:64:00:00\"");
                   i.mac = text;
                   return {};
                 }});
  all.push_back({"steering", false, [](I& i, const std::string& text) -> std::string {
                   for (const Name<proxy::Steering>& steering : kSteerings) {
                     if (text != steering.text) continue;
                     i.steering = steering.value;
                     return {};
                   }
                   return not_allowed(text, "auto, flow, rss, handoff");
                 }});
  return all;
}

std::optional<Conflict> conflict_of_interfaces(const RunConfig& c) {
  const std::string key = "dpdk.interfaces";
  if (c.dpdk.kind == DpdkKind::kMemif) {
    if (c.dpdk.interfaces.empty()) return std::nullopt;
    return Conflict{{key, "dpdk.kind"},
                    "memif uses no interfaces; remove them, or set dpdk.kind to af_packet"};
  }
  if (c.wire != Wire::kDpdk) return std::nullopt;
  std::map<unsigned, unsigned> interfaces;  // of each cluster
  std::set<std::string> addresses;
  std::set<std::pair<std::string, std::string>> places;
  for (const InterfaceConfig& i : c.dpdk.interfaces) {
    ++interfaces[i.cluster];
    if (!addresses.insert(i.address).second)
      return Conflict{{key}, fmt::format("two clusters have the address {}; give each its own", i.address)};
    if (!places.insert({i.netns, i.interface}).second)
      return Conflict{{key},
                      fmt::format("two clusters have the interface {}{}{}; give each its own", i.interface,
                                  i.netns.empty() ? "" : " of namespace ", i.netns)};
  }
  for (unsigned k = 0; k < c.clusters; ++k) {
    const unsigned has = interfaces[k];
    if (has == c.nis) continue;
    if (has > 0)
      return Conflict{
          {"dpdk.interfaces", "nis"},
          fmt::format("cluster {} has {} interfaces and nis is {}; let them agree", k, has, c.nis)};
    return Conflict{{"dpdk.interfaces", "dpdk.kind", "clusters"},
                    fmt::format("cluster {} of {} has no interface; dpdk.kind af_packet needs an entry "
                                "{{cluster: {}, interface: …, address: …}} for each cluster",
                                k, c.clusters, k)};
  }
  return std::nullopt;
}

}  // namespace

const char* to_text(Wire wire) {
  return name_of(kWires, wire);
}
const char* to_text(Dispatch dispatch) {
  return name_of(kDispatches, dispatch);
}
const char* to_text(DpdkKind kind) {
  return name_of(kDpdkKinds, kind);
}

const char* to_text(Protect protection) {
  return name_of(kProtects, protection);
}

std::uint32_t RunConfig::mtu_bytes() const {
  if (transport.mtu_bytes != 0) return transport.mtu_bytes;
  return wire == Wire::kShm ? kShmMaxMtuBytes : kDpdkMaxMtuBytes;
}

std::uint32_t RunConfig::spins(unsigned cores) const {
  if (idle_spins) return *idle_spins;
  return clusters * (compute + proxies) > cores ? 0 : idle.spins;
}

std::optional<Conflict> find_conflict(const RunConfig& c) {
  if (!std::has_single_bit(c.window_kib)) {
    return Conflict{{"window_kib"},
                    fmt::format("{} is not a power of two; take {} or {}", c.window_kib,
                                std::bit_floor(c.window_kib), std::bit_ceil(c.window_kib))};
  }
  if (c.misdirect && c.proxies == 1) {
    return Conflict{
        {"misdirect", "proxies"},
        "with one proxy there is none to misdirect to; set proxies to 2 or more, or misdirect to false"};
  }
  if (c.wire == Wire::kDpdk && c.transport.mtu_bytes > kDpdkMaxMtuBytes) {
    return Conflict{{"transport.mtu_bytes", "wire"},
                    fmt::format("{} is too long for wire dpdk; allowed: {} to {}, or take wire shm",
                                c.transport.mtu_bytes, kMinMtuBytes, kDpdkMaxMtuBytes)};
  }
  if (c.nis > c.proxies) {
    return Conflict{
        {"nis", "proxies"},
        fmt::format("{} network interfaces for {} proxies: each proxy uses one, so give at least as "
                    "many proxies",
                    c.nis, c.proxies)};
  }
  if (c.wire == Wire::kDpdk && c.dpdk.kind == DpdkKind::kMemif &&
      (c.clusters - 1) * c.nis > kMaxMemifClusters - 1) {
    return Conflict{
        {"clusters", "wire", "dpdk.kind"},
        fmt::format(
            "{} clusters need {} memif ports each and DPDK has 32; take at most {} clusters, wire shm, "
            "or dpdk.kind af_packet",
            c.clusters, (c.clusters - 1) * c.nis, (kMaxMemifClusters - 1) / c.nis + 1)};
  }
  const proxy::TransportConfig& t = c.transport;
  if (t.min_rto_us > t.max_rto_us) {
    return Conflict{
        {"transport.min_rto_us", "transport.max_rto_us"},
        fmt::format("min_rto_us ({}) is longer than max_rto_us ({}); lower the one or raise the other",
                    t.min_rto_us, t.max_rto_us)};
  }
  if (std::uint64_t{t.path_death_ms} * 1000 <= t.max_rto_us) {
    return Conflict{
        {"transport.path_death_ms", "transport.max_rto_us"},
        fmt::format("path_death_ms ({} ms) must be longer than max_rto_us ({} us), or a path dies before its "
                    "second try; raise the one or lower the other",
                    t.path_death_ms, t.max_rto_us)};
  }
  if (t.peer_death_ms <= t.path_death_ms) {
    return Conflict{
        {"transport.peer_death_ms", "transport.path_death_ms"},
        fmt::format("peer_death_ms ({}) must be longer than path_death_ms ({}): a peer is dead when all its "
                    "paths are; raise the one or lower the other",
                    t.peer_death_ms, t.path_death_ms)};
  }
  if (c.idle.sleep_min_us > c.idle.sleep_max_us) {
    return Conflict{
        {"idle.sleep_min_us", "idle.sleep_max_us"},
        fmt::format("sleep_min_us ({}) is longer than sleep_max_us ({}); lower the one or raise the other",
                    c.idle.sleep_min_us, c.idle.sleep_max_us)};
  }
  return conflict_of_interfaces(c);
}

std::span<const Setting> settings() {
  static const std::vector<Setting> all = make_settings();
  return all;
}

const Setting* find_setting(const std::string& key) {
  for (const Setting& setting : settings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

bool is_of(const std::string& key, bool simulated) {
  if (key.starts_with("simulation.")) return simulated;
  static const std::set<std::string> live = {"wire",
                                             "protection",
                                             "start_timeout_ms",
                                             "watchdog_s",
                                             "misdirect",
                                             "faults.flip_past_checksum_every",
                                             "faults.drop_all_after"};
  return !simulated || !(live.contains(key) || key.starts_with("dpdk.") || key.starts_with("capture.") ||
                         key.starts_with("idle."));
}

std::span<const InterfaceSetting> interface_settings() {
  static const std::vector<InterfaceSetting> all = make_interface_settings();
  return all;
}

Json to_json(const RunConfig& config) {
  Json json = Json::object();
  for (const Setting& setting : settings()) {
    const std::size_t dot = setting.key.find('.');
    Json& place = dot == std::string::npos ? json[setting.key]
                                           : json[setting.key.substr(0, dot)][setting.key.substr(dot + 1)];
    place = setting.get(config);
  }
  json["dpdk"]["interfaces"] = Json::array();
  for (const InterfaceConfig& i : config.dpdk.interfaces) {
    json["dpdk"]["interfaces"].push_back({{"cluster", i.cluster},
                                          {"netns", i.netns},
                                          {"interface", i.interface},
                                          {"address", i.address},
                                          {"mac", i.mac},
                                          {"steering", name_of(kSteerings, i.steering)}});
  }
  return json;
}

Result<void> ConfigBuilder::set_option(const Setting& setting, const std::string& text) {
  if (const std::string problem = setting.set(config_, text); !problem.empty())
    return error("{}: {}", setting.option, problem);
  places_[setting.key] = setting.option + ":";
  return {};
}

Result<RunConfig> ConfigBuilder::finish() const {
  const std::optional<Conflict> conflict = find_conflict(config_);
  if (!conflict) return config_;
  for (const std::string& key : conflict->keys) {
    const auto place = places_.find(key);
    if (place != places_.end()) return error("{} {}", place->second, conflict->text);
  }
  return error("{}: {}", conflict->keys.front(), conflict->text);
}

std::optional<std::string> nearest(const std::string& name, const std::vector<std::string>& known) {
  const auto distance = [](const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j) {
        const std::size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
        diagonal = above;
      }
    }
    return row[b.size()];
  };
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // The last part alone: the section may have been left out.
    const std::size_t dot = candidate.rfind('.');
    const std::string last = dot == std::string::npos ? candidate : candidate.substr(dot + 1);
    std::size_t d = std::min(distance(name, candidate), distance(name, last));
    if (name.size() >= 3 && last.starts_with(name)) d = std::min<std::size_t>(d, 1);
    if (d >= best_distance) continue;
    best_distance = d;
    best = candidate;
  }
  return best;
}

}  // namespace braid::cli
