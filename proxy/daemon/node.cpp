#include "proxy/daemon/node.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <variant>

#include "base/check.h"
#include "base/fnv.h"
#include "base/take_first.h"
#include "proxy/nic/capture_queue.h"
#include "proxy/nic/faulty_queue.h"
#include "proxy/nic/shm_wire.h"
#ifdef BRAID_WITH_DPDK
#include "proxy/nic/ethdev.h"
#endif

namespace braid::proxy {

#ifndef BRAID_WITH_DPDK
class EthdevPorts {};
#endif

namespace {

using convergence::Ports;

std::uint64_t system_seed() {
  std::uint64_t seed = 0;
  CHECK_EQ(::getrandom(&seed, sizeof seed, 0), static_cast<ssize_t>(sizeof seed));
  return seed;
}

// Listeners of one client.
constexpr std::size_t kMaxListeners = 1024;

// What all clients together may take: they must not bring down the machine.
std::uint64_t most_client_memory() {
  static const std::uint64_t most = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                    static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 2;
  return most;
}

// A file for each proxy, if any are wanted.
Result<std::vector<std::shared_ptr<CaptureFile>>> open_captures(const NodeConfig& config) {
  std::vector<std::shared_ptr<CaptureFile>> files;
  if (config.capture_directory.empty()) return files;
  CaptureFile::Options options;
  options.limit_bytes = std::uint64_t{config.capture_limit_mib} << 20;
  for (unsigned p = 0; p < config.proxies; ++p) {
    Result<std::unique_ptr<CaptureFile>> file = CaptureFile::create(
        fmt::format("{}/cluster{}-proxy{}.pcapng", config.capture_directory, config.cluster, p), options);
    if (!file) return file.error();
    files.push_back(std::move(file).value());
  }
  return files;
}

}  // namespace

std::uint64_t shared_hash(const NodeConfig& config, std::uint16_t clusters) {
  Fnv1a hash;
  for (const std::uint64_t part :
       {std::uint64_t{stack::kWireVersion}, std::uint64_t{clusters}, settings::agreed_hash(config.transport)})
    hash.add(part);
  return hash.value();
}

namespace {

#ifdef BRAID_WITH_DPDK
// What came of steering on a link is counted for a proxy.
void count_way(Steering way, ProxyCounters& counters) {
  switch (way) {
    case Steering::kFlow:
      return counters.links_by_flow.add();
    case Steering::kRss:
      return counters.links_by_rss.add();
    case Steering::kAuto:
    case Steering::kHandoff:
      return counters.links_by_handoff.add();
  }
}

// Asks each peer for a source port that the link's NIC brings to the queue of the stack's proxy.
Result<void> want_source_ports(const NodeConfig& config, const std::vector<Steered>& steered,
                               stack::StackConfig& s) {
  const unsigned queue = s.local.proxy.value();
  for (stack::RemoteStack& remote : s.remotes) {
    const std::uint16_t link = remote.link.value();
    if (remote.absent || steered[link].way != Steering::kRss) continue;
    const UdpFlow flow{.source = remote.address.value(),
                       .destination = s.interfaces[link].address.value(),
                       .destination_port = static_cast<std::uint16_t>(s.udp_port_base + queue)};
    const std::optional<std::uint16_t> port =
        source_port_for(steered[link].hash, flow, queue, stack::first_steered_port(remote.id.proxy.value()),
                        stack::kSteeredPortsPerProxy);
    if (!port && config.links[link].steering == Steering::kRss)
      return error(
          "links[{}].steering: no source port of {} hashes to queue {}: say auto, which hands over what lands "
          "elsewhere",
          link, remote.address.to_string(), queue);
    remote.wanted_source_port = port.value_or(0);
  }
  return {};
}
#endif

}  // namespace

Node::Node(const NodeConfig& config)
    : config_(config),
      proxies_(config.proxies),
      active_(config.proxies),
      said_(config.proxies),
      heard_(stack::kMaxClusters),
      ports_(ClusterId(config.cluster), static_cast<std::uint16_t>(config.clusters + places()), *this,
             Worker::kMaxPorts) {}

Node::~Node() {
  workers_.clear();  // before the memory that they use
  while (!clients_.empty()) destroy(clients_.begin()->first);
  if (counters_ != nullptr) ::munmap(counters_, sizeof(NodeCounters));
  if (counters_fd_ >= 0) ::close(counters_fd_);
}

Result<std::unique_ptr<Node>> Node::create(const NodeConfig& config, Instant now,
                                           const MakeQueue& make_queue) {
  if (const Result<void> valid = config.validate(); !valid) return valid.error();
  std::unique_ptr<Node> node(new Node(config));
  if (const Result<void> r = node->map_counters(); !r) return r.error();
  if (const Result<void> r = node->open_links(now, make_queue); !r) return r.error();
  for (Proxy& proxy : node->proxies_) proxy.beat_at = now;
  node->last_control_ = now;
  return node;
}

Result<void> Node::map_counters() {
  int fd = config_.counters_fd;
  if (fd < 0) {
    fd = ::memfd_create("braid-counters", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, sizeof(NodeCounters)) != 0)
      return error("no memory for the counters: {}", std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(fd, &status) == 0 && static_cast<std::uint64_t>(status.st_size) < sizeof(NodeCounters))
    return error("counters_fd {} has {} bytes: give a descriptor of {} bytes", fd, status.st_size,
                 sizeof(NodeCounters));
  void* const memory = ::mmap(nullptr, sizeof(NodeCounters), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return error("counters_fd {}: {}: give a descriptor of {} bytes", fd, std::strerror(errno),
                 sizeof(NodeCounters));
  counters_ = new (memory) NodeCounters;
  // What clients get can only be read: neither written nor cut off under the proxies. Where /proc is
  // missing they get none.
  counters_fd_ = ::open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_RDONLY | O_CLOEXEC);
  if (config_.counters_fd < 0) ::close(fd);
  counters_->proxies = config_.proxies;
  counters_->process = static_cast<std::uint32_t>(::getpid());
  tell_servers();
  return {};
}

stack::StackConfig Node::stack_config(unsigned proxy, std::uint64_t seed) const {
  stack::StackConfig s;
  s.local = {ClusterId(config_.cluster), ProxyId(static_cast<std::uint8_t>(proxy))};
  // A node alone has no links, and a stack that nothing ever leaves.
  for (const LinkConfig& link : config_.links.empty() ? std::vector<LinkConfig>(1) : config_.links) {
    stack::Interface own;
    own.address = *stack::Ipv4Address::parse(link.address.empty() ? config_.address : link.address);
    own.mac = *stack::MacAddress::parse(link.mac.empty() ? config_.mac : link.mac);
    own.prefix_bits = link.prefix_bits;
    if (!link.gateway.empty()) own.gateway = stack::Ipv4Address::parse(link.gateway);
    s.interfaces.push_back(own);
  }
  s.udp_port_base = config_.udp_port;
  s.proxies = config_.proxies;
  s.mtu_bytes = config_.transport.mtu_bytes;
  s.fragmentation = config_.transport.fragmentation;
  s.seed = seed + proxy;
  s.sub_connection = sub_connection_config(config_.transport);
  s.sub_connection.shared_hash = shared_hash(config_, config_.clusters);
  for (const PeerConfig& peer : config_.peers) {
    unsigned shift = 0;
    if (config_.misdirect && peer.proxies == config_.proxies)
      shift = config_.cluster < peer.cluster ? 1 : peer.proxies - 1u;
    for (unsigned theirs = 0; theirs < peer.proxies; ++theirs) {
      const bool aligned = convergence::are_aligned(proxy, config_.proxies, theirs, peer.proxies, shift);
      if (!config_.transport.all_pairs && !aligned) continue;
      stack::RemoteStack remote;
      remote.id = {ClusterId(peer.cluster), ProxyId(static_cast<std::uint8_t>(theirs))};
      const NiConfig ni = peer.ni(theirs % peer.nis());
      remote.address = *stack::Ipv4Address::parse(ni.address);
      remote.udp_port = static_cast<std::uint16_t>(peer.udp_port + theirs);
      remote.link = LinkId(ni.link);
      remote.preferred = convergence::is_preferred(config_.transport.peer, aligned);
      if (!ni.mac.empty()) remote.mac = stack::MacAddress::parse(ni.mac);
      s.remotes.push_back(remote);
    }
  }
  for (unsigned place = 0; place < places(); ++place) {
    for (unsigned theirs = 0; theirs < config_.machines.most_proxies; ++theirs) {
      stack::RemoteStack remote;
      remote.id = {ClusterId(static_cast<std::uint16_t>(config_.clusters + place)),
                   ProxyId(static_cast<std::uint8_t>(theirs))};
      remote.absent = true;
      s.remotes.push_back(remote);
    }
  }
  return s;
}

Result<void> Node::open_links(Instant now, const MakeQueue& make_queue) {
  const unsigned proxies = config_.proxies;
  std::vector<std::vector<Worker::Queue>> queues(proxies);
  const std::uint64_t seed = config_.seed != 0 ? config_.seed : system_seed();
  Result<std::vector<std::shared_ptr<CaptureFile>>> capture_files = open_captures(config_);
  if (!capture_files) return capture_files.error();
  const std::vector<std::shared_ptr<CaptureFile>>& captures = *capture_files;
  std::map<std::pair<unsigned, std::uint16_t>, unsigned> interfaces;  // of the captures, by proxy and link
  const auto add = [&](unsigned queue, std::uint16_t link, std::unique_ptr<NicQueue> nic) {
    if (config_.faults.any()) {
      Faults f;
      f.loss = config_.faults.loss;
      f.duplicate = config_.faults.duplicate;
      f.reorder = config_.faults.reorder;
      f.corrupt = config_.faults.corrupt;
      f.flip_past_checksum_every = config_.faults.flip_past_checksum_every;
      f.drop_all_after = config_.faults.drop_all_after;
      f.flip_longer_than_bytes = std::min(config_.transport.mtu_bytes * 2 / 3, 4000u);
      f.seed = config_.faults.seed * 1'000'003 + config_.cluster * 4096u + link * 64u + queue;
      nic = std::make_unique<FaultyQueue>(std::move(nic), f);
    }
    const unsigned proxy = queue % proxies;
    if (!captures.empty()) {
      // A proxy with several queues of a link has one interface for them.
      const auto [interface, added] = interfaces.try_emplace({proxy, link});
      if (added)
        interface->second =
            captures[proxy]->add_interface(fmt::format("link {}", link), nic->max_frame_bytes());
      nic = std::make_unique<CaptureQueue>(std::move(nic), captures[proxy], interface->second);
    }
    queues[proxy].push_back({LinkId(link), std::move(nic)});
  };

  std::vector<std::string> devices;
  for (const LinkConfig& link : config_.links)
    if (link.kind == LinkConfig::Kind::kEthdev && !make_queue) devices.push_back(link.device);
#ifdef BRAID_WITH_DPDK
  if (!devices.empty()) {
    EthdevOptions options;
    options.vdevs = devices;
    options.queues = proxies;
    if (!config_.eal_prefix.empty()) options.file_prefix = config_.eal_prefix;
    options.memory_mib = config_.eal_memory_mib;
    Result<std::unique_ptr<EthdevPorts>> ports = EthdevPorts::start(options);
    if (!ports) return ports.error();
    ethdev_ = std::move(ports).value();
    if (config_.mac.empty()) {
      for (unsigned port = 0; LinkConfig & link : config_.links) {
        if (link.kind != LinkConfig::Kind::kEthdev) continue;
        const std::array<std::byte, 6> mac = ethdev_->mac_address(port++);
        if (link.mac.empty()) link.mac = stack::MacAddress::load(mac.data()).to_string();
        if (config_.mac.empty()) config_.mac = link.mac;
      }
    }
  }
#else
  if (!devices.empty())
    return error("link {}: this braidd was built without DPDK: build with BRAID_DPDK=ON", devices[0]);
#endif
  unsigned port = 0;
  std::vector<Steered> steered(config_.links.size());
  for (std::uint16_t index = 0; index < config_.links.size(); ++index) {
    const LinkConfig& link = config_.links[index];
    if (make_queue) {
      for (unsigned p = 0; p < proxies; ++p) add(p, index, make_queue(LinkId(index), p));
      continue;
    }
    if (link.kind == LinkConfig::Kind::kShm) {
      Result<std::shared_ptr<ShmWire>> wire =
          ShmWire::map(link.fd, link.first_side ? ShmSide::kA : ShmSide::kB);
      if (!wire) return error("links[{}]: {}", index, wire.error().text);
      if ((*wire)->queues() < proxies)
        return error("links[{}]: the wire has {} queues for {} proxies: make it with one for each", index,
                     (*wire)->queues(), proxies);
      for (unsigned q = 0; q < (*wire)->queues(); ++q) add(q, index, (*wire)->queue(q));
      wires_.push_back(*wire);
    } else {
#ifdef BRAID_WITH_DPDK
      for (unsigned q = 0; q < proxies; ++q) add(q, index, ethdev_->queue(port, q));
      if (proxies > 1 || link.steering != Steering::kAuto) {
        Result<Steered> way = ethdev_->steer(port, link.steering, config_.udp_port);
        if (!way) return error("links[{}].{}", index, way.error().text);
        steered[index] = std::move(way).value();
        for (unsigned p = 0; p < proxies; ++p) count_way(steered[index].way, counters_->proxy[p]);
      }
#endif
      ++port;
    }
  }

  std::vector<stack::StackConfig> stacks;
  std::vector<convergence::PathId> paths;
  for (unsigned p = 0; p < proxies; ++p) {
    stacks.push_back(stack_config(p, seed));
#ifdef BRAID_WITH_DPDK
    if (Result<void> r = want_source_ports(config_, steered, stacks[p]); !r) return r;
#endif
    for (const stack::RemoteStack& r : stacks[p].remotes) {
      paths.push_back({stacks[p].local.proxy, r.id.cluster, r.id.proxy});
      if (!r.absent) remotes_[r.id.cluster.value()].push_back({paths.back(), r, std::nullopt});
    }
  }
  interfaces_ = stacks[0].interfaces;
  paths_ = std::make_unique<convergence::Paths>(proxies, paths, seed);
  for (unsigned p = 0; p < proxies; ++p) {
    stack::StackConfig& s = stacks[p];
    for (stack::RemoteStack& r : s.remotes) r.incarnation = paths_->own_incarnation(r.id.cluster);
    for (const Worker::Queue& q : queues[p]) {
      if (q.nic->max_frame_bytes() < s.mtu_bytes + 14)
        return error("transport.mtu_bytes is {} but links[{}] carries frames of {} bytes: set at most {}",
                     s.mtu_bytes, q.link.value(), q.nic->max_frame_bytes(), q.nic->max_frame_bytes() - 14);
    }
    workers_.push_back(std::make_unique<Worker>(s, std::move(queues[p]), counters_->proxy[p], states_, now));
  }
  for (unsigned from = 0; from < proxies; ++from) {
    for (unsigned to = 0; to < proxies; ++to) {
      if (from == to) continue;
      handoffs_.push_back(std::make_unique<Handoff>(config_.transport.mtu_bytes + 14));
      workers_[from]->connect_handoff(to, handoffs_.back().get());
      workers_[to]->add_handoff_source(handoffs_.back().get());
      relays_.push_back(std::make_unique<Relay>());
    }
  }
  for (unsigned from = 0, index = 0; from < proxies; ++from) {
    for (unsigned to = 0; to < proxies; ++to) {
      if (from == to) continue;
      // The relay from `to` to `from` stands where theirs begin.
      const unsigned opposite = to * (proxies - 1) + (from < to ? from : from - 1);
      workers_[from]->connect_relay(to, relays_[index++].get(), relays_[opposite].get());
    }
  }
  backlog_.resize(proxies);
  make_machines(interfaces_, seed);
  return {};
}

// ---------------------------------------------------------------- clients

ClientId Node::add_client() {
  const ClientId id = next_client_++;
  clients_.try_emplace(id);
  return id;
}

Node::Client* Node::find(ClientId id) {
  const auto found = clients_.find(id);
  return found == clients_.end() ? nullptr : &found->second;
}

void Node::answer(ClientId client, control::Kind kind, std::uint32_t serial, const control::Message& body,
                  int fd) {
  if (const Client* const c = find(client); c == nullptr || c->gone) return;  // nobody is there to read it
  Outbound out{client, body, fd};
  out.message.kind = kind;
  out.message.serial = serial;
  outbound_.push_back(out);
}

void Node::refuse(ClientId client, std::uint32_t serial, const std::string& text) {
  control::Message m;
  const std::size_t n = std::min(text.size(), sizeof m.refused.text - 1);
  std::memcpy(m.refused.text, text.data(), n);
  answer(client, control::Kind::kRefused, serial, m);
}

void Node::on_request(Instant now, ClientId id, const control::Message& m) {
  Client* const client = find(id);
  if (client == nullptr || client->gone) return;
  if (m.magic != control::kMagic || m.version != control::kVersion) {
    refuse(id, m.serial,
           fmt::format("this braidd speaks version {} of the control protocol, the client {}: build both "
                       "from the same source",
                       control::kVersion, m.version));
    return;
  }
  if (m.kind == control::Kind::kAttach) {
    attach(id, *client, m);
    return;
  }
  if (m.kind == control::Kind::kCounters) {
    if (counters_fd_ < 0)
      refuse(id, m.serial, "this node keeps its counters to itself");
    else
      answer(id, control::Kind::kOk, m.serial, {}, counters_fd_);
    return;
  }
  if (m.kind == control::Kind::kSetProxies) {
    set_proxies(id, m);
    return;
  }
  if (!client->attached) {
    refuse(id, m.serial, "attach first");
    return;
  }
  const unsigned endpoints = client->geometry.endpoints;
  switch (m.kind) {
    case control::Kind::kListen: {
      const control::Listen& l = m.listen;
      if (client->listeners.size() >= kMaxListeners) {
        refuse(id, m.serial,
               fmt::format("this client listens on {} ports already: close some", kMaxListeners));
        return;
      }
      if (l.endpoint >= endpoints || l.port == 0) {
        refuse(id, m.serial, "no such endpoint, or port 0");
        return;
      }
      const convergence::Refusal refusal =
          ports_.listen(id, PortId(l.port), l.endpoint, l.window_bytes, l.ordered != 0);
      if (refusal != convergence::Refusal::kNone)
        refuse(id, m.serial, convergence::to_string(refusal));
      else {
        client->listeners.insert(l.port);
        answer(id, control::Kind::kOk, m.serial);
      }
      return;
    }
    case control::Kind::kConnect: {
      const control::Connect& c = m.connect;
      if (c.endpoint >= endpoints || c.cluster >= config_.clusters) {
        refuse(id, m.serial,
               c.endpoint >= endpoints ? "no such endpoint"
                                       : convergence::to_string(convergence::Refusal::kNoSuchCluster));
        return;
      }
      ports_.connect(now, id, m.serial, c.endpoint, ClusterId(static_cast<std::uint16_t>(c.cluster)),
                     PortId(c.port), c.window_bytes, c.ordered != 0, Duration::ms(c.timeout_ms));
      return;
    }
    case control::Kind::kConnectMachine:
      connect_machine(now, id, *client, m);
      return;
    case control::Kind::kClose:
      client->listeners.erase(m.close.port);
      ports_.close(id, PortId(m.close.port));
      answer(id, control::Kind::kOk, m.serial);
      return;
    case control::Kind::kAttach:
    case control::Kind::kCounters:
    case control::Kind::kSetProxies:
    case control::Kind::kAttached:
    case control::Kind::kOk:
    case control::Kind::kOpened:
    case control::Kind::kRefused:
      break;
  }
  refuse(id, m.serial, "not a request");
}

void Node::attach(ClientId id, Client& client, const control::Message& m) {
  if (client.attached) {
    refuse(id, m.serial, "attached already");
    return;
  }
  ChannelGeometry g;
  g.endpoints = static_cast<std::uint16_t>(std::min<std::uint32_t>(m.attach.endpoints, kMaxEndpoints + 1));
  g.proxies = static_cast<std::uint16_t>(proxies());
  g.send_bytes = m.attach.send_bytes;
  if (m.attach.receive_bytes < convergence::kMinWindowBytes || m.attach.receive_bytes > (1ull << 30)) {
    refuse(id, m.serial,
           fmt::format("receive_bytes is {}: ask for 4 KiB to 1 GiB per endpoint", m.attach.receive_bytes));
    return;
  }
  const std::uint64_t per_endpoint = round_up(m.attach.receive_bytes, convergence::kMinWindowBytes);
  g.arrivals = std::bit_ceil(static_cast<std::uint32_t>(per_endpoint / convergence::kGranuleBytes));
  g.send_descriptors = config_.channel.send_descriptors != 0
                           ? config_.channel.send_descriptors
                           : std::bit_ceil(std::clamp(g.send_bytes / 128, 256u, 8192u));
  g.receive_bytes = per_endpoint * g.endpoints;
  g.connections = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(g.receive_bytes / convergence::kMinWindowBytes, 1, kMaxConnections));
  if (const std::string problem = g.problem(); !problem.empty()) {
    refuse(id, m.serial, problem);
    return;
  }
  const std::uint64_t total = g.total_bytes();
  std::uint64_t held = 0;
  for (const auto& [other, c] : clients_) held += c.memory != nullptr ? c.geometry.total_bytes() : 0;
  if (held + total > most_client_memory()) {
    refuse(
        id, m.serial,
        fmt::format("no {} MiB for the channels: this node's clients hold {} of at most {} MiB (half of the "
                    "machine's memory)",
                    total >> 20, held >> 20, most_client_memory() >> 20));
    return;
  }
  const int fd = ::memfd_create("braid-client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // In full, now: a page that could not be had later would be a SIGBUS in a proxy. And sealed: a client that
  // shrinks it could cause one too.
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(total)) != 0 ||
      ::fallocate(fd, 0, 0, static_cast<off_t>(total)) != 0 ||
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    refuse(id, m.serial,
           fmt::format("cannot allocate {} bytes for the channels: {}", total, std::strerror(errno)));
    if (fd >= 0) ::close(fd);
    return;
  }
  void* const memory = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    refuse(id, m.serial,
           fmt::format("cannot map {} bytes for the channels: {}", total, std::strerror(errno)));
    ::close(fd);
    return;
  }
  std::vector<std::byte*> mapped;
  for (unsigned p = 0; p < proxies(); ++p) {
    std::byte* const at = map_client(fd, total);
    if (at == nullptr) {
      refuse(id, m.serial,
             fmt::format("cannot map {} bytes for proxy {}: {}", total, p, std::strerror(errno)));
      for (std::byte* const earlier : mapped) ::munmap(earlier, total);
      ::munmap(memory, total);
      ::close(fd);
      return;
    }
    mapped.push_back(at);
  }
  client.attached = true;
  client.geometry = g;
  client.fd = fd;
  client.memory = static_cast<std::byte*>(memory);
  client.cells.assign(g.connections, false);
  client.granules_left.assign(g.endpoints, g.arrivals);
  client.free_space[g.receive_buffers()] = round_up(g.receive_bytes, 4096);
  client.mapped = mapped;
  client.lanes.resize(std::size_t{g.endpoints} * g.proxies);
  for (unsigned i = 0; i < client.lanes.size(); ++i) client.lanes[i].server = server_for(i % g.proxies);
  for (unsigned p = 0; p < proxies(); ++p)
    if (running(p)) attach_proxy(id, client, p, false);
  for (unsigned i = 0; i < client.lanes.size(); ++i)
    if (client.lanes[i].server != i % g.proxies) add_sender(id, client, i, false);
  control::Message reply;
  reply.attached.geometry = g;
  reply.attached.cluster = config_.cluster;
  reply.attached.clusters = config_.clusters;
  answer(id, control::Kind::kAttached, m.serial, reply, fd);
}

