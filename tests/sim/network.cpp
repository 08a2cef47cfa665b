#include "tests/sim/network.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "sim/virtual_config.h"

namespace braid::sim {
namespace {

// Where the frames that the workers write have what the network looks at.
constexpr std::size_t kMacBytes = 6;
constexpr std::size_t kUdpDestination = kEthernetHeaderBytes + 20 + 2;
// A frame that carries a record is longer than one that only acknowledges, or opens.
constexpr std::uint32_t kShortestData = 104;

bool is_ipv4(ByteView frame) {
  return frame.size() > kEthernetHeaderBytes && load_be<std::uint16_t>(frame.data() + 12) == 0x0800;
}

FaultConfig frame_faults(const WorldConfig& w) {
  FaultConfig f;
  f.loss = w.loss;
  f.burst_begins = w.burst;
  f.duplicate = w.duplicate;
  f.reorder = w.reorder;
  f.corrupt = w.corrupt;
  f.spike = w.spike;
  f.spike_mean = Duration::ns(static_cast<std::int64_t>(w.spike_us * 1e3));
  const auto ms = [](double t) { return Duration::ns(static_cast<std::int64_t>(t * 1e6)); };
  if (w.cut_every_ms > 0) f.cuts = {ms(w.cut_every_ms), ms(w.cut_ms)};
  if (w.clog_every_ms > 0) f.clogs = {ms(w.clog_every_ms), ms(w.clog_ms)};
  return f;
}

}  // namespace

Network::Network(const WorldConfig& config, unsigned links, NetworkEvents& events)
    : config_(config),
      events_(events),
      nodes_(static_cast<unsigned>(config.clusters)),
      links_(links),
      mtu_(static_cast<std::uint32_t>(config.mtu)),
      pool_(mtu_ + kEthernetHeaderBytes),
      steering_(config.seed ^ 0x73746565) {
  CHECK_LE(nodes_, kMaxNodes);
  CHECK_LE(links_, kMaxLinks);
  LinkConfig link;
  link.bits_per_second = static_cast<std::uint64_t>(config.gbits * 1e9);
  link.propagation = Duration::ns(static_cast<std::int64_t>(config.propagation_us * 1e3));
  link.mtu_bytes = mtu_;
  link.queue_bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(config.queue_kib) << 10,
                                             2 * wire_bytes(mtu_ + kEthernetHeaderBytes));
  Prng seeds(config.seed ^ 0x6c696e65);
  for (unsigned i = 0; i < nodes_ * nodes_ * links_; ++i)
    lines_.push_back({Link(link), FaultModel(frame_faults(config), seeds.next())});
  for (auto& node : up_) node.fill(true);
}

void Network::stop_faults() {
  for (Line& l : lines_) l.faults.stop();
  for (auto& node : up_) node.fill(true);
}

std::unique_ptr<proxy::NicQueue> Network::make_nic(unsigned node, unsigned link, unsigned proxy) {
  CHECK(queues_[node][link][proxy] == nullptr);
  const VirtualNicOptions options{.cluster = node,
                                  .proxy = proxy,
                                  .ni = link,
                                  .rx_frames = static_cast<std::uint32_t>(config_.rx_frames)};
  VirtualNic::Wire& wire = *this;
  auto nic = std::make_unique<VirtualNic>(wire, pool_, options);
  queues_[node][link][proxy] = nic.get();
  return nic;
}

void Network::transmit(const VirtualNic& from, std::span<const FrameRef> frames) {
  for (const FrameRef& frame : frames) route(from.cluster(), from.ni(), frame);
}

// To whom the destination says; what a fault made of it nobody takes.
void Network::route(unsigned from, unsigned link, FrameRef frame) {
  ++counts_.offered;
  const std::byte* const destination = pool_.data(frame.buffer);
  const bool broadcast =
      std::all_of(destination, destination + kMacBytes, [](std::byte b) { return b == std::byte{0xff}; });
  if (!broadcast) {
    const std::optional<Station> to = station_of({destination, frame.length});
    if (to && to->cluster < nodes_ && to->cluster != from) {
      send(from, to->cluster, link, frame);
    } else {
      ++counts_.misrouted;
      pool_.give(frame.buffer);
    }
    return;
  }
  for (unsigned node = 0; node < nodes_; ++node) {
    if (node == from) continue;
    const FrameRef copy{pool_.take(), frame.length};
    std::memcpy(pool_.data(copy.buffer), destination, frame.length);
    send(from, node, link, copy);
  }
  pool_.give(frame.buffer);
}

