#include "dsm/engine/barriers.h"

#include <fmt/core.h>
#include <algorithm>
#include <bit>

#include "base/check.h"

namespace braid::dsm {
namespace {

template <class T>
std::uint64_t combine_as(std::uint64_t a, std::uint64_t b, T (*combination)(T, T)) {
  return std::bit_cast<std::uint64_t>(combination(std::bit_cast<T>(a), std::bit_cast<T>(b)));
}
template <class T>
T least(T a, T b) {
  return std::min(a, b);
}
template <class T>
T greatest(T a, T b) {
  return std::max(a, b);
}

std::uint64_t combine(Reduction reduction, std::uint64_t a, std::uint64_t b) {
  switch (reduction) {
    case Reduction::kSumDouble:
      return combine_as<double>(a, b, [](double x, double y) { return x + y; });
    case Reduction::kMinDouble:
      return combine_as<double>(a, b, least<double>);
    case Reduction::kMaxDouble:
      return combine_as<double>(a, b, greatest<double>);
    case Reduction::kSumInt64:  // two's complement, so a sum that wraps is the same one
    case Reduction::kSumUint64:
      return a + b;
    case Reduction::kMinInt64:
      return combine_as<std::int64_t>(a, b, least<std::int64_t>);
    case Reduction::kMaxInt64:
      return combine_as<std::int64_t>(a, b, greatest<std::int64_t>);
    case Reduction::kMinUint64:
      return std::min(a, b);
    case Reduction::kMaxUint64:
      return std::max(a, b);
    case Reduction::kNone:
    case Reduction::kDisagreement:
      return 0;
  }
  return 0;
}

}  // namespace

Barriers::Barriers(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages,
                   WriteNotices& notices)
    : config_(config),
      tree_(config),
      outbox_(outbox),
      nodes_(nodes),
      pages_(pages),
      notices_(notices),
      barriers_(config.barriers),
      child_values_(std::size_t{config.barriers} * tree_.fan_out()) {}

void Barriers::arrive(std::uint16_t node, BarrierId barrier, Reduction reduction, std::uint64_t value) {
  CHECK(known(barrier));
  Barrier& b = barriers_[barrier.value()];
  CHECK(b.stage == Stage::kGathering);
  ComputeNode& n = nodes_[node];
  n.wait = Wait::kBarrier;
  n.sync = barrier.value();
  n.value = value;
  if (b.gathered == 0) ++in_progress_;
  agree(barrier, reduction);
  if (++b.gathered < config_.compute_nodes) return;  // BR-1
  b.stage = Stage::kReleasing;                       // BR-2
  pages_.begin_release({.what = ReleaseFor::What::kBarrier, .id = barrier.value()});
}

// BR-6: before it counts as arrived.
void Barriers::agree(BarrierId barrier, Reduction called) {
  Barrier& b = barriers_[barrier.value()];
  const bool first = b.gathered == 0 && b.arrived == 0;
  b.reduction = first || b.reduction == called ? called : Reduction::kDisagreement;
}

void Barriers::released(BarrierId barrier) {
  Barrier& b = barriers_[barrier.value()];
  CHECK(b.stage == Stage::kReleasing);
  b.stage = Stage::kCollecting;
  arrive_at_parent(barrier);
}

// BR-3
void Barriers::arrive_at_parent(BarrierId barrier) {
  Barrier& b = barriers_[barrier.value()];
  if (b.stage != Stage::kCollecting) return;
  const std::uint32_t below = children(barrier);
  if (static_cast<std::uint32_t>(std::popcount(b.arrived)) < below) return;
  // BR-5: all nodes of this cluster are here, and in the order of their numbers.
  b.value = nodes_[0].value;
  for (std::size_t node = 1; node < nodes_.size(); ++node)
    b.value = combine(b.reduction, b.value, nodes_[node].value);
  for (std::uint32_t i = 0; i < below; ++i) b.value = combine(b.reduction, b.value, child_value(barrier, i));
  if (tree_.is_root(root(barrier))) return depart(barrier);
  b.stage = Stage::kArriving;
  outbox_.push(tree_.parent(root(barrier)), {.kind = Kind::kBarrierArrive,
                                             .format = static_cast<std::uint8_t>(b.reduction),
                                             .id = barrier.value(),
                                             .number = b.generation});
}

std::size_t Barriers::write(const Header& header, MutableBytes payload) {
  Barrier& b = barriers_[header.id];
  if (header.kind == Kind::kBarrierArrive) {
    b.stage = Stage::kArrived;
    notices_.arrived();  // LZ-5
  }
  // The value of a queued departure is still valid: the next is computed only after its receiver has arrived again.
  store(payload.data(), b.value);
  return kBarrierValueBytes;
}

bool Barriers::on_arrive(ClusterId from, const Header& h, ByteView value) {
  const BarrierId barrier(h.id);
  if (!known(barrier)) return false;
  const std::uint32_t which = tree_.which_child(root(barrier), from);
  if (which >= children(barrier)) return false;
  Barrier& b = barriers_[h.id];
  const std::uint64_t bit = std::uint64_t{1} << which;
  if (h.number != b.generation || (b.arrived & bit) != 0) return false;  // BR-4
  if (outbox_.pending(from, Kind::kBarrierDepart) != 0) return false;    // it is still held at a barrier
  agree(barrier, static_cast<Reduction>(h.format));
  b.arrived |= bit;
  child_value(barrier, which) = load<std::uint64_t>(value.data());
  arrive_at_parent(barrier);
  return true;
}

bool Barriers::on_depart(ClusterId from, const Header& h, ByteView value) {
  const BarrierId barrier(h.id);
  if (!known(barrier) || tree_.is_root(root(barrier))) return false;
  if (from != tree_.parent(root(barrier))) return false;
  Barrier& b = barriers_[h.id];
  if (b.stage != Stage::kArrived || h.number != b.generation) return false;  // BR-4
  b.reduction = static_cast<Reduction>(h.format);
  b.value = load<std::uint64_t>(value.data());
  depart(barrier);
  return true;
}

void Barriers::depart(BarrierId barrier) {
  Barrier& b = barriers_[barrier.value()];
  if (tree_.is_root(root(barrier))) notices_.arrived();
  notices_.departed();  // LZ-5
  for (std::uint32_t i = 0; i < children(barrier); ++i)
    outbox_.push(tree_.child(root(barrier), i), {.kind = Kind::kBarrierDepart,
                                                 .format = static_cast<std::uint8_t>(b.reduction),
                                                 .id = barrier.value(),
                                                 .number = b.generation});
  b.stage = Stage::kGathering;
  b.gathered = 0;
  b.arrived = 0;
  ++b.generation;
  --in_progress_;
  for (ComputeNode& n : nodes_) {
    n.wait = Wait::kNothing;  // all of them waited here
    n.result = b.value;
    n.reduction = b.reduction;
  }
}

void Barriers::describe(StateSink& sink) const {
  for (std::size_t i = 0; i < barriers_.size(); ++i) {
    const Barrier& b = barriers_[i];
    sink.values(b.stage, b.reduction, b.gathered, b.generation, b.arrived, b.value);
    for (std::uint32_t c = 0; c < tree_.fan_out(); ++c)
      if ((b.arrived >> c & 1) != 0) sink.value(child_values_[i * tree_.fan_out() + c]);
  }
}

std::string Barriers::explain(BarrierId barrier) const {
  const Barrier& b = barriers_[barrier.value()];
  const auto list = [](std::string& all, std::uint32_t number) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", number);
  };
  std::string nodes, below;
  for (std::uint16_t node = 0; node < nodes_.size(); ++node) {
    const bool here = nodes_[node].wait == Wait::kBarrier && nodes_[node].sync == barrier.value();
    if (!here) list(nodes, global_node(config_, node));
  }
  for (std::uint32_t i = 0; i < children(barrier); ++i) {
    if ((b.arrived >> i & 1) == 0) list(below, tree_.child(root(barrier), i).value());
  }
  if (b.stage == Stage::kReleasing) return "after the writes of this cluster have reached everybody";
  if (nodes.empty() && below.empty())
    return fmt::format("until cluster {} reports that all have arrived", tree_.parent(root(barrier)).value());
  return "where " + (nodes.empty() ? "" : "compute nodes " + nodes + " of this cluster") +
         (nodes.empty() || below.empty() ? "" : " and ") + (below.empty() ? "" : "clusters " + below) +
         " are missing";
}

void Barriers::check() const {
  std::uint32_t in_progress = 0;
  for (std::uint32_t i = 0; i < barriers_.size(); ++i) {
    const Barrier& b = barriers_[i];
    in_progress += b.gathered != 0;
    CHECK_LE(b.gathered, config_.compute_nodes);
    CHECK_EQ(b.stage != Stage::kGathering, b.gathered == config_.compute_nodes);
    const std::uint64_t all = tree_.all_children(root(BarrierId(i)));
    CHECK_LE(b.arrived, all);
    if (b.stage == Stage::kCollecting) CHECK_LT(b.arrived, all);
    if (b.stage == Stage::kArriving || b.stage == Stage::kArrived) CHECK_EQ(b.arrived, all);
  }
  CHECK_EQ(in_progress, in_progress_);
}

}  // namespace braid::dsm
