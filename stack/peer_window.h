// The window that the peer's packets advertise, and the probes while it is zero (SW-9).
//
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "stack/wire/segment.h"

namespace braid::stack {

class PeerWindow {
 public:
  // One packet more, beside so many in flight.
  bool allows(std::uint32_t packets_in_flight, std::uint64_t bytes_in_flight) const {
    return packets_in_flight < packets_ && bytes_in_flight < std::uint64_t{units_} * kWindowUnitBytes;
  }
  bool closed() const { return packets_ == 0 || units_ == 0; }
  bool differs(const PacketHeader& h) const {
    return h.window_packets != packets_ || h.window_units != units_;
  }
  // The peer says so now. A window that has just closed is probed after `wait`.
  void update(Instant now, const PacketHeader& h, Duration wait) {
    const bool was_closed = closed();
    packets_ = h.window_packets;
    units_ = h.window_units;
    if (was_closed || !closed()) return;
    probe_wait_ = wait;
    probe_due_ = now + wait;
  }
  // While it is closed.
  Instant probe_due() const { return probe_due_; }
  // A probe left; the next waits twice as long, `longest` at most.
  void probed(Instant now, Duration longest) {
    probe_due_ = now + probe_wait_;
    probe_wait_ = std::min(probe_wait_ * 2, longest);
  }

 private:
  // As much as can be said, before the peer says anything.
  std::uint16_t packets_ = 0xffff;
  std::uint16_t units_ = 0xffff;  // of kWindowUnitBytes
  Instant probe_due_;
  Duration probe_wait_;
};

}  // namespace braid::stack
