#include "dsm/engine/allocations.h"

#include "base/check.h"

namespace braid::dsm {
namespace {

//      0      2         4
//      | kind | cluster |
std::size_t store_homes(MutableBytes room, Homes homes) {
  store(&room[0], static_cast<std::uint16_t>(homes.kind));
  store(&room[2], homes.cluster.value());
  return kHomesBytes;
}

std::optional<Homes> load_homes(ByteView bytes) {
  const auto kind = load<std::uint16_t>(&bytes[0]);
  if (kind > static_cast<std::uint16_t>(Homes::Kind::kFirstTouch)) return std::nullopt;
  return Homes{static_cast<Homes::Kind>(kind), ClusterId(load<std::uint16_t>(&bytes[2]))};
}

}  // namespace

Allocations::Allocations(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages)
    : config_(config),
      self_(config.cluster),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      tree_(config),
      requests_(self_ == kManager ? std::size_t{config.clusters} * config.compute_nodes : 0) {}

void Allocations::begin(std::uint16_t node, std::uint32_t count, Homes homes) {
  CHECK(possible(count, homes));
  ComputeNode& n = nodes_[node];
  n.wait = Wait::kAllocation;
  n.homes = homes;
  n.call_sent = false;
  n.sync = count;
  outbox_.push(kManager, {.kind = Kind::kAllocate, .id = count, .number = node});
}

bool Allocations::possible(std::uint32_t count, Homes homes) const {
  return count > 0 && homes.cluster.value() < config_.clusters;
}

// AL-4
std::optional<PageId> Allocations::take(std::uint32_t count, Homes homes) {
  CHECK(possible(count, homes));
  if (count > free_pages() || !can_place(PageId(next_), count, homes)) return std::nullopt;
  const PageId first(next_);
  place(first, count, homes);
  return first;
}

// AL-2: the only place that determines the homes of a region.
ClusterId Allocations::home_of(PageId first, std::uint32_t count, Homes homes, std::uint32_t i) const {
  const std::uint32_t clusters = config_.clusters;
  switch (homes.kind) {
    case Homes::Kind::kBlock:  // cluster k's part begins at count * k / clusters
      return ClusterId(static_cast<std::uint16_t>(((i + std::uint64_t{1}) * clusters - 1) / count));
    case Homes::Kind::kCyclic:
      return ClusterId(static_cast<std::uint16_t>(i % clusters));
    case Homes::Kind::kCluster:
      return homes.cluster;
    case Homes::Kind::kFirstTouch:
      return keeper(config_, first.value() + i);
  }
  return homes.cluster;
}

bool Allocations::can_place(PageId first, std::uint32_t count, Homes homes) const {
  for (std::uint32_t i = 0; i < count; ++i)
    if (!pages_.can_place(PageId(first.value() + i), home_of(first, count, homes, i))) return false;
  return true;
}

void Allocations::place(PageId first, std::uint32_t count, Homes homes) {
  if (homes.kind == Homes::Kind::kFirstTouch) {
    pages_.set_first_touch(first, count);
  } else {
    for (std::uint32_t i = 0; i < count;) {
      const ClusterId home = home_of(first, count, homes, i);
      std::uint32_t run = 1;
      while (i + run < count && home_of(first, count, homes, i + run) == home) ++run;
      pages_.set_home(PageId(first.value() + i), run, home);
      i += run;
    }
  }
  next_ = first.value() + count;
}

// --- The manager

bool Allocations::on_request(ClusterId from, const Header& h, ByteView payload) {
  const std::optional<Homes> homes = load_homes(payload);
  if (self_ != kManager || !homes || h.number >= config_.compute_nodes || !possible(h.id, *homes))
    return false;
  const std::uint32_t r = global_node(config_, from, h.number);
  if (requests_[r].busy) return false;
  requests_[r] = {.count = h.id, .homes = *homes, .busy = true};
  const bool alone = first_ == kEnd;
  (alone ? first_ : requests_[last_].next) = r;
  last_ = r;
  if (alone) serve_next();
  return true;
}

// AL-1
void Allocations::serve_next() {
  while (first_ != kEnd) {
    const Request& r = requests_[first_];
    if (const std::optional<PageId> region = take(r.count, r.homes))
      announce(*region, r.count, r.homes);
    else
      region_ = kNoPages;
    if (unknowing_ != 0) return;
    answer();
  }
}

void Allocations::answer() {
  const std::uint32_t r = first_;
  first_ = requests_[r].next;
  if (first_ == kEnd) last_ = kEnd;
  outbox_.push(cluster_of(config_, r),
               {.kind = Kind::kAllocated, .id = region_, .number = local_node(config_, r)});
}

// --- Every cluster

bool Allocations::on_region(ClusterId from, const Header& h, ByteView payload) {
  const std::optional<Homes> homes = load_homes(payload);
  if (tree_.is_root(kManager) || from != tree_.parent(kManager)) return false;
  if (!homes || !possible(h.number, *homes)) return false;
  // One region at a time, in order: the next is announced when this one is known everywhere.
  if (h.id != next_ || h.number > free_pages() || unknowing_ != 0) return false;
  if (outbox_.pending(from, Kind::kRegionKnown) != 0) return false;
  if (!can_place(PageId(h.id), h.number, *homes)) return false;
  place(PageId(h.id), h.number, *homes);
  announce(PageId(h.id), h.number, *homes);
  if (unknowing_ == 0) confirm();
  return true;
}

// To the clusters below.
void Allocations::announce(PageId first, std::uint32_t count, Homes homes) {
  region_ = first.value();
  homes_ = homes;
  unknowing_ = tree_.all_children(kManager);
  for (std::uint32_t i = 0; i < tree_.children(kManager); ++i)
    outbox_.push(tree_.child(kManager, i), {.kind = Kind::kRegion, .id = region_, .number = count});
}

// AL-3: this cluster and all below it know the region.
void Allocations::confirm() {
  if (!tree_.is_root(kManager)) {
    outbox_.push(tree_.parent(kManager), {.kind = Kind::kRegionKnown, .id = region_});
    return;
  }
  answer();
  serve_next();
}

bool Allocations::on_region_known(ClusterId from, PageId first) {
  const std::uint32_t which = tree_.which_child(kManager, from);
  if (which >= tree_.children(kManager) || first.value() != region_) return false;
  const std::uint64_t bit = std::uint64_t{1} << which;
  if ((unknowing_ & bit) == 0 || outbox_.pending(from, Kind::kRegion) != 0) return false;
  unknowing_ &= ~bit;
  if (unknowing_ == 0) confirm();
  return true;
}

bool Allocations::on_result(ClusterId from, const Header& h) {
  if (from != kManager || h.number >= nodes_.size()) return false;
  ComputeNode& n = nodes_[h.number];
  if (n.wait != Wait::kAllocation || !n.call_sent) return false;
  if (h.id != kNoPages && !inside(h.id, n.sync, next_)) return false;  // AL-3: known here before
  n.wait = Wait::kNothing;
  n.result = h.id;
  return true;
}

std::size_t Allocations::write(ClusterId to, const Header& header, MutableBytes payload) {
  switch (header.kind) {
    case Kind::kAllocate:
      nodes_[header.number].call_sent = true;
      return store_homes(payload, nodes_[header.number].homes);
    case Kind::kRegion:
      return store_homes(payload, homes_);
    case Kind::kAllocated:
      requests_[global_node(config_, to, header.number)].busy = false;
      return 0;
    default:
      return 0;  // RegionKnown: nothing waits until it is sent
  }
}

void Allocations::describe(StateSink& sink) const {
  sink.values(next_, unknowing_);
  if (unknowing_ != 0) sink.values(region_, homes_.kind, homes_.cluster.value());
  for (std::uint32_t r = first_; r != kEnd; r = requests_[r].next)
    sink.values(r, requests_[r].count, requests_[r].homes.kind, requests_[r].homes.cluster.value());
  sink.value(kEnd);
  for (const Request& r : requests_) sink.value(r.busy);
}

void Allocations::check() const {
  CHECK_LE(next_, config_.pages);
  CHECK_EQ(first_ == kEnd, last_ == kEnd);
  if (self_ == kManager)
    CHECK_EQ(first_ != kEnd, unknowing_ != 0);  // a request is served until all clusters have answered
}

}  // namespace braid::dsm
