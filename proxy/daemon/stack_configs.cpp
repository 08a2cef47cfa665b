#include "proxy/daemon/stack_configs.h"

#include <algorithm>

#include "base/fnv.h"
#include "convergence/peer_choice.h"

namespace braid::proxy {
namespace {

// The node's interface on each of its links.
std::vector<stack::Interface> interfaces_of(const NodeConfig& config) {
  std::vector<stack::Interface> all;
  // A node alone has no links, and a stack that nothing ever leaves.
  for (const LinkConfig& link : config.links.empty() ? std::vector<LinkConfig>(1) : config.links) {
    stack::Interface own;
    own.address = *stack::Ipv4Address::parse(link.address.empty() ? config.address : link.address);
    own.mac = *stack::MacAddress::parse(link.mac.empty() ? config.mac : link.mac);
    own.prefix_bits = link.prefix_bits;
    if (!link.gateway.empty()) own.gateway = stack::Ipv4Address::parse(link.gateway);
    own.peers_move = link.kind == LinkConfig::Kind::kUdp;
    all.push_back(own);
  }
  return all;
}

// The stacks of a peer that the proxy has sub-connections with.
void add_peer(const NodeConfig& config, const PeerConfig& peer, unsigned proxy, stack::StackConfig& s) {
  unsigned shift = 0;
  if (config.misdirect && peer.proxies == config.proxies)
    shift = config.cluster < peer.cluster ? 1 : peer.proxies - 1u;
  for (unsigned theirs = 0; theirs < peer.proxies; ++theirs) {
    const bool aligned = convergence::are_aligned(proxy, config.proxies, theirs, peer.proxies, shift);
    if (!config.transport.all_pairs && !aligned) continue;
    stack::RemoteStack remote;
    remote.id = {ClusterId(peer.cluster), ProxyId(static_cast<std::uint8_t>(theirs))};
    const NiConfig ni = peer.ni(theirs % peer.nis());
    remote.address = *stack::Ipv4Address::parse(ni.address);
    remote.udp_port = static_cast<std::uint16_t>(peer.udp_port + theirs);
    remote.link = LinkId(ni.link);
    remote.is_sealed = settings::is_sealed(config, config.links[ni.link]);
    remote.preferred = convergence::is_preferred(config.transport.peer, aligned);
    if (!ni.mac.empty()) remote.mac = stack::MacAddress::parse(ni.mac);
    s.remotes.push_back(remote);
  }
}

}  // namespace

std::uint64_t shared_hash(const NodeConfig& config, std::uint16_t clusters) {
  Fnv1a hash;
  for (const std::uint64_t part :
       {std::uint64_t{stack::kWireVersion}, std::uint64_t{clusters}, settings::agreed_hash(config.transport)})
    hash.add(part);
  return hash.value();
}

std::uint16_t machine_slots(const NodeConfig& config) {
  return config.machines.any() ? config.machines.slots : std::uint16_t{0};
}

TrainLimits train_limits(const TransportConfig& transport) {
  const std::size_t payload = stack::max_payload_bytes(transport.fragmentation, transport.mtu_bytes);
  return {static_cast<std::uint16_t>(transport.train_messages),
          static_cast<std::uint16_t>(stack::max_train_bytes(payload))};
}

stack::StackConfig stack_config(const NodeConfig& config, unsigned proxy, std::uint64_t seed) {
  stack::StackConfig s;
  s.local = {ClusterId(config.cluster), ProxyId(static_cast<std::uint8_t>(proxy))};
  s.interfaces = interfaces_of(config);
  s.udp_port_base = config.udp_port;
  s.proxies = config.proxies;
  s.mtu_bytes = config.transport.mtu_bytes;
  s.fragmentation = config.transport.fragmentation;
  s.seed = seed + proxy;
  s.sub_connection = sub_connection_config(config.transport);
  s.sub_connection.shared_hash = shared_hash(config, config.clusters);
  s.sub_connection.greets_at_first_use = settings::connects_at_first_use(config.transport, config.clusters);
  if (settings::needs_secret(config)) s.sub_connection.security.secret = config.secret;
  for (const PeerConfig& peer : config.peers) add_peer(config, peer, proxy, s);
  for (unsigned slot = 0; slot < machine_slots(config); ++slot) {
    for (unsigned theirs = 0; theirs < config.machines.max_proxies; ++theirs) {
      stack::RemoteStack remote;
      remote.id = {ClusterId(static_cast<std::uint16_t>(config.clusters + slot)),
                   ProxyId(static_cast<std::uint8_t>(theirs))};
      remote.absent = true;
      remote.is_sealed = settings::needs_secret(config);
      s.remotes.push_back(remote);
    }
  }
  return s;
}

std::vector<RemotePath> paths_to_machine(const NodeConfig& config, ClusterId slot, const Introduction& peer,
                                         std::span<const stack::Interface> links, std::uint64_t incarnation) {
  std::vector<RemotePath> all;
  for (unsigned p = 0; p < config.proxies; ++p) {
    for (unsigned theirs = 0; theirs < peer.proxies; ++theirs) {
      const bool aligned = convergence::are_aligned(p, config.proxies, theirs, peer.proxies);
      if (!config.transport.all_pairs && !aligned) continue;
      const ProxyId own(static_cast<std::uint8_t>(p)), their_proxy(static_cast<std::uint8_t>(theirs));
      stack::RemoteStack r;
      r.id = {slot, their_proxy};
      r.address = peer.addresses[theirs % peer.addresses.size()];
      r.udp_port = static_cast<std::uint16_t>(peer.udp_port + theirs);
      r.link = *stack::link_to(links, r.address);
      r.incarnation = incarnation;
      r.preferred = convergence::is_preferred(config.transport.peer, aligned);
      r.names = {{peer.slot, own}, {peer.cluster, their_proxy}, shared_hash(config, 0)};
      all.push_back({{own, slot, their_proxy}, r});
    }
  }
  return all;
}

Machines::Config machines_config(const NodeConfig& config, const std::vector<stack::Interface>& links,
                                 std::uint64_t seed) {
  Machines::Config m;
  m.self.cluster = ClusterId(config.cluster);
  m.self.proxies = config.proxies;
  m.self.udp_port = config.udp_port;
  m.self.link = {config.transport.mtu_bytes, static_cast<std::uint16_t>(config.transport.window_packets),
                 config.transport.fragmentation, config.transport.all_pairs};
  for (const stack::Interface& own : links) {
    std::vector<stack::Ipv4Address>& all = m.self.addresses;
    if (std::find(all.begin(), all.end(), own.address) == all.end() && all.size() < kMaxNis)
      all.push_back(own.address);
  }
  m.links = links;
  m.introduction_port = config.machines.udp_port;
  m.first_slot = ClusterId(config.clusters);
  m.slots = machine_slots(config);
  m.max_proxies = config.machines.max_proxies;
  m.may_connect = config.machines.connect;
  m.may_accept = config.machines.accept;
  m.seed = seed ^ 0x6d616368696e6573;
  return m;
}

}  // namespace braid::proxy
