// The pool of twins (PG-8), and the queue of compute nodes that wait for one.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class Twins {
 public:
  explicit Twins(const EngineConfig& config)
      : length_(config.page_length),
        bytes_(new std::byte[length_.bytes_of(config.twins)]),
        total_(config.twins) {
    CHECK_GT(config.twins, 0u);
    free_.reserve(config.twins);
    for (std::uint32_t t = config.twins; t-- > 0;) free_.push_back(t);
    waiters_.reserve(config.compute_nodes);
  }

  bool empty() const { return free_.empty(); }
  // Copies `page` into a free twin and returns the twin's number. Not while empty().
  std::uint32_t take(const std::byte* page) {
    CHECK(!free_.empty());
    const std::uint32_t twin = free_.back();
    free_.pop_back();
    std::memcpy(bytes(twin), page, length_.bytes());
    return twin;
  }
  void give_back(std::uint32_t twin) {
    CHECK_LT(free_.size(), total_);
    free_.push_back(twin);
  }
  // A page.
  std::byte* bytes(std::uint32_t twin) const { return bytes_.get() + length_.bytes_of(twin); }
  std::uint32_t taken() const { return total_ - static_cast<std::uint32_t>(free_.size()); }

  // Each node waits at most once.
  void add_waiter(std::uint16_t node) {
    CHECK_LT(waiters_.size(), waiters_.capacity());
    waiters_.push_back(node);
  }
  std::size_t waiters() const { return waiters_.size(); }
  // The node that has waited longest. Not while waiters() is 0.
  std::uint16_t pop_waiter() {
    CHECK(!waiters_.empty());
    const std::uint16_t node = waiters_.front();
    waiters_.erase(waiters_.begin());
    return node;
  }

  void describe(StateSink& sink) const {
    sink.value(waiters_.size());
    for (const std::uint16_t node : waiters_) sink.value(node);
  }

 private:
  const PageLength length_;
  std::unique_ptr<std::byte[]> bytes_;  // the kernel provides the memory as it is used
  const std::uint32_t total_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint16_t> waiters_;
};

}  // namespace braid::dsm
