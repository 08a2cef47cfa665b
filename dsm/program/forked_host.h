// The host of a child of fork(), which is not part of the machine: each call except those on the
// machine's shape ends it with a message. It has copies of its parent's locks, held by threads that do
// not exist in it, and of its parent's connection, so it must not run any code of the parent's host.
#pragma once

#include "dsm/program/host.h"

namespace braid::dsm {

class ForkedHost final : public Host {
 public:
  explicit ForkedHost(const Shape& shape) : Host(shape) {}

  // `call`: the call's name in the program.
  [[noreturn]] static void refuse(const char* call);

  int current_node() const override { return -1; }
  std::optional<PageId> allocate_together(const Allocation& allocation) override;
  std::optional<PageId> allocate_alone(unsigned local, const Allocation& allocation) override;
  void parallel(const std::function<void(Node&)>& body) override;
  void begin_parallel(std::function<void(Node&)> body) override;
  void end_parallel() override;
  void fill(PageId first, std::span<const std::byte> contents) override;
  void run_on_cluster(const std::function<void(unsigned)>& body) override;
  void barrier_of_clusters() override;
  void finish() override;
  void prefetch(unsigned local, PageId first, std::uint32_t count) override;
  void lock(unsigned local, LockId lock) override;
  void unlock(unsigned local, LockId lock) override;
  bool try_lock(unsigned local, LockId lock) override;
  Reduced barrier(unsigned local, BarrierId barrier, Reduction reduction, std::uint64_t value) override;
  std::uint64_t sync(unsigned local, const SyncCall& call) override;
  void reset_figures(unsigned local) override;
  std::uint32_t free_pages() override;
  const char* cure_for_full_heap() const override { return ""; }
};

}  // namespace braid::dsm
