// Who serves a cluster: the compute nodes that wait, and poll; or, while none does, the server thread, which
// sleeps until the network's bell rings. This is what makes sure that somebody does.
//
// Any thread, without the combiner lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"
#include "dsm/live/combiner.h"
#include "dsm/live/network.h"

namespace braid::dsm {

// Sleepers look at the world this often even if nobody calls: a peer's death rings no bell.
inline constexpr Duration kWatchPeriod = 100_ms;

// No wake-up is lost:
//
// 1. The bell is armed whenever nobody polls. The thread that takes count_ from 1 to 0 arms it. A disarm()
//    belongs to a step from 0 to 1, and its thread makes it before it leaves; so the next step from 1 to 0
//    comes after it in the order of count_, and its arm() after that disarm().
// 2. What arrives after arm() rings, and the server wakes: Network::wait() returns for a ring since its last
//    return, also if another thread armed the bell.
// 3. What arrived before arm() and was not taken is seen by the look after it, and so is output that waits
//    for room: the thread that leaves wakes the server.
// 4. The server, before it sleeps, makes the same two moves in the same order if nobody polls. If somebody
//    polls, it disarms the bell, which may have rung (else it could not sleep), and looks again whether
//    somebody polls: whoever does now will arm the bell after this disarm().
// 5. Another poller that enters between the leaver's two moves serves what the look would have found, or
//    finds it when it leaves itself.
class Pollers {
 public:
  // `network` is null when there is one cluster only: then nobody has anything to serve. Both outlive this.
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

  // The server, which has nothing to do, is about to sleep; `nobody` is what nobody() was when it looked. False: it
  // must look again first. With a network only.
  [[nodiscard]] bool prepare_sleep(bool nobody_polled);

 private:
  Network* const network_;
  const Combiner& combiner_;
  alignas(64) std::atomic<std::uint32_t> count_{0};
};

}  // namespace braid::dsm
