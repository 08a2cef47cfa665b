// The host of a program that is checked for data races: it tells the detector of synchronisation, and the shell does
// the work.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dsm/program/host.h"
#include "sim/races/call_places.h"
#include "sim/races/detector.h"

namespace braid::sim {

class CheckedHost final : public dsm::Host {
 public:
  // Returns the shell itself where the simulator does not ask for the check (variable::kRacesFd).
  static std::unique_ptr<dsm::Host> around(std::unique_ptr<dsm::Host> shell);
  // Checks an access by the running compute node. Nothing happens outside of shared memory, or without a CheckedHost.
  static void access(const volatile void* memory, std::size_t bytes, AccessKind kind,
                     const void* return_address);

  ~CheckedHost() override;
  int current_node() const override { return shell_->current_node(); }
  std::optional<PageId> allocate_together(const dsm::Allocation& allocation) override;
  std::optional<PageId> allocate_alone(unsigned local, const dsm::Allocation& allocation) override;
  std::uint32_t free_pages() override { return shell_->free_pages(); }
  const char* cure_for_full_heap() const override { return shell_->cure_for_full_heap(); }
  void parallel(const std::function<void(dsm::Node&)>& body) override;
  void begin_parallel(std::function<void(dsm::Node&)> body) override;
  void end_parallel() override;
  void fill(PageId first, std::span<const std::byte> contents) override { shell_->fill(first, contents); }
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void prefetch(unsigned local, PageId first, std::uint32_t count) override {
    shell_->prefetch(local, first, count);
  }
  void lock(unsigned local, dsm::LockId lock) override;
  void unlock(unsigned local, dsm::LockId lock) override;
  bool try_lock(unsigned local, dsm::LockId lock) override;
  dsm::Reduced barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                       std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const dsm::SyncCall& call) override;
  void reset_figures(unsigned local) override { shell_->reset_figures(local); }
  void keep_order() override { shell_->keep_order(); }
  void begin_again(std::uintptr_t address, std::size_t bytes) override;
  void abandon_in_child() override;

 private:
  using Object = RaceDetector::Object;
  using Action = RaceDetector::Action;
  using Thing = RaceDetector::Thing;
  using Step = RaceDetector::Step;

  CheckedHost(std::unique_ptr<dsm::Host> shell, std::unique_ptr<RaceDetector> detector);
  // A step at the place of the program's call.
  Step step(Action action, Thing thing, unsigned id = 0);
  // What a compute node runs in parallel(): `body`, ordered with the initial threads.
  std::function<void(dsm::Node&)> part_of_parallel(std::function<void(dsm::Node&)> body, unsigned use);
  void note_allocation(std::optional<PageId> first, const dsm::Allocation& allocation);

  const std::unique_ptr<dsm::Host> shell_;
  const std::unique_ptr<RaceDetector> detector_;
  CallPlaces call_places_;
  // Uses of each barrier, by compute node; of collective calls.
  std::vector<std::array<unsigned, dsm::kBarriers>> barriers_;
  unsigned collective_calls_ = 0;
  unsigned open_use_ = 0;  // of collective_calls_, between begin_parallel() and end_parallel()
};

}  // namespace braid::sim
