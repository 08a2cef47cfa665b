// Round-trip time and what follows from it: the retransmission timeout (RFC 6298; SW-6) and the wait before a
// tail is probed (RFC 8985, 7.2; SW-10), for LANs: nanoseconds, and a floor below a millisecond.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace braid::stack {

class RttEstimator {
 public:
  RttEstimator(Duration min_rto, Duration max_rto) : min_rto_(min_rto), max_rto_(max_rto) { update(); }

  // A round trip was measured: by timestamp echo, so also a packet that was sent twice gives a true sample
  // (RFC 7323).
  void on_sample(Duration rtt) {
    const std::int64_t r = std::max<std::int64_t>(rtt.ns(), 1);
    if (srtt_ns_ == 0) {
      srtt_ns_ = r;
      rttvar_ns_ = r / 2;
    } else {
      const std::int64_t deviation = std::abs(srtt_ns_ - r);
      rttvar_ns_ += (deviation - rttvar_ns_) / 4;
      srtt_ns_ += (r - srtt_ns_) / 8;
    }
    backoff_ = 0;
    update();
  }
  // The timer expired without an answer (RFC 6298, 5.5).
  void on_timeout() {
    backoff_ = std::min(backoff_ + 1, kMaxBackoff);
    update();
  }

  Duration rto() const { return rto_; }
  // 0 before the first sample.
  Duration srtt() const { return Duration::ns(srtt_ns_); }
  // How long to wait for an acknowledgement of the last packet before it is a probe. RFC 8985 waits two round
  // trips; half a one is enough on a path whose round trips do not vary, and one that is wrong costs a
  // packet.
  Duration probe_wait() const { return probe_wait_; }

 private:
  // Before the first sample: long against a LAN, short against a person.
  static constexpr Duration kInitialRto = 20_ms;
  // A proxy's turn may take as long.
  static constexpr Duration kMinProbeWait = 20_us;
  static constexpr int kMaxBackoff = 10;

  void update() {
    const std::int64_t base =
        srtt_ns_ == 0 ? kInitialRto.ns() : std::max(srtt_ns_ + 4 * rttvar_ns_, min_rto_.ns());
    rto_ = std::min(Duration::ns(base << backoff_), max_rto_);
    probe_wait_ = std::max(Duration::ns(srtt_ns_ + std::max(srtt_ns_ / 2, 2 * rttvar_ns_)), kMinProbeWait);
  }

  Duration min_rto_;
  Duration max_rto_;
  std::int64_t srtt_ns_ = 0;
  std::int64_t rttvar_ns_ = 0;
  int backoff_ = 0;
  Duration rto_;
  Duration probe_wait_;
};

}  // namespace braid::stack
