// Datagrams between a proxy and its node's control plane: a ring each way, apart from commands and events, so that
// they wait for nothing else and nothing else for them.
#pragma once

#include <cstddef>

#include "base/local_ring.h"
#include "proxy/daemon/datagram.h"

namespace braid::proxy {

class DatagramRings {
 public:
  static constexpr std::size_t kWaiting = 64;  // each way

  // --- the control plane's thread

  // False: full, try again.
  [[nodiscard]] bool send(const Datagram& datagram) { return outgoing_.push(datagram); }
  bool has_room() const { return outgoing_.write_available() > 0; }
  [[nodiscard]] bool take_arrived(Datagram* datagram) { return arrived_.pop(*datagram); }

  // --- the worker's thread

  // False: full, it is refused.
  [[nodiscard]] bool arrived(const Datagram& datagram) { return arrived_.push(datagram); }
  // Hands each datagram that should leave to f(datagram). Returns how many.
  template <class F>
  int drain_outgoing(F&& f) {
    int drained = 0;
    for (Datagram d; outgoing_.pop(d); ++drained) f(d);
    return drained;
  }

 private:
  LocalRing<Datagram, kWaiting> outgoing_;
  LocalRing<Datagram, kWaiting> arrived_;
};

}  // namespace braid::proxy
