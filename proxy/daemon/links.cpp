#include "proxy/daemon/links.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/ethernet.h"
#include "proxy/nic/delaying_queue.h"
#include "proxy/nic/faulty_queue.h"
#include "proxy/nic/shm_wire.h"
#include "proxy/packet/packet_wire.h"
#include "proxy/udp/udp_queue.h"
#ifdef BRAID_WITH_DPDK
#include "proxy/nic/ethdev.h"
#endif
#ifdef BRAID_WITH_XDP
#include "proxy/xdp/xdp_wire.h"
#endif

namespace braid::proxy {

#ifndef BRAID_WITH_DPDK
class EthdevPorts {};
#endif

namespace {

// A queue's at once with faults.delay_ms: the windows of several peers.
constexpr std::uint32_t kDelayedFrames = 2048;

// The faults of one queue of a link, but for the delay.
Faults faults_of(const NodeConfig& config, std::uint16_t link, unsigned queue) {
  Faults f;
  f.loss = config.faults.loss;
  f.duplicate = config.faults.duplicate;
  f.reorder = config.faults.reorder;
  f.corrupt = config.faults.corrupt;
  f.flip_past_checksum_every = config.faults.flip_past_checksum_every;
  f.drop_all_after = config.faults.drop_all_after;
  f.flip_longer_than_bytes = std::min(config.transport.mtu_bytes * 2 / 3, 4000u);
  f.seed = config.faults.seed * 1'000'003 + config.cluster * 4096u + link * 64u + queue;
  return f;
}

[[maybe_unused]] void count_steering(Steering way, ProxyCounters& counters) {
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

// Of a link whose ways are the kernel's: the kernel resolves, so a peer's station follows from its address, and nobody is
// asked for it. `reached`: gets the address of each. An error: the path takes no packets of transport.mtu_bytes.
Result<void> reach_peers(NodeConfig& config, std::uint16_t index, stack::Ipv4Address own,
                         std::vector<stack::Ipv4Address>* reached = nullptr) {
  for (PeerConfig& peer : config.peers) {
    const auto reach = [&](const std::string& address, std::string& mac) -> Result<void> {
      const stack::Ipv4Address theirs = *stack::Ipv4Address::parse(address);
      const Result<std::uint32_t> bytes = path_mtu(own, theirs);
      if (!bytes) return error("links[{}]: cluster {}: {}", index, peer.cluster, bytes.error().text);
      if (*bytes < config.transport.mtu_bytes)
        return error(
            "transport.mtu_bytes is {} but the way from {} to cluster {} ({}) takes packets of {}: set at most {}",
            config.transport.mtu_bytes, own.to_string(), peer.cluster, address, *bytes, *bytes);
      mac = station_of(theirs).to_string();
      if (reached != nullptr) reached->push_back(theirs);
      return {};
    };
    if (peer.link == index)
      if (const Result<void> r = reach(peer.address, peer.mac); !r) return r;
    for (NiConfig& ni : peer.more_nis) {
      if (ni.link != index) continue;
      if (const Result<void> r = reach(ni.address, ni.mac); !r) return r;
    }
  }
  return {};
}

Result<KernelWire> open_kernel_wire(LinkConfig::Kind kind, const KernelWireOptions& options,
                                    const std::shared_ptr<SocketWaker>& waker) {
  if (kind == LinkConfig::Kind::kPacket) return open_packet_wire(options, waker);
#ifdef BRAID_WITH_XDP
  return open_xdp_wire(options, waker);
#else
  return error("this braidd was built without AF_XDP: build with BRAID_XDP=ON, or take af_packet or udp");
#endif
}

}  // namespace

Links::Links(const NodeConfig& config) : queues_(config.proxies), steered_(config.links.size()) {}

Links::~Links() {
  queues_.clear();
}

Result<std::unique_ptr<Links>> Links::open(NodeConfig& config, NodeCounters& counters,
                                           const MakeQueue& make_queue) {
  std::unique_ptr<Links> links(new Links(config));
  if (const Result<void> r = links->open_captures(config); !r) return r.error();
  if (make_queue) {
    for (std::uint16_t link = 0; link < config.links.size(); ++link)
      for (unsigned p = 0; p < config.proxies; ++p) links->add(config, p, link, make_queue(LinkId(link), p));
    return links;
  }
  if (const Result<void> r = links->start_devices(config); !r) return r.error();
  unsigned port = 0;
  for (std::uint16_t link = 0; link < config.links.size(); ++link) {
    if (const Result<void> r = links->open_link(config, link, port, counters); !r) return r.error();
  }
  return links;
}

// `port`: the next DPDK port.
Result<void> Links::open_link(NodeConfig& config, std::uint16_t link, unsigned& port,
                              NodeCounters& counters) {
  switch (config.links[link].kind) {
    case LinkConfig::Kind::kShm:
      return open_wire(config, link);
    case LinkConfig::Kind::kUdp:
      return open_sockets(config, link);
    case LinkConfig::Kind::kXdp:
    case LinkConfig::Kind::kPacket:
      return open_interface(config, link, counters);
    case LinkConfig::Kind::kEthdev:
      return open_device(config, link, port++, counters);
  }
  CHECK(false);
}

// A file for each proxy, if any are wanted.
Result<void> Links::open_captures(const NodeConfig& config) {
  if (config.capture_directory.empty()) return {};
  CaptureFile::Options options;
  options.limit_bytes = std::uint64_t{config.capture_limit_mib} << 20;
  for (unsigned p = 0; p < config.proxies; ++p) {
    Result<std::unique_ptr<CaptureFile>> file = CaptureFile::create(
        fmt::format("{}/cluster{}-proxy{}.pcapng", config.capture_directory, config.cluster, p), options);
    if (!file) return file.error();
    captures_.push_back(std::move(file).value());
  }
  return {};
}

Result<void> Links::start_devices(NodeConfig& config) {
  std::vector<std::string> devices;
  for (const LinkConfig& link : config.links)
    if (link.kind == LinkConfig::Kind::kEthdev) devices.push_back(link.device);
  if (devices.empty()) return {};
#ifdef BRAID_WITH_DPDK
  EthdevOptions options;
  options.vdevs = devices;
  options.queues = config.proxies;
  if (!config.eal_prefix.empty()) options.file_prefix = config.eal_prefix;
  options.memory_mib = config.eal_memory_mib;
  Result<std::unique_ptr<EthdevPorts>> ports = EthdevPorts::start(options);
  if (!ports) return ports.error();
  ethdev_ = std::move(ports).value();
  if (!config.mac.empty()) return {};
  for (unsigned port = 0; LinkConfig & link : config.links) {
    if (link.kind != LinkConfig::Kind::kEthdev) continue;
    const std::array<std::byte, 6> mac = ethdev_->mac_address(port++);
    if (link.mac.empty()) link.mac = stack::MacAddress::load(mac.data()).to_string();
    if (config.mac.empty()) config.mac = link.mac;
  }
  return {};
#else
  return error("link {}: this braidd was built without DPDK: build with BRAID_DPDK=ON", devices[0]);
#endif
}

Result<void> Links::open_wire(const NodeConfig& config, std::uint16_t index) {
  const LinkConfig& link = config.links[index];
  Result<std::shared_ptr<ShmWire>> wire = ShmWire::map(link.fd, link.first_side ? ShmSide::kA : ShmSide::kB);
  if (!wire) return error("links[{}]: {}", index, wire.error().text);
  if ((*wire)->queues() < config.proxies)
    return error("links[{}]: the wire has {} queues for {} proxies: make it with one for each", index,
                 (*wire)->queues(), config.proxies);
  for (unsigned q = 0; q < (*wire)->queues(); ++q) add(config, q, index, (*wire)->queue(q));
  return {};
}

Result<void> Links::open_sockets(NodeConfig& config, std::uint16_t index) {
  LinkConfig& link = config.links[index];
  const stack::Ipv4Address own =
      *stack::Ipv4Address::parse(link.address.empty() ? config.address : link.address);
  link.mac = station_of(own).to_string();
  if (config.mac.empty()) config.mac = link.mac;
  if (const Result<void> r = reach_peers(config, index, own); !r) return r;
  const Result<std::shared_ptr<SocketWaker>> waker = this->waker(index);
  if (!waker) return waker.error();
  for (unsigned p = 0; p < config.proxies; ++p) {
    UdpQueueOptions options;
    options.own = {own, static_cast<std::uint16_t>(config.udp_port + p)};
    options.max_frame_bytes = config.transport.mtu_bytes + kEthernetHeaderBytes;
    Result<std::unique_ptr<UdpQueue>> queue = UdpQueue::open(options, *waker);
    if (!queue) return error("links[{}]: {}", index, queue.error().text);
    add(config, p, index, std::move(*queue));
  }
  return {};
}

// The one waker of all sockets.
Result<std::shared_ptr<SocketWaker>> Links::waker(std::uint16_t index) {
  if (waker_ == nullptr) {
    Result<std::unique_ptr<SocketWaker>> waker = SocketWaker::start();
    if (!waker) return error("links[{}]: {}", index, waker.error().text);
    waker_ = std::move(*waker);
  }
  return waker_;
}

Result<void> Links::open_interface(NodeConfig& config, std::uint16_t index, NodeCounters& counters) {
  LinkConfig& link = config.links[index];
  KernelWireOptions options;
  options.own = *stack::Ipv4Address::parse(link.address.empty() ? config.address : link.address);
  options.first_port = config.udp_port;
  options.proxies = config.proxies;
  options.mtu_bytes = config.transport.mtu_bytes;
  if (const Result<void> r = reach_peers(config, index, options.own, &options.peers); !r) return r;
  const Result<std::shared_ptr<SocketWaker>> waker = this->waker(index);
  if (!waker) return waker.error();
  Result<KernelWire> wire = open_kernel_wire(link.kind, options, *waker);
  if (!wire) return error("links[{}]: {}", index, wire.error().text);
  link.mac = wire->mac.to_string();
  if (config.mac.empty()) config.mac = link.mac;
  for (unsigned q = 0; q < wire->queues.size(); ++q) add(config, q, index, std::move(wire->queues[q]));
  if (config.proxies == 1 || link.kind == LinkConfig::Kind::kPacket) return {};
  for (unsigned p = 0; p < config.proxies; ++p) count_steering(Steering::kHandoff, counters.proxy[p]);
  return {};
}

Result<void> Links::open_device([[maybe_unused]] const NodeConfig& config,
                                [[maybe_unused]] std::uint16_t index, [[maybe_unused]] unsigned port,
                                [[maybe_unused]] NodeCounters& counters) {
#ifdef BRAID_WITH_DPDK
  const LinkConfig& link = config.links[index];
  for (unsigned q = 0; q < config.proxies; ++q) add(config, q, index, ethdev_->queue(port, q));
  if (config.proxies == 1 && link.steering == Steering::kAuto) return {};
  Result<Steered> way = ethdev_->steer(port, link.steering, config.udp_port);
  if (!way) return error("links[{}].{}", index, way.error().text);
  steered_[index] = std::move(way).value();
  for (unsigned p = 0; p < config.proxies; ++p) count_steering(steered_[index].way, counters.proxy[p]);
#endif
  return {};
}

void Links::add(const NodeConfig& config, unsigned queue, std::uint16_t link, std::unique_ptr<NicQueue> nic) {
  if (config.faults.delay_ms > 0)
    nic =
        std::make_unique<DelayingQueue>(std::move(nic), Duration::ms(config.faults.delay_ms), kDelayedFrames);
  if (const Faults faults = faults_of(config, link, queue); faults.any())
    nic = std::make_unique<FaultyQueue>(std::move(nic), faults);
  const unsigned proxy = queue % config.proxies;
  if (!captures_.empty()) {
    // A proxy with several queues of a link has one interface for them.
    const auto [interface, added] = capture_interfaces_.try_emplace({proxy, link});
    if (added)
      interface->second =
          captures_[proxy]->add_interface(fmt::format("link {}", link), nic->max_frame_bytes());
    nic = std::make_unique<CaptureQueue>(std::move(nic), captures_[proxy], interface->second);
  }
  queues_[proxy].push_back({LinkId(link), std::move(nic)});
}

Result<std::vector<LinkQueue>> Links::take_queues(const stack::StackConfig& stack) {
  std::vector<LinkQueue> queues = std::move(queues_[stack.local.proxy.value()]);
  for (const LinkQueue& q : queues) {
    const std::uint32_t longest = q.nic->max_frame_bytes();
    if (longest < stack.mtu_bytes + kEthernetHeaderBytes)
      return error("transport.mtu_bytes is {} but links[{}] carries frames of {} bytes: set at most {}",
                   stack.mtu_bytes, q.link.value(), longest, longest - kEthernetHeaderBytes);
  }
  return queues;
}

std::optional<std::string> Links::poll_capture_problem() {
  for (const std::shared_ptr<CaptureFile>& file : captures_)
    if (std::optional<std::string> problem = file->poll_problem()) return problem;
  return {};
}

Result<void> Links::finish_captures() {
  Result<void> all;
  for (const std::shared_ptr<CaptureFile>& file : captures_) {
    Result<void> finished = file->finish();
    if (!finished && all) all = std::move(finished);
  }
  return all;
}

Result<void> Links::want_source_ports([[maybe_unused]] const NodeConfig& config,
                                      [[maybe_unused]] stack::StackConfig& s) const {
#ifdef BRAID_WITH_DPDK
  const unsigned queue = s.local.proxy.value();
  for (stack::RemoteStack& remote : s.remotes) {
    const std::uint16_t link = remote.link.value();
    if (remote.absent || steered_[link].way != Steering::kRss) continue;
    const UdpFlow flow{.source = remote.address.value(),
                       .destination = s.interfaces[link].address.value(),
                       .destination_port = static_cast<std::uint16_t>(s.udp_port_base + queue)};
    const std::optional<std::uint16_t> port =
        source_port_for(steered_[link].hash, flow, queue, stack::first_steered_port(remote.id.proxy.value()),
                        stack::kSteeredPortsPerProxy);
    if (!port && config.links[link].steering == Steering::kRss)
      return error(
          "links[{}].steering: no source port of {} hashes to queue {}: say auto, which hands over what "
          "lands "
          "elsewhere",
          link, remote.address.to_string(), queue);
    remote.wanted_source_port = port.value_or(0);
  }
#endif
  return {};
}

}  // namespace braid::proxy
