#include "settings/node.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "base/fnv.h"
#include "base/processors.h"
#include "settings/addresses.h"
#include "settings/limits.h"
#include "settings/reader.h"
#include "settings/value.h"
#include "settings/words.h"
#include "stack/wire/addresses.h"

namespace braid::settings {

template <>
struct Words<LinkConfig::Kind> {
  using E = LinkConfig::Kind;
  static constexpr Word<E> kAll[] = {{"shm", E::kShm},
                                     {"ethdev", E::kEthdev},
                                     {"udp", E::kUdp},
                                     {"af_xdp", E::kXdp},
                                     {"af_packet", E::kPacket}};
};

namespace {

using stack::Ipv4Address;

// --- links

using L = LinkConfig;
constexpr Setting kLink[] = {
    declare<&L::kind>(
        {.name = "kind",
         .help =
             "memory shared with one peer (shm), a DPDK port (ethdev), the kernel's UDP (udp), or the interface that has the "
             "address, through AF_XDP (af_xdp) or AF_PACKET (af_packet)"}),
    declare<&L::fd>(
        {.name = "fd", .help = "shm: the wire's memory, an inherited descriptor; -1: none", .least = -1}),
    declare<&L::first_side>({.name = "first_side", .help = "shm: which of the two sides this node is"}),
    declare<&L::device>(
        {.name = "device",
         .help = "ethdev: the --vdev argument, e.g. \"net_memif0,role=server\"; its ports count in order"}),
    host(declare<&L::address>(
        {.name = "address", .help = "this node's IPv4 address on this link; empty: the node's 'address'"})),
    station(declare<&L::mac>(
        {.name = "mac", .help = "this node's Ethernet address on this link; empty: the node's 'mac'"})),
    declare<&L::prefix_bits>(
        {.name = "prefix_bits",
         .unit = "bits",
         .help =
             "length of the link's prefix: addresses with the same leading bits are on the link, all others "
             "behind the gateway; 0: every address is on the link",
         .most = 32}),
    host(declare<&L::gateway>(
        {.name = "gateway", .help = "the router to addresses that are not on the link; empty: none"})),
    declare<&L::steering>(
        {.name = "steering",
         .help = "ethdev: how packets reach the queue of their proxy (docs/OPERATIONS.md)"})};

std::optional<Conflict> link_has_its_wire(const L& link) {
  if (link.kind == L::Kind::kShm && link.fd < 0)
    return Conflict{{"fd"}, "is missing: a shm link needs the descriptor of its memory"};
  if (link.kind == L::Kind::kEthdev && link.device.empty())
    return Conflict{{"device"},
                    "is missing: an ethdev link needs a DPDK device, e.g. \"net_memif0,role=server\""};
  return std::nullopt;
}
std::optional<Conflict> link_can_steer(const L& link) {
  if (link.kind == L::Kind::kEthdev || link.steering == proxy::Steering::kAuto ||
      link.steering == proxy::Steering::kHandoff)
    return std::nullopt;
  return Conflict{{"steering"}, "only an ethdev link has a NIC that can steer packets; set auto or handoff"};
}
// What lies behind a link with an address of the kernel's is the kernel's business.
std::optional<Conflict> link_has_stations(const L& link) {
  if (!is_addressed_by_kernel(link.kind)) return std::nullopt;
  const auto conflict = [&](const char* key) {
    return Conflict{
        {key},
        fmt::format("is the kernel's business on a link of kind {}; leave it out", word_of(link.kind))};
  };
  if (!link.mac.empty()) return conflict("mac");
  if (link.prefix_bits != 0) return conflict("prefix_bits");
  if (!link.gateway.empty()) return conflict("gateway");
  return std::nullopt;
}
constexpr Relation kLinkRelations[] = {
    relation<L, link_has_its_wire>("a shm link has an fd, an ethdev link a device"),
    relation<L, link_can_steer>("only an ethdev link steers by flow or rss"),
    relation<L, link_has_stations>(
        "a udp, af_xdp or af_packet link has no mac, prefix_bits or gateway: the kernel has them")};
constinit const Schema kLinkSchema = {.settings = kLink, .relations = kLinkRelations};

// --- peers

constexpr std::string_view kNiHelp = "the interface's IPv4 address";
constexpr std::string_view kMacHelp = "the interface's Ethernet address; empty: asked by ARP";
constexpr std::string_view kNiLinkHelp = "the link to that interface, an index into links";
using N = NiConfig;
constexpr Setting kNi[] = {host(declare<&N::address>({.name = "address", .help = kNiHelp, .required = true})),
                           station(declare<&N::mac>({.name = "mac", .help = kMacHelp})),
                           declare<&N::link>({.name = "link", .help = kNiLinkHelp})};
constinit const Schema kNiSchema = {.settings = kNi};

using P = PeerConfig;
constexpr Setting kPeer[] = {
    declare<&P::cluster>({.name = "cluster", .help = "the peer's cluster", .most = kMaxClusters - 1}),
    declare<&P::proxies>(
        {.name = "proxies", .help = "number of the peer's proxies", .least = 1, .most = kMaxProxies}),
    host(declare<&P::address>({.name = "address", .help = kNiHelp, .required = true})),
    declare<&P::udp_port>(
        {.name = "udp_port", .help = "UDP port of the peer's proxy 0; proxy i has udp_port + i", .least = 1}),
    station(declare<&P::mac>({.name = "mac", .help = kMacHelp})),
    declare<&P::link>({.name = "link", .help = kNiLinkHelp})};
constexpr List kPeerLists[] = {list<&P::more_nis>(
    "more_nis",
    "further interfaces of the peer; proxy i uses interface i modulo their number, counting the first",
    "{address: 10.98.0.2, link: 1}", kNiSchema)};

// The port of a node's proxy 0 leaves room for all its proxies below 65536.
template <class C>
std::optional<Conflict> ports_fit(const C& c) {
  if (c.udp_port + c.proxies - 1 <= 65535) return std::nullopt;
  return Conflict{{"udp_port", "proxies"},
                  fmt::format("{} is out of range; allowed with {} proxies: 1 to {}", c.udp_port, c.proxies,
                              65536 - c.proxies)};
}
constexpr std::string_view kPortsFit = "udp_port leaves a port for every proxy";
constexpr Relation kPeerRelations[] = {relation<P, ports_fit<P>>(kPortsFit)};
constinit const Schema kPeerSchema = {.settings = kPeer, .lists = kPeerLists, .relations = kPeerRelations};

// --- other machines, channels

using M = MachinesConfig;
constexpr Setting kMachines[] = {
    declare<&M::connect>({.name = "connect", .help = "clients of this node may connect to other machines"}),
    declare<&M::accept>({.name = "accept", .help = "other machines may connect to this node's listeners"}),
    declare<&M::udp_port>({.name = "udp_port",
                           .help = "UDP port where nodes introduce themselves; not the port of a proxy",
                           .least = 1,
                           .most = kMaxIntroductionPort}),
    declare<&M::slots>(
        {.name = "slots",
         .help = "clusters of other machines known at once; memory for all of them is taken at start",
         .least = 1,
         .most = kMaxClusters - 1}),
    declare<&M::max_proxies>({.name = "max_proxies",
                              .help = "the most proxies that such a cluster may have",
                              .least = 1,
                              .most = kMaxProxies})};
constinit const Schema kMachinesSchema = {.settings = kMachines};

using H = ChannelConfig;
constexpr Setting kChannel[] = {
    declare<&H::send_descriptors>(
        {.name = "send_descriptors",
         .help =
             "entries of a compute node's ring to a proxy, a power of two; auto: one for each 128 bytes of its "
             "data area",
         .reason = "with short messages the ring and the data area become full at about the same time",
         .least = 64,
         .most = 8192,
         .automatic = 0}),
    declare<&H::arrival_descriptors>(
        {.name = "arrival_descriptors",
         .help =
             "entries of a proxy's ring to a compute node, a power of two; auto: one for each 64 bytes of "
             "its windows, so that it is never full",
         .reason = "a packet for a full ring is dropped, and the sender retransmits it",
         .least = 64,
         .most = 1 << 24,
         .automatic = 0}),
    declare<&H::max_ports>({.name = "max_ports",
                            .help = "connection ends of all clients at once, a power of two",
                            .reason = "each proxy has an entry for each",
                            .least = 16,
                            .most = 65536})};
std::optional<Conflict> is_a_power(const char* key, std::uint32_t value) {
  if (value == 0 || std::has_single_bit(value)) return std::nullopt;
  return Conflict{{key},
                  fmt::format("{} is not a power of two; take {} or {}", value, std::bit_floor(value),
                              std::bit_ceil(value))};
}
std::optional<Conflict> descriptors_are_a_power(const H& c) {
  return is_a_power("send_descriptors", c.send_descriptors);
}
std::optional<Conflict> arrivals_are_a_power(const H& c) {
  return is_a_power("arrival_descriptors", c.arrival_descriptors);
}
std::optional<Conflict> ports_are_a_power(const H& c) {
  return is_a_power("max_ports", c.max_ports);
}
constexpr Relation kChannelRelations[] = {
    relation<H, descriptors_are_a_power>("send_descriptors is a power of two"),
    relation<H, arrivals_are_a_power>("arrival_descriptors is a power of two"),
    relation<H, ports_are_a_power>("max_ports is a power of two")};
constinit const Schema kChannelSchema = {.settings = kChannel, .relations = kChannelRelations};

// --- the node

bool is_list_of_processors(const std::string& text) {
  return parse_processors(text).has_value();
}

using C = NodeConfig;
constexpr Setting kNode[] = {
    declare<&C::cluster>({.name = "cluster", .help = "this node's cluster", .most = kMaxClusters - 1}),
    declare<&C::clusters>(
        {.name = "clusters", .help = "number of the machine's clusters", .least = 1, .most = kMaxClusters}),
    declare<&C::proxies>(
        {.name = "proxies", .help = "number of this node's proxies", .least = 1, .most = kMaxProxies}),
    host(declare<&C::address>({.name = "address", .help = "this node's IPv4 address", .required = true})),
    declare<&C::udp_port>(
        {.name = "udp_port", .help = "UDP port of proxy 0; proxy i has udp_port + i", .least = 1}),
    station(
        declare<&C::mac>({.name = "mac", .help = "this node's Ethernet address; empty: that of the device"})),
    declare<&C::misdirect>(
        {.name = "misdirect",
         .help =
             "send every packet to the queue of another proxy of the peer, so that all packets are handed over "
             "in software"}),
    declare<&C::eal_memory_mib>(
        {.name = "eal_memory_mib",
         .unit = "MiB",
         .help = "memory of the EAL in ordinary pages, MiB; auto: what its ports and queues need",
         .least = 1,
         .most = kMaxEalMib,
         .automatic = 0}),
    declare<&C::eal_prefix>({.name = "eal_prefix", .help = "prefix of the names of DPDK's files"}),
    declare<&C::listen_fd>(
        {.name = "listen_fd",
         .help = "socket where clients attach: an inherited listening descriptor; -1: none",
         .least = -1}),
    declare<&C::listen_address>(
        {.name = "listen_address",
         .help = "socket where clients attach: a path, or \"@name\" in the abstract namespace"}),
    declare<&C::ready_fd>({.name = "ready_fd",
                           .help = "descriptor that gets one byte when all sub-connections are up; -1: none",
                           .least = -1}),
    declare<&C::counters_fd>({.name = "counters_fd",
                              .help = "descriptor of the counters' memory; -1: private memory",
                              .least = -1}),
    declare<&C::seed>({.name = "seed", .help = "seed of the epochs; 0: random numbers of the system"}),
    declare<&C::capture_directory>(
        {.name = "capture_directory",
         .help = "folder where each proxy writes the frames that it receives and sends, "
                 "cluster<k>-proxy<p>.pcapng; empty: no capture"}),
    declare<&C::capture_limit_mib>({.name = "capture_limit_mib",
                                    .unit = "MiB",
                                    .help = "the largest size of each capture file, MiB",
                                    .least = 1,
                                    .most = kMaxCaptureMib}),
    declare<&C::processors>(
        {.name = "processors",
         .help =
             "the processor of each proxy in their order, \"2,3\"; empty: whichever the kernel chooses. One that the process "
             "may not use is refused with a warning, and its proxy runs on any",
         .allowed = "numbers of processors with commas between them, e.g. \"2,3\"",
         .fits = is_list_of_processors})};
constexpr Section kNodeSections[] = {
    section<&C::transport>("transport", "Transport", kTransportSchema),
    section<&C::machines>("machines", "Other machines", kMachinesSchema),
    section<&C::faults>("faults", "Faults on the wire, injected where frames arrive", kFaultSchema),
    section<&C::idle>("idle", "How a proxy waits", kIdleSchema),
    section<&C::channel>("channel", "Channels", kChannelSchema),
    section<&C::security>("security", "Encryption and authentication", kSecuritySchema)};
constexpr List kNodeLists[] = {
    list<&C::links>("links", "what connects this node with others",
                    "{\"kind\": \"ethdev\", \"device\": \"…\"}", kLinkSchema),
    list<&C::peers>("peers", "every other cluster of the machine",
                    "{\"cluster\": 1, \"address\": \"10.98.1.1\", \"udp_port\": 7700}", kPeerSchema)};

std::optional<Conflict> cluster_is_one(const C& c) {
  if (c.cluster < c.clusters) return std::nullopt;
  return Conflict{{"cluster", "clusters"},
                  fmt::format("{} must be below clusters ({})", c.cluster, c.clusters)};
}

std::optional<Conflict> nothing_is_automatic(const C& c) {
  if (c.transport.mtu_bytes == 0)
    return Conflict{{"transport.mtu_bytes"}, "auto is not possible for a node; allowed: 576 to 9000"};
  if (c.idle.spins == IdleConfig::kAutomaticSpins)
    return Conflict{{"idle.spins"}, "auto is not possible for a node; allowed: 0 to 1000000"};
  return std::nullopt;
}

std::optional<Conflict> clients_can_attach(const C& c) {
  if (c.listen_fd < 0 && c.listen_address.empty())
    return Conflict{{"listen_address", "listen_fd"},
                    "is missing: clients need a place to attach, e.g. \"@braidd-0\" or a path"};
  if (c.listen_fd >= 0 && !c.listen_address.empty())
    return Conflict{
        {"listen_address", "listen_fd"},
        fmt::format("is '{}' and listen_fd is {}; give only one of them", c.listen_address, c.listen_fd)};
  return std::nullopt;
}

std::optional<Conflict> links_deliver_fragments(const C& c) {
  if (c.transport.fragmentation != stack::Fragmentation::kIp) return std::nullopt;
  for (std::size_t i = 0; i < c.links.size(); ++i)
    if (c.links[i].kind == L::Kind::kEthdev && c.links[i].device.starts_with("net_af_packet"))
      return Conflict{{"transport.fragmentation", fmt::format("links[{}].device", i)},
                      fmt::format("ip is not possible {}", kNoFragments)};
  return std::nullopt;
}

std::optional<Conflict> sockets_take_whole_datagrams(const C& c) {
  if (c.transport.fragmentation != stack::Fragmentation::kIp) return std::nullopt;
  for (std::size_t i = 0; i < c.links.size(); ++i)
    if (is_addressed_by_kernel(c.links[i].kind))
      return Conflict{
          {"transport.fragmentation", fmt::format("links[{}].kind", i)},
          fmt::format("ip is not possible {}",
                      c.links[i].kind == L::Kind::kUdp ? kNoFragmentsOverUdp : kNoFragmentsAtInterface)};
  return std::nullopt;
}

// The UDP ports of one node's proxies at one address.
struct Ports {
  unsigned first, count;
  bool meet(const Ports& other) const {
    return first < other.first + other.count && other.first < first + count;
  }
};

// Nodes of one host may share its address: the kernel brings each datagram to the socket of its port.
class Endpoints {
 public:
  // False: another node has this address, or with `shared` one of these ports of it.
  bool add(const std::string& address, Ports ports, bool shared) {
    std::vector<Ports>& there = by_address_[address];
    for (const Ports& other : there)
      if (!shared || ports.meet(other)) return false;
    there.push_back(ports);
    return true;
  }

