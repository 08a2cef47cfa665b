#include "sim/queue_history.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace braid::sim {
namespace {

constexpr Duration kFirstWidth = Duration::ns(std::int64_t{1} << QueueHistory::kFirstWidthLog2);

TEST(QueueHistory, EmptyHistoryHasNoLength) {
  const QueueHistory h;
  EXPECT_EQ(h.size(), 0u);
  EXPECT_EQ(h.mean(), 0);
  EXPECT_EQ(h.most(), 0u);
}

TEST(QueueHistory, IntervalHasTheTimeWeightedMeanAndTheMaximum) {
  QueueHistory h;
  const Duration quarter = kFirstWidth / 4;
  h.add(quarter, 8);
  h.add(quarter * 3, 4);  // the first interval is full
  h.add(quarter, 0);
  h.add(quarter, 2);  // the second one is half there
  ASSERT_EQ(h.size(), 2u);
  EXPECT_EQ(h[0].begins, Duration());
  EXPECT_EQ(h[0].ends, kFirstWidth);
  EXPECT_EQ(h[0].mean, 5);
  EXPECT_EQ(h[0].most, 8u);
  EXPECT_EQ(h[1].begins, kFirstWidth);
  EXPECT_EQ(h[1].ends, quarter * 6);
  EXPECT_EQ(h[1].mean, 1);
  EXPECT_EQ(h[1].most, 2u);
  EXPECT_EQ(h.mean(), (8 * 1 + 4 * 3 + 0 * 1 + 2 * 1) / 6.0);
  EXPECT_EQ(h.most(), 8u);
}

TEST(QueueHistory, LengthOfNoDurationCountsForTheMaximumOnly) {
  QueueHistory h;
  h.touch(3);  // at the very beginning, of the first interval
  h.add(kFirstWidth, 1);
  h.touch(7);  // between two: of the one that ends
  h.add(kFirstWidth, 2);
  ASSERT_EQ(h.size(), 2u);
  EXPECT_EQ(h[0].most, 7u);
  EXPECT_EQ(h[1].most, 2u);
  EXPECT_EQ(h.mean(), 1.5);
}

TEST(QueueHistory, FullHistoryMergesPairsAndDoublesTheWidth) {
  QueueHistory h;
  for (std::uint32_t i = 0; i < QueueHistory::kIntervals; ++i) h.add(kFirstWidth, i);
  EXPECT_EQ(h.width(), kFirstWidth);
  ASSERT_EQ(h.size(), QueueHistory::kIntervals);
  h.add(Duration::ns(1), 100);
  EXPECT_EQ(h.width(), kFirstWidth * 2);
  ASSERT_EQ(h.size(), QueueHistory::kIntervals / 2 + 1);
  for (std::uint32_t i = 0; i < QueueHistory::kIntervals / 2; ++i) {
    EXPECT_EQ(h[i].mean, 2 * i + 0.5);
    EXPECT_EQ(h[i].most, 2 * i + 1);
  }
  EXPECT_EQ(h[QueueHistory::kIntervals / 2].ends - h[QueueHistory::kIntervals / 2].begins, Duration::ns(1));
  EXPECT_EQ(h[QueueHistory::kIntervals / 2].mean, 100);
}

TEST(QueueHistory, LongTimeDoublesTheWidthSeveralTimes) {
  QueueHistory h;
  h.add(1_s, 5);
  h.add(2_s, 0);
  EXPECT_LE(h.size(), QueueHistory::kIntervals);
  EXPECT_GT(h.size(), QueueHistory::kIntervals / 2);
  EXPECT_EQ(h.covered(), 3_s);
  EXPECT_DOUBLE_EQ(h.mean(), 5.0 / 3);
  EXPECT_EQ(h[0].mean, 5);
  EXPECT_EQ(h[h.size() - 1].mean, 0);
}

// Against every nanosecond written down.
TEST(QueueHistory, AgreesWithTheLengthsAtEveryMoment) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Prng random(seed);
    QueueHistory h;
    std::vector<std::uint32_t> lengths;
    const auto until = 1 + random.below(60'000);
    while (lengths.size() < until) {
      const auto length = static_cast<std::uint32_t>(random.below(10));
      const auto lasted = random.below(500);
      h.add(Duration::ns(static_cast<std::int64_t>(lasted)), length);
      lengths.insert(lengths.end(), lasted, length);
    }
    ASSERT_EQ(h.covered().ns(), static_cast<std::int64_t>(lengths.size())) << "seed " << seed;
    ASSERT_LE(h.size(), QueueHistory::kIntervals);
    double whole = 0;
    Duration reached;
    for (std::size_t i = 0; i < h.size(); ++i) {
      const QueueHistory::Interval interval = h[i];
      ASSERT_EQ(interval.begins, reached) << "seed " << seed << ", interval " << i;
      reached = interval.ends;
      double sum = 0;
      std::uint32_t most = 0;
      for (std::int64_t ns = interval.begins.ns(); ns < interval.ends.ns(); ++ns) {
        sum += lengths[static_cast<std::size_t>(ns)];
        most = std::max(most, lengths[static_cast<std::size_t>(ns)]);
      }
      const auto time = static_cast<double>((interval.ends - interval.begins).ns());
      EXPECT_EQ(interval.mean, sum / time) << "seed " << seed << ", interval " << i;
      EXPECT_EQ(interval.most, most) << "seed " << seed << ", interval " << i;
      whole += interval.mean * time;
    }
    EXPECT_EQ(reached, h.covered());
    EXPECT_NEAR(h.mean(), whole / static_cast<double>(lengths.size()), 1e-9);
  }
}

}  // namespace
}  // namespace braid::sim
