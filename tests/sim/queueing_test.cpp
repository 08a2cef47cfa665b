// A simulated proxy is a server with one queue, and queueing theory has its figures: a sender whose messages come at random times is
// an M/G/1 system, whose mean wait is Pollaczek and Khinchine's; and Little's law holds for any.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/poisson_sender.h"
#include "tests/sim/round_costs.h"

namespace braid::sim {
namespace {

// Only what the sender does for its messages takes time: acknowledgements and credits come back, and wait in its queue, but
// are no load. A hundred bytes more are 300 cycles.
settings::CostModel costs_of_sending() {
  settings::CostModel costs = round_costs(100e6);
  costs.ni_byte = 3;
  for (double* const free :
       {&costs.checksum_byte, &costs.ack_send, &costs.ni_receive, &costs.ip_receive, &costs.udp_receive,
        &costs.window_receive, &costs.ack_receive, &costs.deliver, &costs.deliver_byte, &costs.timer})
    *free = 0;
  return costs;
}

class Queueing : public testing::TestWithParam<double> {};

TEST_P(Queueing, WaitsAreThoseOfPollaczekAndKhinchine) {
  const double utilisation = GetParam();
  PoissonSender sender(costs_of_sending());
  // A message takes 600 + 150 + 150 + 100 cycles, and three for each byte of the frame: 544 and its headers in the mean.
  const double mean_service_s = (1000 + 3 * (544 + 110)) / 100e6;
  // The busier, the longer one wait is remembered by the next.
  const auto messages = static_cast<unsigned>(20'000 / std::pow(1 - utilisation, 2));
  ASSERT_NO_FATAL_FAILURE(
      sender.run(messages, Duration::ns(std::llround(mean_service_s / utilisation * 1e9))));
  const double rate = sender.messages / sender.measured.s();
  const double busy = rate * sender.service_s / sender.messages;
  EXPECT_NEAR(busy, utilisation, 0.02 * utilisation);
  EXPECT_NEAR(sender.figures().busy.s() / sender.measured.s(), busy, 0.01 * busy)
      << "few acknowledgements leave alone";
  const double expected_wait_s = rate * sender.service_squared / sender.messages / (2 * (1 - busy));
  const double wait_s = sender.waited_s / sender.messages;
  EXPECT_NEAR(wait_s, expected_wait_s, 0.02 * expected_wait_s);
  // Little's law: the mean number of messages at the proxy is their rate times what each spends there.
  const double here = sender.figures().stay.s() / sender.measured.s();
  const double little = rate * (wait_s + sender.service_s / sender.messages);
  EXPECT_NEAR(here, little, 0.001 * little);
  // What comes back waits, too, one for each 15 messages: the queue of the proxy is longer than that of its messages.
  EXPECT_GT(sender.figures().queue.mean(), 1.01 * here);
  EXPECT_LT(sender.figures().queue.mean(), 1.10 * here);
}

INSTANTIATE_TEST_SUITE_P(Utilisations, Queueing, testing::Values(0.2, 0.4, 0.6, 0.8), [](const auto& at) {
  return std::to_string(std::lround(at.param * 100)) + "percent";
});

}  // namespace
}  // namespace braid::sim
