// NodeConfig as JSON, and the relations between its members. Reading is strict: a key that is not known, or
// is there twice, is more likely a mistake than a wish, so it is refused with its path.
#include "proxy/daemon/node_config.h"

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <type_traits>

#include "proxy/channel/channel.h"
#include "proxy/channel/control.h"
#include "stack/stack.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {
namespace {

using Json = nlohmann::json;

// Ethernet, IPv4, UDP and the transport's header need this much before the first byte of a message.
constexpr std::uint32_t kMinMtuBytes = 576;   // what every IPv4 host must take (RFC 791)
constexpr std::uint32_t kMaxMtuBytes = 9000;  // the usual jumbo frame: two pages and their headers
constexpr std::uint32_t kMaxWindowPackets = 256;
constexpr unsigned kMaxClusters = 64;
// Timestamps count 64 ns in 32 bits; half of that is what can be told apart.
constexpr std::uint32_t kMaxPeerDeathMs = 137'000;

// The words for the values of an enumeration.
template <class E>
struct Word {
  E value;
  const char* text;
};
constexpr Word<LinkConfig::Kind> kLinkKinds[] = {{LinkConfig::Kind::kShm, "shm"},
                                                 {LinkConfig::Kind::kEthdev, "ethdev"}};
constexpr Word<stack::CongestionControl> kCongestionControls[] = {
    {stack::CongestionControl::kNone, "none"}, {stack::CongestionControl::kDelay, "delay"}};
constexpr Word<stack::Fragmentation> kFragmentations[] = {{stack::Fragmentation::kTransport, "transport"},
                                                          {stack::Fragmentation::kIp, "ip"}};
constexpr Word<Steering> kSteerings[] = {{Steering::kAuto, "auto"},
                                         {Steering::kFlow, "flow"},
                                         {Steering::kRss, "rss"},
                                         {Steering::kHandoff, "handoff"}};
constexpr std::span<const Word<Steering>> words_of(Steering) {
  return kSteerings;
}
constexpr std::span<const Word<LinkConfig::Kind>> words_of(LinkConfig::Kind) {
  return kLinkKinds;
}
constexpr std::span<const Word<stack::CongestionControl>> words_of(stack::CongestionControl) {
  return kCongestionControls;
}
constexpr std::span<const Word<stack::Fragmentation>> words_of(stack::Fragmentation) {
  return kFragmentations;
}
constexpr Word<PeerChoice> kPeerChoices[] = {{PeerChoice::kAligned, "aligned"},
                                             {PeerChoice::kRoundRobin, "round-robin"}};
constexpr std::span<const Word<PeerChoice>> words_of(PeerChoice) {
  return kPeerChoices;
}

// Takes the members of one JSON object and remembers the first thing that was wrong. finish() refuses what
// nobody took.
class Reader {
 public:
  Reader(const Json& object, std::string path, std::string& problem)
      : object_(object), path_(std::move(path)), problem_(problem) {
    if (!object_.is_object())
      fail(path_, fmt::format("must be an object {{…}}, not {}", object_.type_name()));
  }

