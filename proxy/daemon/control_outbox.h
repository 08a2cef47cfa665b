// Control messages on their way out of a proxy: a bounded number of them in flight, the others in a queue.
//
// Pure. Owned by the proxy's worker. Not on the message path.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "convergence/ports.h"
#include "proxy/daemon/outgoing.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class ControlOutbox {
 public:
  static constexpr std::size_t kMaxInFlight = 256;

  ControlOutbox();
  ControlOutbox(const ControlOutbox&) = delete;
  ControlOutbox& operator=(const ControlOutbox&) = delete;

  void push(const SendControl& message) { queue_.push_back(message); }
  // The next message to be dispatched, in flight until finish(); nullptr: none is queued, or too many are in
  // flight. Call until nullptr after push() and finish().
  Outgoing* poll();
  // It was acknowledged, or failed.
  void finish(Outgoing& message) { free_.push_back(static_cast<Slot*>(&message)); }
  // Drops the messages that are queued for the cluster.
  void drop(ClusterId to);
  bool any_queued() const { return !queue_.empty(); }
  // Nothing is queued or in flight.
  void clear();

 private:
  struct Slot : Outgoing {
    std::array<std::byte, convergence::kControlBytes> room{};
  };
  std::vector<Slot> slots_;
  std::vector<Slot*> free_;
  std::deque<SendControl> queue_;
};

}  // namespace braid::proxy