void Node::client_gone(ClientId id) {
  Client* const client = find(id);
  if (client == nullptr || client->gone) return;
  client->gone = true;
  std::erase_if(outbound_, [&](const Outbound& out) { return out.client == id; });
  machines_->client_gone(id);
  ports_.client_gone(id);
  if (client->lanes.empty()) destroy(id);
}

// The last things of a client that is gone.
void Node::let_go(ClientId id, Client& client) {
  if (!client.detach_sent) {
    if (ports_.held_by(id) > 0) return;
    client.detach_sent = true;
    for (unsigned i = 0; i < client.lanes.size(); ++i) {
      Lane& lane = client.lanes[i];
      if (lane.receiver != nullptr) detach_channel(client, i % proxies(), lane.receiver.get());
      if (lane.sender != nullptr) detach_channel(client, lane.server, lane.sender.get());
    }
  }
  // What a proxy that stands still has lent out is read by others until they have dropped it.
  const bool lent = std::any_of(proxies_.begin(), proxies_.end(),
                                [](const Proxy& proxy) { return !proxy.awaited.empty(); });
  if (client.detaching == 0 && !lent) destroy(id);
}

void Node::destroy(ClientId id) {
  Client& client = clients_.at(id);
  const std::uint64_t bytes = client.geometry.total_bytes();
  for (unsigned p = 0; p < client.mapped.size(); ++p) {
    if (client.mapped[p] == nullptr) continue;  // a proxy that stands still has it
    if (p < workers_.size() && running(p)) tell_worker(p, UnmapClient{id});
    ::munmap(client.mapped[p], bytes);
  }
  if (client.memory != nullptr) ::munmap(client.memory, bytes);
  if (client.fd >= 0) ::close(client.fd);
  clients_.erase(id);
}

