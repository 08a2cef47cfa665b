// A sender whose messages come at random times, on two clusters with one proxy each: the traffic by which tests compare a simulated
// proxy with other accounts of a server with one queue.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "sim/iccs.h"

namespace braid::sim {

// Cluster 0 sends messages to cluster 1: after independent, exponential gaps, each as likely long as short.
class PoissonSender final : public Iccs::Sink {
 public:
  explicit PoissonSender(const settings::CostModel& costs, IccsConfig config = usual_config())
      : events_(2), iccs_(config, costs, events_, *this) {
    EXPECT_TRUE(iccs_.establish().ok());
  }

  void run(unsigned count, Duration mean_gap) {
    const auto uniform = [&] { return static_cast<double>(random_() >> 11) * 0x1p-53; };
    iccs_.start_measuring();
    began = events_.now();
    double at_ns = 0;
    const std::vector<std::byte> bytes(kLongBytes);
    for (unsigned i = 0; i < count; ++i) {
      at_ns -= std::log1p(-uniform()) * static_cast<double>(mean_gap.ns());
      const Instant at = began + Duration::ns(std::llround(at_ns));
      while (events_.next_time() < at) iccs_.on_event(events_.pop());
      const bool sent = iccs_.send(at, ClusterId(0), 0, ClusterId(1),
                                   ByteView(bytes).first(uniform() < 0.5 ? kShortBytes : kLongBytes));
      ASSERT_TRUE(sent) << "the windows are too small for this load";
    }
    while (iccs_.in_flight() > 0) iccs_.on_event(events_.pop());
    iccs_.stop_measuring(events_.now());
    measured = events_.now() - began;
  }
  const ProxyFigures& figures() const { return iccs_.figures(ClusterId(0), 0); }

  Handled on_message(Instant now, ClusterId, ClusterId, ByteView) override { return {now, 0}; }
  void on_room(Instant, ClusterId) override {}
  void on_lost(Instant, ClusterId, ClusterId, const char* why) override { ADD_FAILURE() << why; }
  void on_delivered(const MessageReport& report) override {
    if (keeps_reports) reports.push_back(report);
    const double served = (report.times.left - report.times.served).s();
    ++messages;
    service_s += served;
    service_squared += served * served;
    waited_s += (report.times.served - report.times.handed).s();
  }

  double messages = 0;
  double service_s = 0, service_squared = 0, waited_s = 0;  // sums
  Instant began;
  Duration measured{};
  bool keeps_reports = false;
  std::vector<MessageReport> reports;  // in the order of delivery

  static IccsConfig usual_config() {
    IccsConfig c;
    c.transport.train_messages = 1;
    c.transport.congestion = stack::CongestionControl::kNone;
    c.transport.ack_delay_us = 15'000;  // acknowledgements ride on messages
    c.transport.min_rto_us = 20'000;
    return c;
  }

 private:
  static constexpr std::size_t kShortBytes = 64, kLongBytes = 1024;
  std::mt19937_64 random_{20};
  Events events_;
  Iccs iccs_;
};

}  // namespace braid::sim