  template <class T>
  void take(const char* key, T& target) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (!value->is_boolean()) return wrong_type(key, "true or false", *value);
      target = value->get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!value->is_number()) return wrong_type(key, "a number", *value);
      target = value->get<T>();
    } else if constexpr (std::is_integral_v<T>) {
      take_integer(key, *value, target);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value->is_string()) return wrong_type(key, "a string", *value);
      target = value->get<std::string>();
    } else {
      take_word(key, *value, target);
    }
  }

  // A member that is an object itself: read by `read(Reader&)`.
  template <class Read>
  void take_object(const char* key, Read&& read) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    Reader inner(*value, at(key), problem_);
    if (!problem_.empty()) return;
    read(inner);
    inner.finish();
  }

  // A member that is an array of objects: `read(Reader&)` for each.
  template <class Read>
  void take_array(const char* key, Read&& read) {
    const Json* const value = find(key);
    if (value == nullptr) return;
    if (!value->is_array()) return wrong_type(key, "an array […]", *value);
    for (std::size_t i = 0; i < value->size() && problem_.empty(); ++i) {
      Reader inner((*value)[i], fmt::format("{}[{}]", at(key), i), problem_);
      if (!problem_.empty()) return;
      read(inner);
      inner.finish();
    }
  }

  void finish() {
    if (!problem_.empty()) return;
    for (const auto& [key, value] : object_.items()) {
      if (taken_.contains(key)) continue;
      std::string known;
      for (const std::string& name : taken_) known += (known.empty() ? "" : ", ") + name;
      return fail(at(key.c_str()), "is not known; known here: " + known);
    }
  }

 private:
  std::string at(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json* find(const char* key) {
    taken_.insert(key);
    if (!problem_.empty()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() ? nullptr : &*it;
  }

  template <class T>
  void take_integer(const char* key, const Json& value, T& target) {
    const bool fits =
        value.is_number_unsigned()
            ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max())
            : value.is_number_integer() && std::is_signed_v<T> &&
                  value.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<T>::min());
    if (!fits) {
      return fail(at(key),
                  fmt::format("must be a whole number from {} to {}, not {}", std::numeric_limits<T>::min(),
                              std::numeric_limits<T>::max(), value.dump()));
    }
    target = value.get<T>();
  }

  template <class E>
  void take_word(const char* key, const Json& value, E& target) {
    std::string allowed;
    for (const Word<E>& word : words_of(target)) {
      if (value == word.text) {
        target = word.value;
        return;
      }
      allowed += fmt::format("{}\"{}\"", allowed.empty() ? "" : " or ", word.text);
    }
    fail(at(key), fmt::format("must be {}, not {}", allowed, value.dump()));
  }

  void wrong_type(const char* key, const char* wanted, const Json& value) {
    fail(at(key), fmt::format("must be {}, not {}", wanted, value.dump()));
  }

  void fail(const std::string& path, const std::string& text) {
    if (problem_.empty()) problem_ = path.empty() ? text : fmt::format("key '{}' {}", path, text);
  }

  const Json& object_;
  std::string path_;
  std::string& problem_;
  std::set<std::string> taken_;
};

// One list of the members of each struct, for reading and for writing. `V` has take() or put().
template <class V, class C>
void visit_link(V& v, C& link) {
  v.take("kind", link.kind);
  v.take("fd", link.fd);
  v.take("first_side", link.first_side);
  v.take("device", link.device);
  v.take("address", link.address);
  v.take("mac", link.mac);
  v.take("prefix_bits", link.prefix_bits);
  v.take("gateway", link.gateway);
  v.take("steering", link.steering);
}

template <class V, class C>
void visit_ni(V& v, C& ni) {
  v.take("address", ni.address);
  v.take("mac", ni.mac);
  v.take("link", ni.link);
}

template <class V, class C>
void visit_peer(V& v, C& peer) {
  v.take("cluster", peer.cluster);
  v.take("proxies", peer.proxies);
  v.take("address", peer.address);
  v.take("udp_port", peer.udp_port);
  v.take("mac", peer.mac);
  v.take("link", peer.link);
}

template <class V, class C>
void visit_transport(V& v, C& transport) {
  v.take("mtu_bytes", transport.mtu_bytes);
  v.take("fragmentation", transport.fragmentation);
  v.take("window_packets", transport.window_packets);
  v.take("path_death_ms", transport.path_death_ms);
  v.take("peer_death_ms", transport.peer_death_ms);
  v.take("min_rto_us", transport.min_rto_us);
  v.take("max_rto_us", transport.max_rto_us);
  v.take("congestion", transport.congestion);
  v.take("peer", transport.peer);
  v.take("all_pairs", transport.all_pairs);
}

template <class V, class C>
void visit_machines(V& v, C& machines) {
  v.take("connect", machines.connect);
  v.take("accept", machines.accept);
  v.take("udp_port", machines.udp_port);
  v.take("places", machines.places);
  v.take("most_proxies", machines.most_proxies);
}

template <class V, class C>
void visit_faults(V& v, C& faults) {
  v.take("loss", faults.loss);
  v.take("duplicate", faults.duplicate);
  v.take("reorder", faults.reorder);
  v.take("corrupt", faults.corrupt);
  v.take("flip_past_checksum_every", faults.flip_past_checksum_every);
  v.take("drop_all_after", faults.drop_all_after);
  v.take("seed", faults.seed);
}

