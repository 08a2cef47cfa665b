// The interface by which a worker reports every stage that a message or a frame goes through.
//
// A simulator turns stages into time; live there is NoMeter, which costs nothing. A meter is handed down by
// the call that asks for work (proxy/daemon/worker_turn.h), so one Worker serves every kind. What a proxy
// spends on sending, the queue of its NIC sees: a simulated one charges it there.
#pragma once

#include "base/bytes.h"
#include "convergence/position.h"
#include "proxy/channel/channel.h"
#include "stack/stack.h"

namespace braid::proxy {

struct Outgoing;

struct NoMeter {
  // delivered() wants every message of a train.
  static constexpr bool kCountsMessages = false;
  // The stack has looked into a frame. What it hands up has not been delivered yet.
  void received(ByteView /*frame*/, const stack::Stack::Received& /*what*/) {}
  // A record lies in its connection's window, and its descriptor in the client's ring of arrivals.
  void delivered(ClusterId /*source*/, const stack::Record& /*record*/) {}
  // A credit of the peer has come. True: the meter stores it later, with store_credit().
  bool keeps_credit(PortCell& /*cell*/, ClusterId /*source*/, Position /*credit*/) { return false; }
  // A descriptor of a client was taken.
  void taken(const Outgoing& /*message*/) {}
};

// Records overtake each other: only a newer position counts. Proxy `proxy` alone writes its own.
inline void store_credit(PortCell& cell, unsigned proxy, Position position) {
  std::atomic<std::uint32_t>& credit = cell.credit[proxy];
  if (position > Position(credit.load(std::memory_order_relaxed)))
    credit.store(position.value(), std::memory_order_release);
}

}  // namespace braid::proxy