void Network::inject(unsigned from, unsigned to, unsigned link, ByteView frame) {
  const FrameRef copy{pool_.take(), static_cast<std::uint32_t>(frame.size())};
  std::memcpy(pool_.data(copy.buffer), frame.data(), frame.size());
  send(from, to, link, copy);
}

bool Network::path_is_cut(unsigned from, unsigned to, ByteView frame) {
  if (!is_ipv4(frame) || frame.size() < kUdpDestination + 2) return false;
  const unsigned source = load_be<std::uint16_t>(frame.data() + kUdpDestination - 2) - unsigned{kUdpPortBase};
  const unsigned target = load_be<std::uint16_t>(frame.data() + kUdpDestination) - unsigned{kUdpPortBase};
  return source < kMaxProxies && target < kMaxProxies && cut_until(from, source, to, target) > events_.now();
}

void Network::send(unsigned from, unsigned to, unsigned link, FrameRef frame) {
  Line& l = line(from, to, link);
  const Instant now = events_.now();
  const ByteView bytes{pool_.data(frame.buffer), frame.length};
  const auto gone = [&](std::uint64_t& counter, const char* fate) {
    ++counter;
    events_.traced(from, to, link, fate, bytes);
    pool_.give(frame.buffer);
  };
  if (paths_cut_ && path_is_cut(from, to, bytes)) return gone(counts_.cut, "path cut");
  if (!up_[from][link] || !up_[to][link]) return gone(counts_.cut, "link down");
  if (const Instant until = l.faults.clogged_until(now); until > now) {
    ++counts_.clogged;
    l.link.clog(now, until);
  }
  const Link::Transit transit = l.link.offer(now, frame.length);
  if (transit.verdict != Link::Verdict::kCarried) return gone(counts_.queue_full, "queue full");
  if (config_.lose_frame > 0 && frame.length >= kShortestData && is_ipv4(bytes) &&
      ++data_frames_ == static_cast<std::uint64_t>(config_.lose_frame))
    return gone(counts_.lost, "lost");
  const Fate fate = l.faults.strike(now, frame.length);
  switch (fate.lost) {
    case Fate::Lost::kNot:
      break;
    case Fate::Lost::kCut:
      return gone(counts_.cut, "cut");
    case Fate::Lost::kByChance:
    case Fate::Lost::kInBurst:
      return gone(counts_.lost, "lost");
  }
  // ARP has no checksum of its own: on a real wire the FCS would have caught it.
  if (fate.corrupt && is_ipv4(bytes)) {
    fate.harm({pool_.data(frame.buffer), frame.length});
    ++counts_.corrupted;
  }
  counts_.delayed += fate.delay[0] > Duration();
  events_.traced(from, to, link,
                 fate.corrupt           ? "corrupted"
                 : fate.copies > 1      ? "twice"
                 : fate.delay[0] > 0_us ? "late"
                                        : "",
                 bytes);
  if (fate.copies > 1) {
    ++counts_.duplicated;
    const FrameRef copy{pool_.take(), frame.length};
    std::memcpy(pool_.data(copy.buffer), pool_.data(frame.buffer), frame.length);
    events_.arrives(transit.arrives + fate.delay[1], to, link, copy);
  }
  events_.arrives(transit.arrives + fate.delay[0], to, link, frame);
}

int Network::land(unsigned node, unsigned link, FrameRef frame) {
  const auto& queues = queues_[node][link];
  const ByteView bytes{pool_.data(frame.buffer), frame.length};
  const auto proxies =
      static_cast<unsigned>(std::find(queues.begin(), queues.end(), nullptr) - queues.begin());
  unsigned proxy = 0;
  if (proxies > 1 && is_ipv4(bytes) && bytes.size() >= kUdpDestination + 2) {
    if (config_.steering == 0)
      proxy = (load_be<std::uint16_t>(bytes.data() + kUdpDestination) - unsigned{kUdpPortBase}) % proxies;
    else if (config_.steering == 1)
      proxy = static_cast<unsigned>(steering_.below(proxies));
  }
  if (proxies == 0 || !up_[node][link] || !queues[proxy]->arrive(frame)) {
    ++counts_.ring_full;
    pool_.give(frame.buffer);
    return -1;
  }
  return static_cast<int>(proxy);
}

}  // namespace braid::sim