std::optional<Ports::Grant> Node::grant(ClientId id, std::uint32_t endpoint, std::uint32_t window_bytes) {
  Client* const client = find(id);
  if (client == nullptr || client->gone) return std::nullopt;
  std::uint32_t& left = client->granules_left[endpoint];
  const std::uint32_t granules = window_bytes / convergence::kGranuleBytes;
  if (left < granules) return std::nullopt;
  const auto free_cell = std::find(client->cells.begin(), client->cells.end(), false);
  const auto space = std::find_if(client->free_space.begin(), client->free_space.end(),
                                  [&](const auto& hole) { return hole.second >= window_bytes; });
  if (free_cell == client->cells.end() || space == client->free_space.end()) return std::nullopt;
  const std::uint64_t offset = space->first;
  const std::uint64_t rest = space->second - window_bytes;
  client->free_space.erase(space);
  if (rest > 0) client->free_space[offset + window_bytes] = rest;
  *free_cell = true;
  left -= granules;
  return Ports::Grant{static_cast<std::uint32_t>(free_cell - client->cells.begin()), offset};
}

void Node::give_back(ClientId id, std::uint32_t endpoint, const Ports::Grant& grant,
                     std::uint32_t window_bytes) {
  Client* const client = find(id);
  if (client == nullptr) return;
  client->cells[grant.cell] = false;
  client->granules_left[endpoint] += window_bytes / convergence::kGranuleBytes;
  auto hole = client->free_space.emplace(grant.window_offset, window_bytes).first;
  if (const auto after = std::next(hole);
      after != client->free_space.end() && hole->first + hole->second == after->first) {
    hole->second += after->second;
    client->free_space.erase(after);
  }
  if (hole != client->free_space.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      client->free_space.erase(hole);
    }
  }
}

