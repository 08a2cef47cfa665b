// Datagrams on their way out of a proxy: a bounded number, of which one cluster has a share, so that a dead or a
// hostile one cannot keep others from theirs (PS-6).
//
// Pure. Owned by the proxy's worker. Not on the message path; it allocates for the first datagram.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "proxy/daemon/datagram.h"
#include "proxy/daemon/outgoing.h"

namespace braid::proxy {

class DatagramOutbox {
 public:
  static constexpr std::size_t kMaxInFlight = 64;
  static constexpr std::size_t kMaxPerCluster = 16;

  DatagramOutbox() = default;
  DatagramOutbox(const DatagramOutbox&) = delete;
  DatagramOutbox& operator=(const DatagramOutbox&) = delete;

  // The message to be dispatched, in flight until finish(); nullptr: too many are.
  Outgoing* put(const Datagram& datagram);
  // It was acknowledged, or failed. Returns what it was.
  Datagram finish(Outgoing& message);
  std::size_t in_flight() const { return slots_ == nullptr ? 0 : kMaxInFlight - free_.size(); }
  // Nothing is in flight.
  void clear();

 private:
  struct Slot : Outgoing {
    Datagram datagram;
    bool used = false;
  };
  std::unique_ptr<std::array<Slot, kMaxInFlight>> slots_;
  std::vector<Slot*> free_;
};

}  // namespace braid::proxy