 private:
  std::map<std::string, std::vector<Ports>> by_address_;
};

// Every other cluster is a peer once, and a shm link has one peer.
std::optional<Conflict> peers_are_all_others(const C& node) {
  std::set<std::uint16_t> clusters;
  Endpoints endpoints;
  endpoints.add(node.address, {node.udp_port, node.proxies}, false);
  std::set<std::uint16_t> wires;
  for (std::size_t i = 0; i < node.peers.size(); ++i) {
    const PeerConfig& peer = node.peers[i];
    const std::string where = fmt::format("peers[{}].", i);
    if (peer.cluster >= node.clusters || peer.cluster == node.cluster)
      return Conflict{{where + "cluster"},
                      fmt::format("{} must be another cluster below {} than this one ({})", peer.cluster,
                                  node.clusters, node.cluster)};
    if (!clusters.insert(peer.cluster).second)
      return Conflict{{where + "cluster"}, fmt::format("{}: two peers have this cluster", peer.cluster)};
    for (std::size_t n = 0; n < peer.nis(); ++n) {
      const NiConfig ni = peer.ni(n);
      const std::string at = n == 0 ? where : fmt::format("{}more_nis[{}].", where, n - 1);
      if (ni.link >= node.links.size())
        return Conflict{{at + "link"},
                        fmt::format("{}: there are {} links, numbered from 0", ni.link, node.links.size())};
      const L::Kind kind = node.links[ni.link].kind;
      if (!endpoints.add(ni.address, {peer.udp_port, peer.proxies}, has_socket_of_port(kind)))
        return Conflict{
            {at + "address"},
            has_socket_of_port(kind)
                ? fmt::format("{}: another node has the same address and the same ports; nodes that share "
                              "an address need a udp_port each",
                              ni.address)
                : fmt::format("{}: another NI has the same address", ni.address)};
      if (kind == L::Kind::kShm && !wires.insert(ni.link).second)
        return Conflict{
            {at + "link"},
            fmt::format("{}: a shm link connects two NIs, and this one has another peer already", ni.link)};
    }
  }
  if (node.peers.size() + 1u != node.clusters)
    return Conflict{
        {"peers", "clusters"},
        fmt::format("{} of {} are given; list every other cluster", node.peers.size(), node.clusters - 1)};
  return std::nullopt;
}

bool on_link(const LinkConfig& link, Ipv4Address own, Ipv4Address other) {
  return link.prefix_bits == 0 || (own.value() ^ other.value()) >> (32 - link.prefix_bits) == 0;
}

std::optional<Conflict> gateway_is_on_the_link(const LinkConfig& link, Ipv4Address own, std::size_t index) {
  if (link.gateway.empty()) return std::nullopt;
  const std::string key = fmt::format("links[{}].gateway", index);
  const Ipv4Address gateway = *Ipv4Address::parse(link.gateway);
  if (gateway == own) return Conflict{{key}, fmt::format("{} must be another host's address", link.gateway)};
  if (link.prefix_bits != 0 && on_link(link, own, gateway)) return std::nullopt;
  return Conflict{{key},
                  fmt::format("{} must be on the link: set prefix_bits so that {} has the same prefix",
                              link.gateway, own.to_string())};
}

// The node's address on each link differs from its peers' addresses there, and each peer can be reached.
// Addresses are well-formed and links exist.
std::optional<Conflict> links_reach_their_peers(const C& node) {
  for (std::size_t index = 0; index < node.links.size(); ++index) {
    const LinkConfig& link = node.links[index];
    const Ipv4Address own = *Ipv4Address::parse(link.address.empty() ? node.address : link.address);
    if (auto conflict = gateway_is_on_the_link(link, own, index)) return conflict;
    for (std::size_t i = 0; i < node.peers.size(); ++i) {
      for (std::size_t n = 0; n < node.peers[i].nis(); ++n) {
        const NiConfig ni = node.peers[i].ni(n);
        if (ni.link != index) continue;
        const Ipv4Address theirs = *Ipv4Address::parse(ni.address);
        const std::string key = fmt::format("peers[{}].address", i);
        if (theirs == own)
          return Conflict{{key},
                          fmt::format("{}: this node has the same address on links[{}]", ni.address, index)};
        if (link.gateway.empty() && !on_link(link, own, theirs))
          return Conflict{{key},
                          fmt::format("{}: is not on links[{}] ({}/{}); give that link a gateway", ni.address,
                                      index, own.to_string(), link.prefix_bits)};
      }
    }
  }
  return std::nullopt;
}

std::optional<Conflict> machines_fit(const C& node) {
  const MachinesConfig& m = node.machines;
  if (!m.any()) return std::nullopt;
  for (std::size_t i = 0; i < node.links.size(); ++i)
    if (is_addressed_by_kernel(node.links[i].kind))
      return Conflict{
          {fmt::format("links[{}].kind", i), "machines.connect", "machines.accept"},
          fmt::format(
              "{} is not possible with other machines: its sockets are those of proxies, and none is that of "
              "introductions; take ethdev",
              word_of(node.links[i].kind))};
  if (m.slots + node.clusters > kMaxClusters)
    return Conflict{{"machines.slots", "clusters"},
                    fmt::format("{} is out of range; allowed: 1 to {} ({} minus this machine's clusters)",
                                m.slots, kMaxClusters - node.clusters, kMaxClusters)};
  if (m.udp_port >= node.udp_port && m.udp_port < node.udp_port + node.proxies)
    return Conflict{{"machines.udp_port", "udp_port"},
                    fmt::format("{} is the port of a proxy; take one outside {} to {}", m.udp_port,
                                node.udp_port, node.udp_port + node.proxies - 1)};
  std::set<std::string> addresses;
  for (const LinkConfig& link : node.links)
    addresses.insert(link.address.empty() ? node.address : link.address);
  if (addresses.size() > kMaxNis)
    return Conflict{{"links"},
                    fmt::format("this node has {} addresses; an introduction can hold {} at most",
                                addresses.size(), kMaxNis)};
  return std::nullopt;
}

std::optional<Conflict> proxies_have_processors(const C& c) {
  const std::size_t given = parse_processors(c.processors).value_or(std::vector<unsigned>()).size();
  if (given == 0 || given == c.proxies) return std::nullopt;
  return Conflict{{"processors", "proxies"},
                  fmt::format("'{}' names {}, and there are {} proxies: name one for each, or none",
                              c.processors, given, c.proxies)};
}

std::optional<Conflict> sealed_links_have_a_secret(const C& node) {
  if (node.secret || node.security.has_secret()) return std::nullopt;
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    if (!is_sealed(node, node.links[i])) continue;
    return Conflict{
        {"security.secret_file"},
        fmt::format(
            "is missing: packets of links[{}] ({}) are encrypted and authenticated with a secret; make one with "
            "'braid secret FILE', copy the file to every node and name it here, or set security.mode to off",
            i, word_of(node.links[i].kind))};
  }
  return std::nullopt;
}

constexpr Relation kNodeRelations[] = {
    relation<C, cluster_is_one>("cluster is below clusters"),
    relation<C, ports_fit<C>>(kPortsFit),
    relation<C, nothing_is_automatic>("transport.mtu_bytes and idle.spins are numbers, not auto"),
    relation<C, links_deliver_fragments>(
        "with a DPDK port over af_packet transport.fragmentation is transport"),
    relation<C, sockets_take_whole_datagrams>(
        "with a udp, af_xdp or af_packet link transport.fragmentation is transport"),
    relation<C, peers_are_all_others>(
        "peers are all other clusters, each once; no two interfaces have the same "
        "address; a shm link connects two interfaces"),
    relation<C, links_reach_their_peers>("a peer's address is on its link, or the link has a gateway"),
    relation<C, machines_fit>(
        "machines.slots plus clusters is at most 1024; machines.udp_port is not the port of a proxy; machines need "
        "links that are not udp, af_xdp or af_packet"),
    relation<C, clients_can_attach>("either listen_fd or listen_address is given"),
    relation<C, proxies_have_processors>("processors names one for each proxy, or none"),
    relation<C, sealed_links_have_a_secret>(
        "with links that are not shm, or security.mode required, security.secret_file is given unless security.mode is "
        "off")};

}  // namespace