// ---------------------------------------------------------------- proxies and ports

void Node::tell_worker(unsigned proxy, const WorkerCommand& command) {
  if (!backlog_[proxy].empty() || !workers_[proxy]->command(command)) backlog_[proxy].push_back(command);
}

void Node::tell_running(const WorkerCommand& command) {
  for (unsigned p = 0; p < proxies(); ++p)
    if (running(p)) tell_worker(p, command);
}

bool Node::caught_up() const {
  for (unsigned p = 0; p < workers_.size(); ++p)
    if (running(p) && (!backlog_[p].empty() || !workers_[p]->caught_up())) return false;
  return true;
}

PortCell* Node::cell(const Ports::End& end) {
  Client* const client = find(end.client);
  if (client == nullptr || client->memory == nullptr) return nullptr;
  return reinterpret_cast<PortCell*>(client->memory + client->geometry.cell(end.grant.cell));
}

void Node::install(const Ports::End& end) {
  Client* const holder = find(end.client);
  if (holder == nullptr || holder->detach_sent) return;  // it died meanwhile, and its kRemove follows
  PortCell* const c = new (cell(end)) PortCell;
  c->consumed.store(0, std::memory_order_relaxed);
  for (auto& credit : c->credit) credit.store(0, std::memory_order_relaxed);
  c->spoiled.store(0, std::memory_order_relaxed);
  c->state.store(PortState::kOpen, std::memory_order_release);
  reported_[end.port.value()].resize(proxies());
  installed_[end.port.value()] = end;
  for (unsigned p = 0; p < proxies(); ++p)
    if (running(p) && holder->mapped[p] != nullptr) install(p, end);
}

