#include "bench/latencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "bench/round_trips.h"
#include "bench/two_processes.h"
#include "tests/cli/command.h"

namespace braid::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Latencies, PercentilesAreThoseOfTheSortedListWithinAThousandth) {
  Prng prng(1);
  Latencies latencies;
  std::vector<std::int64_t> ns;
  for (int i = 0; i < 100'000; ++i) {
    ns.push_back(static_cast<std::int64_t>(std::exp(static_cast<double>(prng.below(20'000)) / 1000)));
    latencies.record(Duration::ns(ns.back()));
  }
  std::sort(ns.begin(), ns.end());
  for (const double p : {0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 0.99999, 1.0}) {
    const auto right = static_cast<double>(ns[static_cast<std::size_t>(std::ceil(p * 100'000)) - 1]);
    const auto told = static_cast<double>(latencies.percentile(p).ns());
    EXPECT_GE(told, right) << p;
    EXPECT_LE(told, right * 1.001) << p;
  }
  EXPECT_EQ(latencies.max().ns(), ns.back());
  EXPECT_EQ(latencies.count(), 100'000u);
}

TEST(Latencies, SmallOnesAreExactAndLongOnesAreCut) {
  Latencies latencies;
  latencies.record(Duration::ns(2047));
  EXPECT_EQ(latencies.percentile(1), Duration::ns(2047));
  latencies.record(Duration::ns(-5));
  EXPECT_EQ(latencies.percentile(0.5), Duration());
  latencies.record(Latencies::kMax * 2);
  EXPECT_EQ(latencies.percentile(1), Latencies::kMax);
  EXPECT_EQ(Latencies().percentile(0.99), Duration());
}

TEST(Latencies, CorrectionAddsWhatRequestsDuringADelayWouldHaveSeen) {
  Latencies latencies;
  latencies.record(10_us, 95);
  latencies.record(100_us, 5);
  const Latencies corrected = latencies.corrected(10_us);
  // 90, 80, .. 10 us beside each 100.
  EXPECT_EQ(corrected.count(), 95 + 5 * 10u);
  EXPECT_NEAR(latencies.percentile(0.9).us(), 10, 0.01);
  EXPECT_NEAR(corrected.percentile(0.9).us(), 80, 0.1);
  EXPECT_EQ(corrected.max(), 100_us);
  EXPECT_EQ(latencies.corrected(Duration()).count(), 100u) << "no interval, no correction";
}

TEST(Latencies, TwoSetsAreOne) {
  Latencies a, b;
  a.record(1_us, 10);
  b.record(3_us, 30);
  a.add(b);
  EXPECT_EQ(a.count(), 40u);
  EXPECT_EQ(a.percentile(0.25), 1_us);
  EXPECT_NEAR(a.percentile(0.26).us(), 3, 0.003);
  EXPECT_EQ(a.max(), 3_us);
}

// As HdrHistogram prints it.
TEST(Latencies, TextHasFiveLinesForEachHalvingOfWhatIsLeft) {
  Latencies latencies;
  for (int i = 1; i <= 4; ++i) latencies.record(Duration::us(1) * i);
  EXPECT_EQ(latencies.text(),
            "       Value     Percentile TotalCount 1/(1-Percentile)\n"
            "\n"
            "       1.000 0.000000000000          1           1.00\n"
            "       1.000 0.100000000000          1           1.11\n"
            "       1.000 0.200000000000          1           1.25\n"
            "       2.000 0.300000000000          2           1.43\n"
            "       2.000 0.400000000000          2           1.67\n"
            "       2.000 0.500000000000          2           2.00\n"
            "       3.001 0.550000000000          3           2.22\n"
            "       3.001 0.600000000000          3           2.50\n"
            "       3.001 0.650000000000          3           2.86\n"
            "       3.001 0.700000000000          3           3.33\n"
            "       3.001 0.750000000000          3           4.00\n"
            "       4.000 1.000000000000          4            inf\n"
            "#[Mean    =        2.500, StdDeviation   =        1.118]\n"
            "#[Max     =        4.000, Total count    =            4]\n"
            "#[Buckets =           30, SubBuckets     =         2048]\n");
}

TEST(Latencies, FileHasTheText) {
  Latencies latencies;
  latencies.record(7_us);
  const cli::testing::TemporaryFile file;
  ASSERT_TRUE(latencies.write(file.path()).ok());
  EXPECT_EQ(file.text(), latencies.text());
  EXPECT_THAT(latencies.write("/dev/full").error().text,
              StartsWith("/dev/full cannot be written: No space left"));
}

TEST(RoundTrips, EachIsRecordedWhereAsked) {
  int trips = 0;
  const auto trip = [&] {
    ++trips;
    const Instant begin = monotonic_now();
    while (monotonic_now() - begin < 20_us) continue;
  };
  EXPECT_GE(round_trip_us(10, nullptr, trip), 20);
  Latencies each;
  EXPECT_GE(round_trip_us(10, &each, trip), 20);
  EXPECT_EQ(trips, 20);
  EXPECT_EQ(each.count(), 10u);
  EXPECT_GE(each.percentile(0.01), 20_us);
}

TEST(SchedulerGapsTest, ThreadThatSharesItsCoreIsInterrupted) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const pid_t other = spawn(0, [] {
    for (;;) continue;
  });
  const SchedulerGaps gaps;
  const Instant begin = monotonic_now();
  while (gaps.since().times == 0 && monotonic_now() - begin < 10_s) continue;
  EXPECT_GE(gaps.since().times, 1u);
  EXPECT_GE(gaps.since().waited, Duration());
  EXPECT_LT(gaps.since().waited, 10_s);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  ::sched_setaffinity(0, sizeof before, &before);
}

}  // namespace
}  // namespace braid::bench
