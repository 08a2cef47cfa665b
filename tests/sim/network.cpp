#include "tests/sim/network.h"

#include <algorithm>
#include <bit>
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

// ---------------------------------------------------------------- SimQueue

SimQueue::SimQueue(Network& network, unsigned node, unsigned link, unsigned proxy)
    : network_(network),
      node_(node),
      link_(link),
      proxy_(proxy),
      ring_(std::bit_ceil(static_cast<std::uint32_t>(network.config_.rx_frames))) {
  CHECK(network_.queues_[node][link][proxy] == nullptr);
  network_.queues_[node][link][proxy] = this;
}

SimQueue::~SimQueue() {
  network_.queues_[node_][link_][proxy_] = nullptr;
  for (std::size_t i = 0; i < lent_count_; ++i) network_.pool_.give(lent_[i]);
  for (std::size_t i = 0; i < reserved_count_; ++i) network_.pool_.give(reserved_[i]);
  for (; head_ != tail_; ++head_) network_.pool_.give(ring_[head_ & (ring_.size() - 1)].buffer);
}

std::size_t SimQueue::receive(std::span<MutableBytes> frames) {
  for (std::size_t i = 0; i < lent_count_; ++i) network_.pool_.give(lent_[i]);
  lent_count_ = 0;
  const std::size_t most = std::min(frames.size(), proxy::kMaxBurst);
  for (; lent_count_ < most && head_ != tail_; ++head_) {
    const FrameRef& frame = ring_[head_ & (ring_.size() - 1)];
    lent_[lent_count_] = frame.buffer;
    frames[lent_count_++] = {network_.pool_.data(frame.buffer), frame.length};
  }
  return lent_count_;
}

std::size_t SimQueue::reserve(std::span<proxy::TxFrame> frames) {
  const std::size_t most = std::min(frames.size(), proxy::kMaxBurst);
  while (reserved_count_ < most) reserved_[reserved_count_++] = network_.pool_.take();
  for (std::size_t i = 0; i < most; ++i)
    frames[i] = {network_.pool_.data(reserved_[i]), max_frame_bytes(), 0};
  return most;
}

void SimQueue::commit(std::span<const proxy::TxFrame> frames) {
  CHECK_LE(frames.size(), reserved_count_);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    CHECK(frames[i].data == network_.pool_.data(reserved_[i]));
    CHECK_GT(frames[i].length, 0u);
    CHECK_LE(frames[i].length, max_frame_bytes());
    network_.transmit(node_, link_, {reserved_[i], frames[i].length});
  }
  std::copy(reserved_.begin() + static_cast<std::ptrdiff_t>(frames.size()),
            reserved_.begin() + static_cast<std::ptrdiff_t>(reserved_count_), reserved_.begin());
  reserved_count_ -= frames.size();
}

bool SimQueue::link_up() const {
  return network_.link_up(node_, link_);
}
std::uint32_t SimQueue::max_frame_bytes() const {
  return network_.pool_.frame_bytes();
}

bool SimQueue::arrive(FrameRef frame) {
  if (tail_ - head_ == ring_.size()) return false;
  ring_[tail_++ & (ring_.size() - 1)] = frame;
  return true;
}

// ---------------------------------------------------------------- Network

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

// To whom the destination says; what a fault made of it nobody takes.
void Network::transmit(unsigned from, unsigned link, FrameRef frame) {
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