void Node::install(unsigned p, const Ports::End& end) {
  Client& client = clients_.at(end.client);
  const std::uint32_t granules = end.window_bytes / convergence::kGranuleBytes;
  std::vector<std::uint64_t>& reported = reported_.at(end.port.value())[p];
  reported.assign(reported_words(granules), 0);
  PortEntry port;
  port.id = end.port;
  port.peer = end.peer;
  port.peer_port = end.peer_port;
  port.peer_incarnation = paths_->association(end.peer).peer;
  port.channel = client.lanes[end.endpoint * proxies() + p].receiver.get();
  port.window = client.mapped[p] + end.grant.window_offset;
  port.window_granules = granules;
  port.reported = reported.data();
  port.cell = reinterpret_cast<PortCell*>(client.mapped[p] + client.geometry.cell(end.grant.cell));
  tell_worker(p, InstallPort{port});
}

void Node::opened(const Ports::Event& event, bool accepted) {
  const Ports::End& end = event.end;
  control::Message m;
  m.opened.listener = accepted ? end.listener.value() : 0;
  m.opened.endpoint = end.endpoint;
  m.opened.port = end.port.value();
  m.opened.peer_port = end.peer_port.value();
  m.opened.peer_cluster = end.peer.value();
  m.opened.ordered = end.ordered ? 1 : 0;
  m.opened.cell = end.grant.cell;
  m.opened.window_offset = end.grant.window_offset;
  m.opened.window_bytes = end.window_bytes;
  m.opened.peer_window_bytes = end.peer_window_bytes;
  answer(end.client, control::Kind::kOpened, accepted ? 0 : end.serial, m);
}