constinit const Schema kNodeSchema = {
    .settings = kNode, .sections = kNodeSections, .lists = kNodeLists, .relations = kNodeRelations};

Result<void> NodeConfig::validate() const {
  return check(kNodeSchema, this, {}, "");
}

bool is_sealed(const NodeConfig& node, const LinkConfig& link) {
  return is_sealed(node.security.mode, link.kind == LinkConfig::Kind::kShm);
}

bool needs_secret(const NodeConfig& node) {
  return std::any_of(node.links.begin(), node.links.end(),
                     [&](const LinkConfig& link) { return is_sealed(node, link); });
}

bool lets_anybody_in(const NodeConfig& node) {
  return node.machines.accept &&
         std::any_of(node.links.begin(), node.links.end(), [&](const LinkConfig& link) {
           return link.kind != LinkConfig::Kind::kShm && !is_sealed(node, link);
         });
}

std::uint64_t agreed_hash(const TransportConfig& transport) {
  Fnv1a hash;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash.add(static_cast<std::uint8_t>(c));
    hash.add(std::uint8_t{0});
  };
  for (const Setting& setting : kTransportSchema.settings) {
    if (!setting.agreed) continue;
    add(setting.name);
    add(text_of(setting, &transport));
  }
  return hash.value();
}

}  // namespace braid::settings
