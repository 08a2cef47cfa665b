// The receiving half of a sub-connection: which packets have arrived, how much more its driver takes, and when
// the peer is told of both (SW-8).
//
//   arrived()    what a packet with records is; nothing changes but the time that is echoed
//   delivered()  its records lie where they belong, so it may be acknowledged (SC-4)
//   describe()   what a packet that leaves now says of it; sent() when it left
//   due()        when an acknowledgement leaves even if nothing else does
//
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "stack/sub_connection_config.h"
#include "stack/timestamp.h"
#include "stack/window/receive_window.h"
#include "stack/wire/segment.h"

namespace braid::stack {

class Acknowledger {
 public:
  explicit Acknowledger(const SubConnectionConfig& config)
      : ack_delay_(config.ack_delay),
        ack_every_(config.ack_every),
        received_(config.first_seq),
        window_packets_(config.window_packets),
        window_units_(units(config.receive_window_bytes)) {}

  // A packet with records, which may have waited for `unseen` before it was looked at. Of a duplicate the
  // acknowledgement was lost, or is late: it is repeated at once.
  PacketArrival arrived(Instant now, const PacketHeader& h, Duration unseen) {
    const PacketArrival arrival = received_.classify(h.seq);
    if (arrival == PacketArrival::kBeyondWindow) return arrival;  // SW-1
    if (echo_ == 0) echo_since_ = now - unseen;
    if (arrival == PacketArrival::kDuplicate) {
      if (echo_ == 0) echo_ = h.timestamp;
      due_ = now;
    }
    return arrival;
  }
  void delivered(Instant now, const PacketHeader& h) {
    const bool had_hole = received_.has_hole();
    received_.delivered(h.seq);  // SC-4
    if (echo_ == 0)
      echo_ = h.timestamp;  // of the first packet since the last acknowledgement (RFC 7323, 4.3)
    ++unacknowledged_;
    // Also when a hole is filled: the sender is about to take its packet for lost.
    if (h.ack_at_once || unacknowledged_ >= ack_every_ || had_hole || received_.has_hole())
      due_ = now;
    else
      due_ = earlier(due_, now + ack_delay_);
  }

  // A packet without records asks for an acknowledgement, which leaves at once. A tail probe is echoed (SW-10), unless a
  // packet waits: the echo of that one tells whether it was retransmitted in vain (SW-12).
  void probed(Instant now, const PacketHeader& h, Duration unseen) {
    const bool packet_waits = due_ != Instant::never();
    due_ = now;
    if (packet_waits || !h.ack_at_once) return;
    echo_ = h.timestamp;
    echo_since_ = now - unseen;
  }

  // never() if nothing waits to be acknowledged.
  Instant due() const { return due_; }
  void acknowledge_at(Instant now) { due_ = now; }

  // Writes what it knows into the header of a packet that is about to leave.
  void describe(Instant now, PacketHeader& h) const {
    h.ack = received_.edge();
    h.timestamp_echo = echo_;
    if (echo_ != 0) h.ack_held = held_ticks(now - echo_since_);
    h.window_packets = static_cast<std::uint16_t>(window_packets_);
    h.window_units = window_units_;
    h.sack_words = received_.sack(h.sack);
  }
  void sent() {
    unacknowledged_ = 0;
    due_ = Instant::never();
    echo_ = 0;
  }

  // How much is taken beyond what is acknowledged. True if that is more than before.
  bool set_window(std::uint32_t packets, std::uint32_t bytes) {
    packets = std::min(packets, ReceiveWindow::kWindow);
    const bool more = packets > window_packets_ || units(bytes) > window_units_;
    window_packets_ = packets;
    window_units_ = units(bytes);
    return more;
  }

  // Another connection, whose first packet is `first`. The window stays.
  void restart(Seq first) {
    received_ = ReceiveWindow(first);
    sent();
  }
  void check() const { received_.check(); }

 private:
  static std::uint16_t units(std::uint32_t bytes) {
    return static_cast<std::uint16_t>(std::min(bytes / kWindowUnitBytes, std::uint32_t{0xffff}));
  }

  Duration ack_delay_;
  std::uint32_t ack_every_;
  ReceiveWindow received_;
  std::uint32_t window_packets_;
  std::uint16_t window_units_;
  std::uint32_t echo_ = 0;            // timestamp to return with the next acknowledgement; 0: none
  Instant echo_since_;                // that packet may have arrived then
  std::uint32_t unacknowledged_ = 0;  // packets that arrived since the last acknowledgement left
  Instant due_ = Instant::never();
};

}  // namespace braid::stack