void Node::carry_out(const Ports::Event& event) {
  const Ports::End& end = event.end;
  switch (event.kind) {
    case Ports::Event::Kind::kInstall:
      install(end);
      return;
    case Ports::Event::Kind::kOpened:
      opened(event, false);
      return;
    case Ports::Event::Kind::kAccepted:
      opened(event, true);
      return;
    case Ports::Event::Kind::kRefused: {
      const bool silent = event.refusal == convergence::Refusal::kTimeout;
      const std::string problems = silent ? path_problems(end.peer) : "";
      refuse(end.client, end.serial,
             convergence::to_string(event.refusal) + (problems.empty() ? "" : " (" + problems + ")"));
      return;
    }
    case Ports::Event::Kind::kPeerClosed:
      if (PortCell* const c = cell(end)) c->state.store(PortState::kPeerClosed, std::memory_order_release);
      return;
    case Ports::Event::Kind::kPeerLost:
      if (PortCell* const c = cell(end)) c->state.store(PortState::kPeerLost, std::memory_order_release);
      return;
    case Ports::Event::Kind::kDrain:
      for (unsigned p = 0; p < proxies(); ++p) {
        // What lies in the lanes of one that stands still is sent by those who take them over.
        if (!running(p) && !proxies_[p].owes) continue;
        draining_[end.port.value()].push_back(p);
        if (!running(p) || proxies_[p].owes) continue;
        tell_worker(p, DrainPort{end.port});
      }
      return;
    case Ports::Event::Kind::kRemove: {
      installed_.erase(end.port.value());
      tell_running(RemovePort{end.port});
      if (auto node = reported_.extract(end.port.value())) {
        for (unsigned p = 0; p < proxies(); ++p)
          if (!node.mapped()[p].empty()) proxies_[p].forgotten.push_back(std::move(node.mapped()[p]));
      }
      return;
    }
  }
}