template <class V, class C>
void visit_idle(V& v, C& idle) {
  v.take("spins", idle.spins);
  v.take("yields", idle.yields);
  v.take("sleep_min_us", idle.sleep_min_us);
  v.take("sleep_max_us", idle.sleep_max_us);
}

template <class V, class C>
void visit_node(V& v, C& node) {
  v.take("cluster", node.cluster);
  v.take("clusters", node.clusters);
  v.take("proxies", node.proxies);
  v.take("address", node.address);
  v.take("udp_port", node.udp_port);
  v.take("mac", node.mac);
  v.take("misdirect", node.misdirect);
  v.take("eal_memory_mib", node.eal_memory_mib);
  v.take("eal_prefix", node.eal_prefix);
  v.take("listen_fd", node.listen_fd);
  v.take("listen_address", node.listen_address);
  v.take("ready_fd", node.ready_fd);
  v.take("counters_fd", node.counters_fd);
  v.take("seed", node.seed);
  v.take("capture_directory", node.capture_directory);
  v.take("capture_limit_mib", node.capture_limit_mib);
}

struct Writer {
  Json object = Json::object();
  template <class T>
  void take(const char* key, const T& value) {
    if constexpr (std::is_enum_v<T>) {
      for (const Word<T>& word : words_of(value))
        if (word.value == value) object[key] = word.text;
    } else {
      object[key] = value;
    }
  }
};

// nlohmann's parser lets a later key replace an earlier one silently; this one tells.
std::string duplicate_key(const std::string& json) {
  std::vector<std::set<std::string>> open;
  std::string duplicate;
  const Json::parser_callback_t watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end && !open.empty()) open.pop_back();
    if (event == Json::parse_event_t::key && !open.empty() &&
        !open.back().insert(parsed.get<std::string>()).second && duplicate.empty()) {
      duplicate = parsed.get<std::string>();
    }
    return true;
  };
  [[maybe_unused]] const Json read = Json::parse(json, watch, /*allow_exceptions=*/false);
  return duplicate;
}

// The first relation between members that does not hold; empty when all do.
std::string problem_of(const TransportConfig& t) {
  if (t.mtu_bytes < kMinMtuBytes || t.mtu_bytes > kMaxMtuBytes)
    return fmt::format("transport.mtu_bytes is {}: must be {} to {}", t.mtu_bytes, kMinMtuBytes,
                       kMaxMtuBytes);
  if (t.window_packets < 1 || t.window_packets > kMaxWindowPackets)
    return fmt::format("transport.window_packets is {}: must be 1 to {}", t.window_packets,
                       kMaxWindowPackets);
  if (t.min_rto_us < 1 || t.min_rto_us > t.max_rto_us)
    return fmt::format("transport.min_rto_us is {}: must be 1 to max_rto_us ({})", t.min_rto_us,
                       t.max_rto_us);
  if (std::uint64_t{t.path_death_ms} * 1000 <= t.max_rto_us)
    return fmt::format(
        "transport.path_death_ms is {}: must be longer than max_rto_us ({} us), or a path dies before "
        "its second try",
        t.path_death_ms, t.max_rto_us);
  if (t.peer_death_ms > kMaxPeerDeathMs)
    return fmt::format("transport.peer_death_ms is {}: must be at most {}, or packets' timestamps come round",
                       t.peer_death_ms, kMaxPeerDeathMs);
  if (t.peer_death_ms <= t.path_death_ms)
    return fmt::format("transport.peer_death_ms is {}: must be longer than path_death_ms ({})",
                       t.peer_death_ms, t.path_death_ms);
  return {};
}

std::string problem_of(const FaultConfig& f) {
  const std::pair<const char*, double> all[] = {
      {"loss", f.loss}, {"duplicate", f.duplicate}, {"reorder", f.reorder}, {"corrupt", f.corrupt}};
  for (const auto& [name, value] : all) {
    if (!(value >= 0 && value <= 1))
      return fmt::format("faults.{} is {}: a probability is 0 to 1", name, value);
  }
  return {};
}

