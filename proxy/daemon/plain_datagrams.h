// Plain datagrams between the control plane and a proxy's stack, for and from ports that are no proxy's (UDP-2).
//
// A ring each way. Datagrams may be lost: one that finds its ring full, or is too long, is dropped.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/local_ring.h"
#include "stack/stack.h"

namespace braid::proxy {

struct PlainDatagram {
  static constexpr std::size_t kMaxBytes = 128;
  std::uint16_t port = 0;  // ours
  stack::Endpoint peer;
  // It was to go to the peer, and a host says why it did not get there; else it has bytes.
  std::optional<stack::Unreachable> unreachable;
  std::uint32_t bytes = 0;
  std::array<std::byte, kMaxBytes> data{};
};

class PlainDatagrams {
 public:
  static constexpr std::size_t kWaiting = 64;  // each way

  // --- the control plane's thread

  void send(const PlainDatagram& datagram) { (void)outgoing_.push(datagram); }
  bool take_arrived(PlainDatagram* datagram) { return arrived_.pop(*datagram); }

  // --- the worker's thread

  bool any_outgoing() const { return outgoing_.read_available() > 0; }
  // Hands each datagram that should leave to f(datagram). Returns how many.
  template <class F>
  int drain_outgoing(F&& f) {
    int drained = 0;
    for (PlainDatagram d; outgoing_.pop(d); ++drained) f(d);
    return drained;
  }
  // A datagram for a port of ours arrived, or word of one from there that could not be delivered.
  // Rare, and kept out of what happens to each frame.
  [[gnu::noinline]] void arrived(const stack::Stack::Received& received) {
    PlainDatagram d;
    d.port = received.port;
    d.peer = received.peer;
    if (received.what == stack::Stack::Received::What::kUnreachable) {
      d.unreachable = received.reason;
    } else {
      if (received.datagram.size() > d.data.size()) return;
      d.bytes = static_cast<std::uint32_t>(received.datagram.size());
      std::copy(received.datagram.begin(), received.datagram.end(), d.data.begin());
    }
    (void)arrived_.push(d);
  }

 private:
  LocalRing<PlainDatagram, kWaiting> outgoing_;
  LocalRing<PlainDatagram, kWaiting> arrived_;
};

}  // namespace braid::proxy