int Node::do_control(Instant now) {
  int work = take_worker_events(now);
  watch_proxies(now);
  work += run_paths();
  work += rebalance();
  work += run_machines(now);
  if (ports_.next_deadline() <= now) ports_.on_timer(now);
  for (unsigned p = 0; p < workers_.size(); ++p) {
    while (!backlog_[p].empty() && workers_[p]->command(backlog_[p].front())) backlog_[p].pop_front();
  }
  // One step of ports at a time: an event takes effect in every proxy before the next, and all of them before
  // a peer hears of it. While a lane has no server nothing can be said about what was sent through it.
  bool all_events_carried_out = false;
  while (moving_ == 0 && caught_up()) {
    for (Proxy& proxy : proxies_)
      if (!proxy.fenced) proxy.forgotten.clear();
    if (const std::optional<Ports::Event> event = ports_.poll_event()) {
      carry_out(*event);
      ++work;
      continue;
    }
    all_events_carried_out = true;
    if (const std::optional<Ports::Outgoing> out = ports_.poll_control())
      say(out->to, out->message);
    else
      break;
    ++work;
  }
  // A proxy must have been told to forget the last port of a client before it is told to forget the client:
  // until then it may write to the client's memory.
  if (all_events_carried_out) {
    for (auto next = clients_.begin(); next != clients_.end();) {
      const auto client = next++;
      if (client->second.gone) let_go(client->first, client->second);
    }
  }
  return work;
}

