// How much a sub-connection may have on the network at once, from the delay that its packets meet there
// (after Swift: Kumar et al., SIGCOMM 2020; SW-11).
//
//   on the network   = round trip - what the ends held
//   target           = the path's own round trip + the queueing that is tolerated, more for a small window
//   below the target   the window grows: as fast as packets are acknowledged until it was cut once, then by a
//                      packet per round trip
//   above it           it shrinks by a share of the excess, once per round trip, at most to a half
//
// Delays at the ends are not congestion: the acknowledgement's delay, which the peer reports, and the time in
// which an end was not scheduled, as far as it knows. So the shortest time counts that a packet can have
// spent on the network. A loss is congestion only when the delay says so too: a damaged frame is no reason to
// slow down.
//
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/time.h"

namespace braid::stack {

enum class CongestionControl : std::uint8_t {
  kNone,   // the window alone limits what is in flight
  kDelay,  // this
};

struct CongestionConfig {
  bool enabled = false;
  // Queueing that is no congestion yet: 62 KB at 10 Gb/s, an eighth of a small switch's port.
  Duration allowance = 50_us;
};

class Congestion {
 public:
  Congestion(const CongestionConfig& config, std::uint32_t max_packets)
      : config_(config), max_(std::uint64_t{max_packets} * kOne) {
    CHECK_GT(max_packets, 0u);
    window_ = std::min(max_, kInitialPackets * kOne);
  }

  bool enabled() const { return config_.enabled; }
  // Packets that may be on the network; at least 1.
  std::uint32_t window_packets() const {
    return static_cast<std::uint32_t>((config_.enabled ? window_ : max_) / kOne);
  }
  // Whether a packet may leave now, beside `outstanding` others.
  bool may_send(Instant now, std::uint32_t outstanding) const {
    return !config_.enabled || (outstanding < window_ / kOne && departure_ <= now);
  }
  // When the next one may leave, as far as pacing goes.
  Instant departure() const { return departure_; }
  void sent(Instant now) {
    if (!config_.enabled || interval_ == Duration()) return;
    departure_ = std::max(departure_, now - interval_ * (kBurst - 1)) + interval_;
  }

  // `packets` were acknowledged.
  // `round_trip` is as measured; `on_network` the least of it that was not spent in the ends.
  void on_ack(Instant now, Duration round_trip, Duration on_network, std::uint32_t packets) {
    if (!config_.enabled) return;
    learn_path(now, round_trip);
    const std::int64_t target = target_ns();
    above_ = on_network.ns() > target;
    round_trip_ = round_trip;
    paced_ns_ = std::max(on_network.ns(), least_ns_);
    if (!above_) window_ = std::max(window_, before_timeout_);
    before_timeout_ = 0;
    if (above_) {
      // Four fifths of the excess' share.
      const auto excess = static_cast<std::uint64_t>(on_network.ns() - target);
      cut(now, window_ * 4 * excess / (5 * static_cast<std::uint64_t>(on_network.ns())));
    } else {
      // Also a window that is not used up: it carries a sender over the time in which the peer does not run.
      const std::uint64_t more = packets * kOne;
      window_ = std::min(window_ + (growing_ ? more : more * kOne / window_), max_);
    }
    pace(now);
  }
  // Packets were found lost by what arrived after them.
  void on_loss(Instant now) {
    if (config_.enabled && above_) cut(now, window_ / 2);
    pace(now);
  }
  // No acknowledgement arrived before the timeout.
  void on_timeout(Instant now) {
    if (!config_.enabled) return;
    // If the next acknowledgement is fast the peer only did not run, or a frame was damaged.
    before_timeout_ = std::max(before_timeout_, window_);
    cut(now, window_ / 2);
    pace(now);
  }

  void check() const {
    CHECK_GE(window_, kOne);
    CHECK_LE(window_, max_);
  }

 private:
  static constexpr std::uint64_t kOne = 1024;  // a packet
  static constexpr std::uint64_t kInitialPackets = 32;
  // Packets that may leave back to back: a proxy's turn is no finer.
  static constexpr std::int64_t kBurst = 16;
  // A path may get longer: its own round trip is the least of this and the last such time.
  static constexpr Duration kMemory = 10_s;

  void learn_path(Instant now, Duration round_trip) {
    if (now - memory_since_ >= kMemory) {
      before_ns_ = least_ns_;
      least_ns_ = round_trip.ns();
      memory_since_ = now;
    }
    least_ns_ = std::min(least_ns_, round_trip.ns());
  }
  std::int64_t target_ns() const {
    const std::int64_t allowance = config_.allowance.ns();
    // Many who share a link have small windows each, and need a longer queue to keep it busy.
    return std::min(least_ns_, before_ns_) + allowance +
           allowance * 4 * static_cast<std::int64_t>(kOne) / static_cast<std::int64_t>(window_);
  }
  void cut(Instant now, std::uint64_t by) {
    if (now - last_cut_ < round_trip_) return;
    last_cut_ = now;
    growing_ = false;
    window_ = std::max(window_ - std::min(by, window_ / 2), kOne);
    check();
  }
  void pace(Instant now) {
    // A quarter faster than the window in a round trip, so that pacing alone holds nothing back.
    interval_ = Duration::ns(paced_ns_ * 4 / 5 * static_cast<std::int64_t>(kOne) /
                             static_cast<std::int64_t>(window_));
    // The last packet left when the interval may have been far longer: a frame that lay in the queue of a stalled
    // proxy makes a round trip of seconds.
    departure_ = std::min(departure_, now + interval_ * kBurst);
  }

  CongestionConfig config_;
  std::uint64_t max_;
  std::uint64_t window_;              // in 1/kOne packets
  std::uint64_t before_timeout_ = 0;  // what the window was; 0: no timeout since the last sample
  bool growing_ = true;
  bool above_ = false;
  Duration round_trip_;
  std::int64_t paced_ns_ = 0;  // the round trip, as the network has it
  Instant last_cut_;
  Duration interval_;
  Instant departure_;
  Instant memory_since_;
  std::int64_t least_ns_ = Instant::never().ns() / 2;
  std::int64_t before_ns_ = Instant::never().ns() / 2;
};

}  // namespace braid::stack
