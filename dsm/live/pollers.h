// Decides which thread serves a cluster: the compute nodes that wait, which poll, or, if there are none,
// the server thread, which sleeps until the network's bell rings. No wake-up of the server is lost.
//
// Any thread, without the combiner lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "dsm/live/combiner.h"
#include "dsm/live/network.h"

namespace braid::dsm {

// Sleeping threads check the links this often without a wake-up: a peer's death rings no bell.
inline constexpr Duration kWatchPeriod = 100_ms;

// No wake-up is lost:
//
// 1. The bell is armed while no node polls. The thread that takes count_ from 1 to 0 arms it. A disarm() belongs
//    to a change from 0 to 1, and its thread makes it before it leaves; so the next change from 1 to 0 comes
//    after it in the order of count_, and its arm() after that disarm().
// 2. What arrives after arm() rings, and the server wakes: Network::wait() returns for a ring since its last
//    return, also if another thread armed the bell.
// 3. What arrived before arm() and was not taken is found by the check after it, and so is output that waits for
//    room: the thread that leaves wakes the server.
// 4. The server, before it sleeps, does the same two things in the same order if no node polls. If a node polls,
//    it disarms the bell, which may have rung (else it could not sleep), and checks again whether a node polls: a
//    node that does now will arm the bell after this disarm().
// 5. A poller that enters between the two actions of one that leaves serves all that the check would find, or
//    finds it when it leaves itself.
class Pollers {
 public:
  // `network` is null when there is one cluster only: then there is nothing to serve. Both outlive this.
  Pollers(Network* network, const Combiner& combiner) : network_(network), combiner_(combiner) {}
  Pollers(const Pollers&) = delete;
  Pollers& operator=(const Pollers&) = delete;

  // The calling thread polls from now on; until leave() it serves, or finds that another poller does.
  void enter() {
    if (network_ != nullptr && count_.fetch_add(1, std::memory_order_seq_cst) == 0) network_->disarm();
  }
  void leave() {
    if (network_ == nullptr || count_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
    network_->arm();
    if (combiner_.work_is_there()) network_->wake();
  }
  bool nobody() const { return count_.load(std::memory_order_seq_cst) == 0; }

  // The server has no work and is about to sleep; `nobody_polled` is nobody() as it was when it checked. False: it
  // must check again first. With a network only.
  [[nodiscard]] bool prepare_sleep(bool nobody_polled);

 private:
  Network* const network_;
  const Combiner& combiner_;
  alignas(64) std::atomic<std::uint32_t> count_{0};
};

}  // namespace braid::dsm
