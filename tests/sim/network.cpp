#include "tests/sim/network.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "sim/frame_fields.h"
#include "sim/virtual_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {
namespace {

// A frame that carries a record is longer than one that only acknowledges, or opens.
constexpr std::uint32_t kShortestData = 104;

FaultConfig frame_faults(const WorldConfig& w) {
  FaultConfig f;
  f.loss = w.loss;
  f.burst_begins = w.burst;
  f.duplicate = w.duplicate;
  f.reorder = w.reorder;
  f.corrupt = w.corrupt;
  f.spike = w.spike;
  f.spike_mean = from_us(w.spike_us);
  if (w.cut_every_ms > 0) f.cuts = {from_ms(w.cut_every_ms), from_ms(w.cut_ms)};
  if (w.clog_every_ms > 0) f.clogs = {from_ms(w.clog_every_ms), from_ms(w.clog_ms)};
  return f;
}

LinksConfig links_config(const WorldConfig& config, unsigned links) {
  LinksConfig l;
  l.layout = LinksConfig::Layout::kOfPair;
  l.clusters = static_cast<unsigned>(config.clusters);
  l.nis = links;
  l.link.bits_per_second = static_cast<std::uint64_t>(config.gbits * 1e9);
  l.link.propagation = from_us(config.propagation_us);
  l.link.mtu_bytes = static_cast<std::uint32_t>(config.mtu);
  l.link.queue_bytes = std::max<std::uint64_t>(static_cast<std::uint64_t>(config.queue_kib) << 10,
                                               2 * wire_bytes(l.link.mtu_bytes + kEthernetHeaderBytes));
  l.faults = frame_faults(config);
  return l;
}

// The proxy that has a frame's UDP port; a number that no proxy has where there is none.
unsigned proxy_of(std::optional<std::uint16_t> port) {
  return port ? *port - unsigned{kUdpPortBase} : ~0u;
}

}  // namespace

Network::Network(const WorldConfig& config, unsigned links, NetworkEvents& events)
    : config_(config),
      events_(events),
      nodes_(static_cast<unsigned>(config.clusters)),
      pool_(static_cast<std::uint32_t>(config.mtu) + kEthernetHeaderBytes),
      links_(links_config(config, links),
             [seeds = Prng(config.seed ^ 0x6c696e65)]() mutable { return seeds.next(); }),
      queues_(nodes_),
      steering_(config.seed ^ 0x73746565) {
  CHECK_LE(links, kMaxLinks);
}

void Network::stop_faults() {
  links_.stop_faults();
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
  for (const FrameRef& frame : frames) route({{from.cluster(), from.proxy()}, from.ni()}, frame);
}

// To whom the destination says; what a fault made of it nobody takes.
void Network::route(const NetworkEnd& from, FrameRef frame) {
  ++counts_.offered;
  const std::byte* const destination = pool_.data(frame.buffer);
  if (!is_broadcast({destination, frame.length})) {
    const std::optional<Station> to = station_of({destination, frame.length});
    if (to && to->cluster < nodes_ && to->cluster != from.at.cluster) {
      send(from, to->cluster, frame);
    } else {
      ++counts_.misrouted;
      pool_.give(frame.buffer);
    }
    return;
  }
  for (unsigned node = 0; node < nodes_; ++node) {
    if (node == from.at.cluster) continue;
    const FrameRef copy{pool_.take(), frame.length};
    std::memcpy(pool_.data(copy.buffer), destination, frame.length);
    send(from, node, copy);
  }
  pool_.give(frame.buffer);
}

void Network::inject(unsigned from, unsigned to, unsigned link, ByteView frame) {
  const FrameRef copy{pool_.take(), static_cast<std::uint32_t>(frame.size())};
  std::memcpy(pool_.data(copy.buffer), frame.data(), frame.size());
  send({{from, proxy_of(source_port(frame))}, link}, to, copy);
}

bool Network::is_chosen(ByteView frame) {
  return config_.lose_frame > 0 && frame.size() >= kShortestData && is_ipv4(frame) &&
         ++data_frames_ == static_cast<std::uint64_t>(config_.lose_frame);
}

void Network::count(const Passage& passage) {
  switch (passage.lost) {
    case Passage::Lost::kPathCut:
    case Passage::Lost::kNiDown:
    case Passage::Lost::kCut:
      ++counts_.cut;
      break;
    case Passage::Lost::kQueueFull:
      ++counts_.queue_full;
      break;
    case Passage::Lost::kByChance:
      ++counts_.lost;
      break;
    case Passage::Lost::kNot:
      counts_.corrupted += passage.is_corrupted;
      counts_.delayed += passage.is_delayed;
      counts_.duplicated += passage.copies > 1;
  }
  counts_.clogged += passage.has_waited;
}

void Network::send(const NetworkEnd& from, unsigned to, FrameRef frame) {
  const MutableBytes bytes{pool_.data(frame.buffer), frame.length};
  const unsigned link = from.ni;
  Passage passage = links_.send(events_.now(), from, {{to, proxy_of(destination_port(bytes))}, link}, bytes);
  if (passage.used_link() && is_chosen(bytes)) passage.lost = Passage::Lost::kByChance;
  count(passage);
  if (passage.lost != Passage::Lost::kNot) {
    events_.traced(from.at.cluster, to, link, to_string(passage.lost), bytes);
    pool_.give(frame.buffer);
    return;
  }
  events_.traced(from.at.cluster, to, link,
                 passage.is_corrupted ? "corrupted"
                 : passage.copies > 1 ? "twice"
                 : passage.is_delayed ? "late"
                                      : "",
                 bytes);
  if (passage.copies > 1) {
    const FrameRef copy{pool_.take(), frame.length};
    std::memcpy(pool_.data(copy.buffer), pool_.data(frame.buffer), frame.length);
    events_.arrives(passage.arrives[1], to, link, copy);
  }
  events_.arrives(passage.arrives[0], to, link, frame);
}

int Network::land(unsigned node, unsigned link, FrameRef frame) {
  const auto& queues = queues_[node][link];
  const ByteView bytes{pool_.data(frame.buffer), frame.length};
  const auto proxies =
      static_cast<unsigned>(std::find(queues.begin(), queues.end(), nullptr) - queues.begin());
  unsigned proxy = 0;
  if (const std::optional<std::uint16_t> port = destination_port(bytes); proxies > 1 && port) {
    if (config_.steering == 0)
      proxy = proxy_of(port) % proxies;
    else if (config_.steering == 1)
      proxy = static_cast<unsigned>(steering_.below(proxies));
  }
  if (proxies == 0 || !link_up(node, link) || !queues[proxy]->arrive(frame)) {
    ++counts_.ring_full;
    pool_.give(frame.buffer);
    return -1;
  }
  return static_cast<int>(proxy);
}

}  // namespace braid::sim