std::string problem_of(const IdleConfig& i) {
  if (i.sleep_min_us < 1 || i.sleep_min_us > i.sleep_max_us)
    return fmt::format("idle.sleep_min_us is {}: must be 1 to sleep_max_us ({})", i.sleep_min_us,
                       i.sleep_max_us);
  return {};
}

std::string problem_of(const LinkConfig& link, std::size_t index) {
  if (link.kind == LinkConfig::Kind::kShm && link.fd < 0)
    return fmt::format("links[{}].fd is missing: a shm link needs the descriptor of its memory", index);
  if (link.kind == LinkConfig::Kind::kShm &&
      (link.steering == Steering::kFlow || link.steering == Steering::kRss))
    return fmt::format("links[{}].steering: a shm link has no NIC that could steer: say auto or handoff",
                       index);
  if (link.kind == LinkConfig::Kind::kEthdev && link.device.empty())
    return fmt::format(
        "links[{}].device is missing: an ethdev link needs a DPDK device, e.g. \"net_memif0,role=server\"",
        index);
  return {};
}

bool on_link(const LinkConfig& link, stack::Ipv4Address own, stack::Ipv4Address other) {
  return link.prefix_bits == 0 || (own.value() ^ other.value()) >> (32 - link.prefix_bits) == 0;
}

// What the node is on a link, and whom it reaches there. The node's own address and mac have been checked.
std::string problem_of_interface(const NodeConfig& node, std::size_t index) {
  const LinkConfig& link = node.links[index];
  const auto own = stack::Ipv4Address::parse(link.address.empty() ? node.address : link.address);
  if (!own || !own->is_unicast())
    return fmt::format("links[{}].address is '{}': must be one host's IPv4 address, e.g. 10.98.0.1", index,
                       link.address);
  const auto mac = stack::MacAddress::parse(link.mac);
  if (!link.mac.empty() && (!mac || !mac->is_unicast()))
    return fmt::format("links[{}].mac is '{}': must be one station's address, e.g. 02:62:72:64:00:01", index,
                       link.mac);
  if (link.prefix_bits > 32)
    return fmt::format("links[{}].prefix_bits is {}: must be 0 to 32", index, link.prefix_bits);
  if (!link.gateway.empty()) {
    const auto gateway = stack::Ipv4Address::parse(link.gateway);
    if (!gateway || !gateway->is_unicast() || *gateway == *own)
      return fmt::format("links[{}].gateway is '{}': must be another host's IPv4 address", index,
                         link.gateway);
    if (link.prefix_bits == 0 || !on_link(link, *own, *gateway))
      return fmt::format(
          "links[{}].gateway is {}: must be on the link: set prefix_bits so that {} and it "
          "begin alike",
          index, link.gateway, own->to_string());
  }
  for (std::size_t i = 0; i < node.peers.size(); ++i) {
    for (std::size_t n = 0; n < node.peers[i].nis(); ++n) {
      const NiConfig ni = node.peers[i].ni(n);
      if (ni.link != index) continue;
      const auto theirs = stack::Ipv4Address::parse(ni.address);
      if (*theirs == *own)
        return fmt::format("peers[{}].address is {}: this node has it on links[{}]", i, ni.address, index);
      if (link.gateway.empty() && !on_link(link, *own, *theirs))
        return fmt::format("peers[{}].address is {}: not on links[{}] ({}/{}): give that link a gateway", i,
                           ni.address, index, own->to_string(), link.prefix_bits);
    }
  }
  return {};
}

// `port` of a node's proxy 0 leaves room for all its proxies below 65536.
bool ports_fit(std::uint16_t port, std::uint16_t proxies) {
  return port >= 1 && port + proxies - 1 <= 65535;
}

std::string problem_of_station(const std::string& where, const std::string& address, const std::string& mac,
                               std::uint16_t udp_port, std::uint16_t proxies) {
  if (proxies < 1 || proxies > kMaxProxies)
    return fmt::format("{}proxies is {}: must be 1 to {}", where, proxies, kMaxProxies);
  const auto ip = stack::Ipv4Address::parse(address);
  if (!ip || !ip->is_unicast())
    return fmt::format("{}address is '{}': must be one host's IPv4 address, e.g. 10.98.0.1", where, address);
  const auto ethernet = stack::MacAddress::parse(mac);
  if (!mac.empty() && (!ethernet || !ethernet->is_unicast()))
    return fmt::format("{}mac is '{}': must be one station's address, e.g. 02:62:72:64:00:01", where, mac);
  if (!ports_fit(udp_port, proxies))
    return fmt::format("{}udp_port is {}: with {} proxies it must be 1 to {}", where, udp_port, proxies,
                       65536 - proxies);
  return {};
}

