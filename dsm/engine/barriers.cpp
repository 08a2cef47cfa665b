#include "dsm/engine/barriers.h"

#include <bit>

#include "base/check.h"

namespace braid::dsm {

Barriers::Barriers(const EngineConfig& config, Outbox& outbox, ComputeNodes& nodes, Pages& pages)
    : config_(config), outbox_(outbox), nodes_(nodes), pages_(pages), barriers_(config.barriers) {}

void Barriers::arrive(std::uint16_t node, BarrierId barrier) {
  CHECK(known(barrier));
  Barrier& b = barriers_[barrier.value()];
  CHECK(b.stage == Stage::kGathering);
  nodes_[node].wait = Wait::kBarrier;
  nodes_[node].sync = barrier.value();
  if (b.gathered == 0) ++under_way_;
  if (++b.gathered < config_.compute_nodes) return;  // BR-1
  b.stage = Stage::kReleasing;                       // BR-2
  pages_.begin_release({.what = ReleaseFor::What::kBarrier, .id = barrier.value()});
}

void Barriers::released(BarrierId barrier) {
  Barrier& b = barriers_[barrier.value()];
  CHECK(b.stage == Stage::kReleasing);
  b.stage = Stage::kArriving;
  outbox_.push(root(barrier), {.kind = Kind::kBarrierArrive, .id = barrier.value(), .number = b.generation});
}

void Barriers::sent(const Header& header) {
  if (header.kind == Kind::kBarrierArrive) barriers_[header.id].stage = Stage::kArrived;
}

bool Barriers::on_arrive(ClusterId from, BarrierId barrier, std::uint32_t generation) {
  if (!known(barrier) || root(barrier) != config_.cluster) return false;
  Barrier& b = barriers_[barrier.value()];
  const std::uint64_t bit = std::uint64_t{1} << from.value();
  if (generation != b.root_generation || (b.arrived & bit) != 0) return false;  // BR-4
  if (outbox_.pending(from, Kind::kBarrierDepart) != 0) return false;  // it is still held at a barrier
  b.arrived |= bit;
  if (std::popcount(b.arrived) < config_.clusters) return true;
  b.arrived = 0;  // BR-3
  ++b.root_generation;
  for (std::uint16_t c = 0; c < config_.clusters; ++c)
    outbox_.push(ClusterId(c), {.kind = Kind::kBarrierDepart, .id = barrier.value(), .number = generation});
  return true;
}

bool Barriers::on_depart(ClusterId from, BarrierId barrier, std::uint32_t generation) {
  if (!known(barrier) || from != root(barrier)) return false;
  Barrier& b = barriers_[barrier.value()];
  if (b.stage != Stage::kArrived || generation != b.generation) return false;  // BR-4
  b.stage = Stage::kGathering;
  b.gathered = 0;
  ++b.generation;
  --under_way_;
  for (ComputeNode& n : nodes_)
    if (n.wait == Wait::kBarrier && n.sync == barrier.value()) n.wait = Wait::kNothing;
  return true;
}

void Barriers::check() const {
  std::uint32_t under_way = 0;
  for (const Barrier& b : barriers_) {
    under_way += b.gathered != 0;
    CHECK_LE(b.gathered, config_.compute_nodes);
    CHECK_EQ(b.stage != Stage::kGathering, b.gathered == config_.compute_nodes);
    CHECK_LT(std::popcount(b.arrived), config_.clusters);
  }
  CHECK_EQ(under_way, under_way_);
}

}  // namespace braid::dsm