void Node::say(ClusterId to, convergence::ControlMessage message) {
  message.serial = next_serial_++;
  say_by(paths_->speaker(to).value(), to, message);
}

void Node::say_by(unsigned proxy, ClusterId to, const convergence::ControlMessage& message) {
  std::deque<Said>& said = said_[proxy];
  said.push_back({to, message});
  if (said.size() > kSaidRemembered) said.pop_front();
  tell_worker(proxy, SendControl{to, message});
}

int Node::take_worker_events(Instant now) {
  int events = 0;
  WorkerEvent event;
  for (unsigned p = 0; p < workers_.size(); ++p) {
    for (; workers_[p]->take_event(&event); ++events) {
      // Of a proxy that was given up nothing counts but that it is there again.
      if (running(p))
        std::visit([&](const auto& e) { on_event(now, p, e); }, event);
      else if (std::holds_alternative<ProxyResumed>(event))
        proxies_[p].back = true;
    }
  }
  return events;
}

// CN-11
void Node::on_event(Instant now, unsigned, const ControlReceived& event) {
  const ClusterId from = event.from;
  const bool known = paths_->association(from).peer != 0;
  if (!paths_->heard(from, event.association)) return;
  if (!known) tell_active(from);
  run_paths();  // the news that an earlier incarnation is lost comes before its successor's words
  if (!heard_[from.value()].hear(event.message.serial)) return;
  switch (event.message.kind) {
    case convergence::ControlMessage::Kind::kFence:
    case convergence::ControlMessage::Kind::kFenced:
    case convergence::ControlMessage::Kind::kFenceBefore:
    case convergence::ControlMessage::Kind::kFencedBefore:
      paths_->on_control(from, event.message);
      return;
    case convergence::ControlMessage::Kind::kProxies:
      prefer_proxies(from, event.message.proxy);
      return;
    case convergence::ControlMessage::Kind::kConnect:
    case convergence::ControlMessage::Kind::kAccept:
    case convergence::ControlMessage::Kind::kConfirm:
    case convergence::ControlMessage::Kind::kRefuse:
    case convergence::ControlMessage::Kind::kClose:
      ports_.on_control(now, from, event.message);
      return;
  }
}

void Node::on_event(Instant, unsigned proxy, const PortDrained& event) {
  const auto draining = draining_.find(event.port.value());
  if (draining == draining_.end()) return;
  std::vector<unsigned>& awaited = draining->second;
  if (const auto it = std::find(awaited.begin(), awaited.end(), proxy); it != awaited.end())
    awaited.erase(it);
  if (awaited.empty()) {
    draining_.erase(draining);
    ports_.drained(event.port);
  }
}

void Node::on_event(Instant, unsigned, const ProtocolViolation& event) {
  if (const Client* const client = find(event.client); client != nullptr && !client->gone)
    expelled_.push_back(event.client);
}

void Node::on_event(Instant, unsigned, const PeerLost& event) {
  if (event.closed) ending_.insert(event.cluster.value());
  paths_->lost(event.cluster, event.association, event.silent);
}

void Node::on_event(Instant, unsigned, const PathUp& event) {
  const bool known = paths_->association(event.path.cluster).peer != 0;
  paths_->up(event.path, event.association);
  if (!known) tell_active(event.path.cluster);
}

void Node::on_event(Instant, unsigned, const PathDead& event) {
  paths_->dead(event.path);
}

void Node::on_event(Instant, unsigned, const PathClosed& event) {
  paths_->closed(event.path, event.closed, event.epoch, event.peer_epoch);
}

void Node::on_event(Instant, unsigned proxy, const ProxyForgotten& event) {
  proxies_[event.proxy.value()].awaited.erase(proxy);
}

void Node::on_event(Instant, unsigned, const ProxyResumed&) {}  // it was not given up

void Node::on_event(Instant, unsigned proxy, const ClusterDrained& event) {
  if (const auto parting = parting_.find(event.cluster.value()); parting != parting_.end())
    parting->second.erase(proxy);
}

std::optional<Node::Outbound> Node::poll_outbound() {
  return take_first(outbound_);
}

std::optional<Node::Outbound> Node::poll_outbound(ClientId client) {
  const auto found = std::find_if(outbound_.begin(), outbound_.end(),
                                  [&](const Outbound& out) { return out.client == client; });
  if (found == outbound_.end()) return std::nullopt;
  const Outbound out = *found;
  outbound_.erase(found);
  return out;
}

std::optional<ClientId> Node::poll_expelled() {
  return take_first(expelled_);
}

std::optional<ClusterId> Node::poll_lost_peer() {
  return take_first(lost_peers_);
}

std::optional<ClusterId> Node::poll_ended_peer() {
  return take_first(ended_peers_);
}

bool Node::ready() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->ready(); });
}

bool Node::refused_peer() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& w) { return w->refused_peer(); });
}

}  // namespace braid::proxy