std::string problem_of_peers(const NodeConfig& node) {
  std::set<std::uint16_t> clusters;
  std::set<std::string> addresses = {node.address};
  std::set<std::uint16_t> wires;
  for (std::size_t i = 0; i < node.peers.size(); ++i) {
    const PeerConfig& peer = node.peers[i];
    const std::string where = fmt::format("peers[{}].", i);
    if (peer.cluster >= node.clusters || peer.cluster == node.cluster)
      return fmt::format("{}cluster is {}: must be another cluster below {} than this one ({})", where,
                         peer.cluster, node.clusters, node.cluster);
    if (!clusters.insert(peer.cluster).second)
      return fmt::format("{}cluster is {}: that peer is there twice", where, peer.cluster);
    for (std::size_t n = 0; n < peer.nis(); ++n) {
      const NiConfig ni = peer.ni(n);
      const std::string at = n == 0 ? where : fmt::format("{}more_nis[{}].", where, n - 1);
      if (std::string p = problem_of_station(at, ni.address, ni.mac, peer.udp_port, peer.proxies); !p.empty())
        return p;
      if (!addresses.insert(ni.address).second)
        return fmt::format("{}address is {}: another node, or another of its NIs, has it too", at,
                           ni.address);
      if (ni.link >= node.links.size())
        return fmt::format("{}link is {}: there are {} links, counted from 0", at, ni.link,
                           node.links.size());
      if (node.links[ni.link].kind == LinkConfig::Kind::kShm && !wires.insert(ni.link).second)
        return fmt::format("{}link is {}: a shm link joins two NIs only, and another is on it", at, ni.link);
    }
  }
  if (node.peers.size() + 1u != node.clusters)
    return fmt::format("peers: {} of {} are there; every other cluster must be", node.peers.size(),
                       node.clusters - 1);
  return {};
}

std::string problem_of_machines(const NodeConfig& node) {
  const MachinesConfig& m = node.machines;
  if (!m.any()) return {};
  if (m.places < 1 || m.places + node.clusters > kMaxClusters)
    return fmt::format("machines.places is {}: must be 1 to {} ({} less this machine's clusters)", m.places,
                       kMaxClusters - node.clusters, kMaxClusters);
  if (m.most_proxies < 1 || m.most_proxies > kMaxProxies)
    return fmt::format("machines.most_proxies is {}: must be 1 to {}", m.most_proxies, kMaxProxies);
  if (m.udp_port < 1 || m.udp_port >= stack::first_steered_port(0) ||
      (m.udp_port >= node.udp_port && m.udp_port < node.udp_port + node.proxies))
    return fmt::format("machines.udp_port is {}: must be 1 to {}, and none of the proxies' ports, {} to {}",
                       m.udp_port, stack::first_steered_port(0) - 1, node.udp_port,
                       node.udp_port + node.proxies - 1);
  std::set<std::string> addresses;
  for (const LinkConfig& link : node.links)
    addresses.insert(link.address.empty() ? node.address : link.address);
  if (addresses.size() > kMaxNis)
    return fmt::format("machines: this node has {} addresses, and at most {} can be told", addresses.size(),
                       kMaxNis);
  return {};
}

