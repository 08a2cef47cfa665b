#include "sim/iccs_network.h"

#include <cstring>

namespace braid::sim {

namespace {

LinksConfig links_config(const IccsNetworkConfig& config) {
  LinksConfig links;
  links.layout = LinksConfig::Layout::kOfNi;
  links.clusters = config.clusters;
  links.nis = config.nis;
  links.link = config.link;
  links.faults = config.faults;
  return links;
}

}  // namespace

IccsNetwork::IccsNetwork(const IccsNetworkConfig& config, IccsShared& shared)
    : config_(config),
      shared_(shared),
      links_(links_config(config), [seed = config.seed * 0x9e3779b97f4a7c15]() mutable { return seed++; }),
      figures_(std::size_t{config.clusters} * config.nis) {}

void IccsNetwork::send(ClusterId from, unsigned proxy, std::uint32_t number) {
  const Instant now = shared_.events.now();
  Frame& frame = shared_.frames[number];
  frame.left = now;
  const MutableBytes bytes(shared_.frames.data(number), frame.length);
  const bool known = frame.to.value() < config_.clusters && frame.to_proxy < config_.proxies;
  Passage passage;
  if (known)
    passage = links_.send(now, {{from.value(), proxy}, frame.from_ni},
                          {{frame.to.value(), frame.to_proxy}, frame.to_ni}, bytes);
  if (shared_.measuring && passage.used_link() && known) {
    LinkFigures& figures = figures_[from.value() * config_.nis + frame.from_ni];
    ++figures.frames;
    figures.bytes += frame.length;
    figures.busy += passage.sent - passage.begins;
    figures.waited += passage.begins - now;
  }
  if (passage.copies == 0) {
    ++frames_lost_;
    shared_.frames.give(number);
    return;
  }
  frame.on_link = passage.begins;
  if (passage.is_corrupted) frame.shape = shape_of(bytes);
  Event arrival{EventKind::kFrameArrives, frame.to_proxy, frame.to.value(), number};
  shared_.events.push(passage.arrives[0], arrival);
  if (passage.copies < 2) return;
  const std::uint32_t copy = shared_.frames.take();
  shared_.frames[copy] = shared_.frames[number];
  std::memcpy(shared_.frames.data(copy), shared_.frames.data(number), shared_.frames[number].length);
  arrival.item = copy;
  shared_.events.push(passage.arrives[1], arrival);
}

}  // namespace braid::sim
