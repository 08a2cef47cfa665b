#include "sim/links.h"

#include <algorithm>

#include "base/check.h"
#include "sim/frame_fields.h"

namespace braid::sim {

const char* to_string(Passage::Lost lost) {
  switch (lost) {
    case Passage::Lost::kNot:
      return "";
    case Passage::Lost::kPathCut:
      return "path cut";
    case Passage::Lost::kNiDown:
      return "link down";
    case Passage::Lost::kQueueFull:
      return "queue full";
    case Passage::Lost::kCut:
      return "cut";
    case Passage::Lost::kByChance:
      return "lost";
  }
  return "?";
}

Links::Links(const LinksConfig& config, const std::function<std::uint64_t()>& next_seed)
    : config_(config), ni_cut_until_(std::size_t{config.clusters} * config.nis) {
  const unsigned of_each_ni = config.layout == LinksConfig::Layout::kOfNi ? 1 : config.clusters;
  for (unsigned n = 0; n < config.clusters * config.nis * of_each_ni; ++n)
    lines_.push_back({Link(config.link), FaultModel(config.faults, next_seed())});
}

Passage::Lost Links::cut_off(Instant now, const NetworkEnd& from, const NetworkEnd& to) const {
  if (!cut_paths_.empty()) {
    const auto path = cut_paths_.find({from.at, to.at});
    if (path != cut_paths_.end() && path->second > now) return Passage::Lost::kPathCut;
  }
  if (any_ni_cut_ && (!is_ni_up(now, from.at.cluster, from.ni) || !is_ni_up(now, to.at.cluster, to.ni)))
    return Passage::Lost::kNiDown;
  return Passage::Lost::kNot;
}

Passage Links::send(Instant now, const NetworkEnd& from, const NetworkEnd& to, MutableBytes frame) {
  Passage passage;
  passage.lost = cut_off(now, from, to);
  if (passage.lost != Passage::Lost::kNot) return passage;
  Line& l = line(from.at.cluster, to.at.cluster, from.ni);
  const auto bytes = static_cast<std::uint32_t>(frame.size());
  const bool may_harm = l.faults.may_harm(now);
  if (may_harm) passage.has_waited = clog(now, l);
  const Link::Transit transit = l.link.offer(now, bytes);
  if (transit.verdict != Link::Verdict::kCarried) {
    passage.lost = Passage::Lost::kQueueFull;
    return passage;
  }
  passage.begins = transit.begins;
  passage.sent = transit.sent;
  if (may_harm) {
    harm(now, l, transit.arrives, frame, &passage);
  } else {
    passage.copies = 1;
    passage.arrives[0] = transit.arrives;
  }
  return passage;
}

// Returns whether a frame has to wait.
bool Links::clog(Instant now, Line& l) {
  const Instant until = l.faults.clogged_until(now);
  if (until <= now) return false;
  l.link.clog(now, until);
  return true;
}

void Links::harm(Instant now, Line& l, Instant arrives, MutableBytes frame, Passage* passage) {
  const Fate fate = l.faults.strike(now, static_cast<std::uint32_t>(frame.size()));
  if (fate.lost != Fate::Lost::kNot) {
    passage->lost = fate.lost == Fate::Lost::kCut ? Passage::Lost::kCut : Passage::Lost::kByChance;
    return;
  }
  if (fate.corrupt && is_ipv4(frame)) {
    fate.harm(frame);
    passage->is_corrupted = true;
  }
  passage->is_delayed = fate.delay[0] > Duration();
  passage->copies = fate.copies;
  for (unsigned copy = 0; copy < fate.copies; ++copy) passage->arrives[copy] = arrives + fate.delay[copy];
}

void Links::cut_link(unsigned from, unsigned to, unsigned ni, Instant until) {
  line(from, to, ni).faults.cut(until);
}

void Links::cut_path(const ProxyAddress& from, const ProxyAddress& to, Instant until) {
  Instant& cut = cut_paths_[{from, to}];
  cut = std::max(cut, until);
}

void Links::cut_ni(unsigned cluster, unsigned ni, Instant until) {
  Instant& cut = ni_cut_until_[cluster * config_.nis + ni];
  cut = std::max(cut, until);
  any_ni_cut_ = true;
}

void Links::stop_faults() {
  for (Line& l : lines_) l.faults.stop();
  std::fill(ni_cut_until_.begin(), ni_cut_until_.end(), Instant());
}

}  // namespace braid::sim