std::string problem_of(const NodeConfig& node) {
  if (node.clusters < 1 || node.clusters > kMaxClusters)
    return fmt::format("clusters is {}: must be 1 to {}", node.clusters, kMaxClusters);
  if (node.cluster >= node.clusters)
    return fmt::format("cluster is {}: must be below clusters ({})", node.cluster, node.clusters);
  if (std::string p = problem_of_station("", node.address, node.mac, node.udp_port, node.proxies); !p.empty())
    return p;
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    if (std::string p = problem_of(node.links[i], i); !p.empty()) return p;
  }
  if (std::string p = problem_of_peers(node); !p.empty()) return p;
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    if (std::string p = problem_of_interface(node, i); !p.empty()) return p;
  }
  if (std::string p = problem_of(node.transport); !p.empty()) return p;
  if (std::string p = problem_of_machines(node); !p.empty()) return p;
  if (std::string p = problem_of(node.faults); !p.empty()) return p;
  if (std::string p = problem_of(node.idle); !p.empty()) return p;
  if (node.listen_fd < 0 && node.listen_address.empty())
    return "listen_address is missing: clients need a place to attach, e.g. \"@braidd-0\" or a path";
  if (node.listen_fd >= 0 && !node.listen_address.empty())
    return fmt::format("listen_address is '{}' and listen_fd is {}: give one of them", node.listen_address,
                       node.listen_fd);
  return {};
}

}  // namespace

stack::SubConnectionConfig sub_connection_config(const TransportConfig& transport) {
  stack::SubConnectionConfig sub;
  sub.window_packets = transport.window_packets;
  sub.min_rto = Duration::us(transport.min_rto_us);
  sub.max_rto = Duration::us(transport.max_rto_us);
  sub.path_death = Duration::ms(transport.path_death_ms);
  sub.peer_death = Duration::ms(transport.peer_death_ms);
  sub.congestion.enabled = transport.congestion == stack::CongestionControl::kDelay;
  return sub;
}

Result<void> NodeConfig::validate() const {
  if (std::string problem = problem_of(*this); !problem.empty()) return Error{std::move(problem)};
  return {};
}

Result<NodeConfig> parse_node_config(const std::string& json, const std::string& what) {
  Json parsed;
  try {
    parsed = Json::parse(json);
  } catch (const Json::parse_error& e) {
    return error("{}: not JSON: {}", what, e.what());
  }
  if (const std::string key = duplicate_key(json); !key.empty())
    return error("{}: key '{}' is there twice in one object; remove one of them", what, key);

  NodeConfig node;
  std::string problem;
  Reader reader(parsed, "", problem);
  if (problem.empty()) {
    visit_node(reader, node);
    reader.take_array("links", [&](Reader& r) { visit_link(r, node.links.emplace_back()); });
    reader.take_array("peers", [&](Reader& r) {
      PeerConfig& peer = node.peers.emplace_back();
      visit_peer(r, peer);
      r.take_array("more_nis", [&](Reader& ni) { visit_ni(ni, peer.more_nis.emplace_back()); });
    });
    reader.take_object("transport", [&](Reader& r) { visit_transport(r, node.transport); });
    reader.take_object("machines", [&](Reader& r) { visit_machines(r, node.machines); });
    reader.take_object("faults", [&](Reader& r) { visit_faults(r, node.faults); });
    reader.take_object("idle", [&](Reader& r) { visit_idle(r, node.idle); });
    reader.finish();
  }
  if (!problem.empty()) return error("{}: {}", what, problem);
  if (const Result<void> valid = node.validate(); !valid) return error("{}: {}", what, valid.error().text);
  return node;
}

std::string to_json(const NodeConfig& node) {
  Writer writer;
  visit_node(writer, node);
  Json& object = writer.object;
  object["links"] = Json::array();
  for (const LinkConfig& link : node.links) {
    Writer w;
    visit_link(w, link);
    object["links"].push_back(std::move(w.object));
  }
  object["peers"] = Json::array();
  for (const PeerConfig& peer : node.peers) {
    Writer w;
    visit_peer(w, peer);
    if (!peer.more_nis.empty()) w.object["more_nis"] = Json::array();
    for (const NiConfig& ni : peer.more_nis) {
      Writer n;
      visit_ni(n, ni);
      w.object["more_nis"].push_back(std::move(n.object));
    }
    object["peers"].push_back(std::move(w.object));
  }
  Writer transport, machines, faults, idle;
  visit_transport(transport, node.transport);
  visit_machines(machines, node.machines);
  visit_faults(faults, node.faults);
  visit_idle(idle, node.idle);
  object["transport"] = std::move(transport.object);
  object["machines"] = std::move(machines.object);
  object["faults"] = std::move(faults.object);
  object["idle"] = std::move(idle.object);
  return object.dump(2);
}

}  // namespace braid::proxy
