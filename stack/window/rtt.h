// Round-trip time and what follows from it: the retransmission timeout (RFC 6298; SW-6) and the wait before a
// tail is probed (RFC 8985, 7.2; SW-10), for LANs: nanoseconds, and a floor below a millisecond.
//
// Mean and variation forget a long round trip within a dozen samples. A peer that shares its core is late once in
// hundreds, so both timers also follow the longest round trip, which is forgotten slowly (SW-12). Where packets
// are lost, waiting costs more than a spurious retransmission: each loss halves it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace braid::stack {

class RttEstimator {
 public:
  RttEstimator(Duration min_rto, Duration max_rto)
      : min_rto_(min_rto), max_rto_(max_rto), rto_floor_ns_(kInitialRto.ns()) {
    update(0);
  }

  // A round trip was measured: by timestamp echo, so also a packet that was sent twice gives a true sample
  // (RFC 7323).
  [[gnu::always_inline]] void on_sample(Duration rtt) {
    const std::int64_t r = std::max<std::int64_t>(rtt.ns(), 1);
    if (srtt_ns_ == 0) {
      srtt_ns_ = r;
      rttvar_ns_ = r / 2;
    } else {
      const std::int64_t deviation = std::abs(srtt_ns_ - r);
      rttvar_ns_ +=
          (deviation - rttvar_ns_) >> 2;  // a quarter and an eighth; shifts cost less than divisions
      srtt_ns_ += (r - srtt_ns_) >> 3;
    }
    if (r > longest_ns_ || --samples_to_decay_ == 0) [[unlikely]]
      follow_longest(r);
    backoff_ = 0;
    update(0);
  }
  // The timer expired without an answer (RFC 6298, 5.5).
  void on_timeout() {
    backoff_ = std::min(backoff_ + 1, kMaxBackoff);
    update(backoff_);
  }

  // A packet was retransmitted that the peer did not have: the next loss is found sooner (SW-12).
  void on_needed_retransmission() {
    longest_ns_ /= 2;
    set_floors();
    update(backoff_);
  }

  Duration rto() const { return rto_; }
  // 0 before the first sample.
  Duration srtt() const { return Duration::ns(srtt_ns_); }
  // How long to wait for an acknowledgement of the last packet before it is a probe: a round trip and a half where
  // round trips do not vary (RFC 8985 waits two), else longer than the longest.
  Duration probe_wait() const { return probe_wait_; }

 private:
  // Before the first sample: long against a LAN, short against a person.
  static constexpr Duration kInitialRto = 20_ms;
  // A proxy's turn may take as long.
  static constexpr Duration kMinProbeWait = 20_us;
  static constexpr int kMaxBackoff = 10;
  // The longest round trip that raises a timer, in shortest timeouts: 8 ms with the default, two slices of a
  // scheduler. A peer that stays away longer was stopped, which is no property of the path.
  static constexpr int kMaxLongest = 16;
  // Samples after which the longest round trip loses an eighth, unless a longer one occurred: on two busy cores a
  // peer was descheduled once in 600.
  static constexpr std::uint32_t kDecaySamples = 512;
  // Samples until the longest says what the next may be.
  static constexpr std::uint32_t kYoungSamples = 8;

  // A sample is the longest, or it is time to forget.
  [[gnu::noinline]] void follow_longest(std::int64_t r) {
    if (r > longest_ns_) {
      longest_ns_ = std::min(r, kMaxLongest * min_rto_.ns());
      if (!young_) samples_to_decay_ = kDecaySamples;
    } else {
      if (!young_) longest_ns_ -= longest_ns_ / 8;
      young_ = false;
      samples_to_decay_ = kDecaySamples;
    }
    set_floors();
  }
  void set_floors() {
    rto_floor_ns_ = std::max(min_rto_.ns(), 2 * longest_ns_);
    probe_floor_ns_ = std::max(kMinProbeWait.ns(), young_ ? 3 * longest_ns_ : longest_ns_ * 11 / 8);
  }
  void update(int backoff) {
    const std::int64_t spread = 4 * rttvar_ns_;
    rto_ = std::min(Duration::ns(std::max(srtt_ns_ + spread, rto_floor_ns_) << backoff), max_rto_);
    probe_wait_ = Duration::ns(std::max(srtt_ns_ + std::max(srtt_ns_ >> 1, spread), probe_floor_ns_));
  }

  Duration min_rto_;
  Duration max_rto_;
  std::int64_t srtt_ns_ = 0;
  std::int64_t rttvar_ns_ = 0;
  std::int64_t longest_ns_ = 0;
  std::uint32_t samples_to_decay_ = kYoungSamples;
  bool young_ = true;
  std::int64_t rto_floor_ns_;
  std::int64_t probe_floor_ns_ = kMinProbeWait.ns();
  int backoff_ = 0;
  Duration rto_;
  Duration probe_wait_;
};

}  // namespace braid::stack
