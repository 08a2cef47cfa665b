// A network inside one process, for tests of the runtime's parts: a queue of messages from each cluster to each
// other one, and for every cluster an end that fulfils the contract of Network, including the bell.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "dsm/engine/types.h"
#include "dsm/live/network.h"
#include "dsm/program/host.h"

namespace braid::dsm {

class QueueNetwork final : public Network {
 public:
  // The connected ends of `clusters` clusters.
  static std::vector<std::unique_ptr<QueueNetwork>> join(std::uint16_t clusters) {
    std::vector<std::unique_ptr<QueueNetwork>> ends;
    for (std::uint16_t k = 0; k < clusters; ++k) ends.push_back(std::make_unique<QueueNetwork>(k));
    for (auto& end : ends) {
      for (auto& peer : ends) end->peers_.push_back(peer.get());
    }
    return ends;
  }
  explicit QueueNetwork(std::uint16_t self) : self_(self) {}

  // --- Settings of the test.

  bool has_room = true;
  // Why every other cluster cannot be reached.
  const char* broken = nullptr;
  // wait() returns for the bell and wake() alone, never for its timeout: a lost wake-up is a sleep without end.
  bool sleeps_without_timeout = false;
  // As with proxies in the process: no bell rings, and only poll() sees arrivals.
  bool only_moves_in_poll = false;

  // --- Observations.

  std::vector<std::pair<std::uint16_t, std::vector<std::byte>>> sent;  // (to, bytes), in order
  int arms = 0, disarms = 0, wakes = 0, flushes = 0;

  // Puts a message into this end's queue, as if `from` had sent it.
  void arrive(std::uint16_t from, std::vector<std::byte> bytes) {
    const std::lock_guard guard(mutex_);
    arrivals_.emplace_back(from, std::move(bytes));
    if (armed_ && !only_moves_in_poll) ring();
  }

  // --- Network.

  bool moves_only_in_poll() const override { return only_moves_in_poll; }

  MutableBytes reserve(ClusterId, std::uint32_t bytes, unsigned) override {
    if (!has_room) return {};
    CHECK_LE(bytes, room_.size());
    return MutableBytes(room_).first(bytes);
  }
  void commit(ClusterId to, std::uint32_t bytes) override {
    std::vector<std::byte> message(room_.begin(), room_.begin() + bytes);
    sent.emplace_back(to.value(), message);
    if (peers_.size() > to.value()) peers_[to.value()]->arrive(self_, std::move(message));
  }
  void flush() override { ++flushes; }
  int poll(Sink& sink, int limit) override {
    int handed = 0;
    for (; handed < limit; ++handed) {
      std::unique_lock guard(mutex_);
      if (arrivals_.empty()) break;
      const auto [from, bytes] = std::move(arrivals_.front());
      arrivals_.pop_front();
      guard.unlock();
      sink.on_message(ClusterId(from), bytes);
    }
    return handed;
  }
  const char* trouble(ClusterId) override { return broken; }
  NetworkCounts counts() const override { return {}; }
  bool has_arrivals() const override {
    const std::lock_guard guard(mutex_);
    return !only_moves_in_poll && !arrivals_.empty();
  }
  void arm() override {
    const std::lock_guard guard(mutex_);
    ++arms;
    armed_ = true;
  }
  void disarm() override {
    const std::lock_guard guard(mutex_);
    ++disarms;
    armed_ = false;
  }
  void wait(Duration timeout) override {
    std::unique_lock guard(mutex_);
    const auto signalled = [this] { return signalled_; };
    if (sleeps_without_timeout) {
      bell_.wait(guard, signalled);
    } else {
      bell_.wait_for(guard, std::chrono::nanoseconds(timeout.ns()), signalled);
    }
    signalled_ = false;
  }
  void wake() override {
    const std::lock_guard guard(mutex_);
    ++wakes;
    ring();
  }

 private:
  void ring() {
    signalled_ = true;
    bell_.notify_one();
  }

  const std::uint16_t self_;
  std::vector<QueueNetwork*> peers_;
  std::array<std::byte, kMessageHeaderBytes + max_message_bytes(PageLength())> room_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::condition_variable bell_;
  std::deque<std::pair<std::uint16_t, std::vector<std::byte>>> arrivals_;
  bool armed_ = false;
  bool signalled_ = false;
};

}  // namespace braid::dsm
