// The goodput of a sub-connection on a path, in virtual time: tables with expected values; a change by more than
// one per cent fails.
//
// A share of 1 is what the line could carry of UDP payload in full packets, after preamble, gap and the
// headers of Ethernet, IP and UDP; our own headers count against us.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "sub_connection_path.h"

namespace braid::stack {
namespace {

double share(const PathConfig& config, Duration time) {
  Path path(config);
  path.run_for(2_ms);
  const std::uint64_t before = path.delivered();
  path.run_for(time);
  const double bytes_per_s = static_cast<double>(path.delivered() - before) / time.s();
  const double frame = config.mtu_bytes + 38.0;  // Ethernet's header, preamble, FCS and gap
  const double line = static_cast<double>(config.bits_per_second) / 8 * (config.mtu_bytes - 28.0) / frame;
  return bytes_per_s / line;
}

struct Row {
  double loss_percent;
  std::uint32_t mtu_bytes;
  double share;  // as measured when the table was made
  double least;  // what is promised
};

// 10 Gb/s, 20 us there and back.
TEST(SubConnectionGoodput, UnderLoss) {  // SW-4, SW-5, SW-10
  const std::vector<Row> table = {
      {0, 9000, 0.99, 0.97}, {0.01, 9000, 0.99, 0.97}, {0.1, 9000, 0.99, 0.85}, {1, 9000, 0.98, 0.5},
      {5, 9000, 0.94, 0.2},  {0, 1500, 0.94, 0.93},    {0.01, 1500, 0.94, 0.9}, {0.1, 1500, 0.94, 0.85},
      {1, 1500, 0.93, 0.5},  {5, 1500, 0.89, 0.2},
  };
  for (const Row& row : table) {
    PathConfig config;
    config.mtu_bytes = row.mtu_bytes;
    config.loss = row.loss_percent / 100;
    const double got = share(config, 60_ms);
    std::printf("loss %5.2f %%  MTU %4u  goodput %.3f of the line's payload\n", row.loss_percent,
                row.mtu_bytes, got);
    EXPECT_GE(got, row.least) << row.loss_percent << " % loss, MTU " << row.mtu_bytes;
    EXPECT_NEAR(got, row.share, 0.01) << row.loss_percent << " % loss, MTU " << row.mtu_bytes;
  }
}

TEST(SubConnectionGoodput, TheDefaultWindowFillsALongPath) {  // SW-7, SW-9
  for (const std::uint32_t mtu : {1500u, 9000u}) {
    for (const Duration round_trip : {20_us, 100_us, 200_us}) {
      PathConfig config;
      config.mtu_bytes = mtu;
      config.round_trip = round_trip;
      const double got = share(config, 20_ms);
      std::printf("round trip %3.0f us  MTU %4u  goodput %.3f\n", round_trip.us(), mtu, got);
      EXPECT_GE(got, mtu == 1500 ? 0.93 : 0.97);
    }
  }
}

// How much longer some messages take when packets of theirs are lost: in round trips of the bare path.
struct Loss {
  std::size_t from;  // packets
  std::size_t count;
};
double cost_in_round_trips(std::uint64_t seed, std::size_t packets, const Loss& loss) {
  PathConfig config;
  config.waiting = 0;
  Duration took[2];
  for (const bool lose : {false, true}) {
    config.seed = seed;
    Path path(config);
    path.run_for(1_ms);
    for (int i = 0; i < 30; ++i) {  // the path is known
      path.send(64);
      path.run_for(100_us);
    }
    if (lose) path.lose(loss.from, loss.count);
    for (std::size_t i = 0; i < packets; ++i) path.send(1300);
    took[lose] = path.run_until_delivered(packets * 1300, 50_ms);
  }
  return (took[1] - took[0]).us() / config.round_trip.us();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(SubConnectionRecovery, LostPacketCostsARoundTripAndAHalf) {  // SW-4
  std::vector<double> costs;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    // The following packets arrive before the repair, so its full cost is measured.
    const std::size_t after = 1 + prng.below(8);
    const std::size_t before = prng.below(60);
    costs.push_back(cost_in_round_trips(seed, before + 1 + after, {before, 1}));
    EXPECT_LE(costs.back(), 2.0) << "seed " << seed;
  }
  std::printf("a lost packet costs %.2f round trips (median of %zu seeds)\n", median(costs), costs.size());
  EXPECT_LE(median(costs), 1.5);
  EXPECT_NEAR(median(costs), 0.94, 0.05);
}

TEST(SubConnectionRecovery, LostTailCostsThreeRoundTrips) {  // SW-10
  std::vector<double> costs;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng prng(seed);
    const std::size_t packets = 1 + prng.below(60);
    const std::size_t lost = 1 + prng.below(std::min<std::size_t>(packets, 8));
    costs.push_back(cost_in_round_trips(seed, packets, {packets - lost, lost}));
    EXPECT_LE(costs.back(), 5.0) << "seed " << seed;
  }
  std::printf("a lost tail costs %.2f round trips (median of %zu seeds)\n", median(costs), costs.size());
  EXPECT_LE(median(costs), 3.0);
  EXPECT_NEAR(median(costs), 2.97, 0.1);
}

}  // namespace
}  // namespace braid::stack
