// Which dirty pages are flushed, in which order, and when the release that covers them is complete.
#include "dsm/engine/flushes.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::dsm {
namespace {

using Side = Flushes::Side;
using Flight = Flushes::Flight;

constexpr ReleaseFor kLock{.what = ReleaseFor::What::kLock, .id = 7};
constexpr ReleaseFor kBarrier{.what = ReleaseFor::What::kBarrier, .id = 3};

struct FlushesTest : testing::Test {
  void TearDown() override { flushes.check(); }

  void write(std::vector<std::uint32_t> pages, Side side = Side::kCopy) {
    for (const std::uint32_t page : pages) flushes.add(page, side);
  }
  // Begins all flushes that are possible; returns their pages, in order.
  std::vector<std::uint32_t> start_all() {
    std::vector<std::uint32_t> pages;
    for (std::uint32_t page = flushes.next(); page != kNoPages; page = flushes.next(page + 1)) {
      flushes.begin(page);
      flushes.sent(page);
      pages.push_back(page);
    }
    flushes.check();
    return pages;
  }

  Flushes flushes{EngineConfig{.pages = 16, .flush_window = 3}};
};

using Numbers = std::vector<std::uint32_t>;

TEST_F(FlushesTest, NothingIsFlushedBeforeARelease) {  // PG-17
  write({4, 2});
  EXPECT_EQ(flushes.next(), kNoPages);
  EXPECT_FALSE(flushes.pop_complete());
  flushes.seal(kLock);
  EXPECT_EQ(start_all(), Numbers({4, 2}));
}

TEST_F(FlushesTest, ReleaseIsCompleteWhenAllItsFlushesHaveEnded) {  // PG-17
  write({1});
  write({2}, Side::kMaster);
  flushes.seal(kLock);
  EXPECT_EQ(start_all(), Numbers({1, 2}));
  flushes.end(1);
  EXPECT_FALSE(flushes.pop_complete());
  flushes.end(2);
  EXPECT_EQ(flushes.pop_complete()->id, kLock.id);
  EXPECT_FALSE(flushes.pop_complete());
  EXPECT_TRUE(flushes.quiet());
}

TEST_F(FlushesTest, ReleaseWithNothingWrittenIsCompleteAtOnce) {
  flushes.seal(kBarrier);
  EXPECT_EQ(flushes.pop_complete()->what, ReleaseFor::What::kBarrier);
}

TEST_F(FlushesTest, ReleaseWaitsForFlushesOfTheReleaseBefore) {  // PG-17
  write({1});
  flushes.seal(kLock);
  start_all();
  flushes.seal(kBarrier);
  EXPECT_FALSE(flushes.pop_complete());
  flushes.end(1);
  EXPECT_EQ(flushes.pop_complete()->what, ReleaseFor::What::kLock);
  EXPECT_EQ(flushes.pop_complete()->what, ReleaseFor::What::kBarrier);
}

TEST_F(FlushesTest, ReleaseDoesNotCoverWhatIsWrittenAfterIt) {
  write({1});
  flushes.seal(kLock);
  write({2});
  EXPECT_FALSE(flushes.added_since_release(1));
  EXPECT_TRUE(flushes.added_since_release(2));
  EXPECT_EQ(start_all(), Numbers({1}));
  flushes.end(1);
  EXPECT_TRUE(flushes.pop_complete());
}

TEST_F(FlushesTest, PagesSinceTheReleaseAreVisitedNewestFirstAndMayBeDropped) {
  write({1});
  flushes.seal(kLock);
  write({2, 3});
  write({4}, Side::kMaster);
  Numbers seen;
  flushes.for_each_since_release([&](std::uint32_t page) {
    seen.push_back(page);
    if (page == 3) flushes.drop(page);
  });
  EXPECT_EQ(seen, Numbers({3, 2, 4}));
  flushes.seal(kBarrier);
  EXPECT_EQ(start_all(), Numbers({1, 2, 4}));
}

TEST_F(FlushesTest, WindowBoundsTheFlushesInProgress) {  // PG-18
  write({1, 3, 5, 7});
  flushes.seal(kLock);
  EXPECT_EQ(start_all(), Numbers({1, 3, 5}));
  flushes.end(3);
  EXPECT_EQ(start_all(), Numbers({7}));
}

TEST_F(FlushesTest, NeighboursAreFlushedSideBySide) {  // PG-21
  write({5, 9, 6});
  flushes.seal(kLock);
  EXPECT_EQ(start_all(), Numbers({5, 6, 9}));
}

TEST_F(FlushesTest, SecondFlushWaitsForTheEndOfTheFirst) {  // PG-3
  write({1});
  flushes.seal(kLock);
  start_all();
  write({1});
  flushes.seal(kBarrier);
  EXPECT_EQ(start_all(), Numbers({}));
  EXPECT_EQ(flushes.flight(1), Flight::kSent);
  flushes.end(1);
  EXPECT_TRUE(flushes.pop_complete());
  EXPECT_FALSE(flushes.pop_complete());  // the second release waits for the second flush
  EXPECT_EQ(start_all(), Numbers({1}));
  flushes.end(1);
  EXPECT_EQ(flushes.pop_complete()->what, ReleaseFor::What::kBarrier);
}

TEST_F(FlushesTest, HastenedPageIsFlushedWithoutARelease) {  // PG-8, PG-14
  write({1, 2});
  EXPECT_EQ(flushes.oldest_copy(), 1u);
  flushes.hasten(2);
  EXPECT_TRUE(flushes.hastened(2));
  EXPECT_EQ(flushes.copies_soon_flushed(), 1u);
  EXPECT_EQ(start_all(), Numbers({2}));
  EXPECT_EQ(flushes.copies_soon_flushed(), 1u);
  flushes.end(2);
  EXPECT_EQ(flushes.copies_soon_flushed(), 0u);
  EXPECT_EQ(flushes.oldest_copy(), 1u);
}

TEST_F(FlushesTest, HastenedPageIsCoveredByTheNextRelease) {  // PG-14
  write({1});
  flushes.hasten(1);
  start_all();
  flushes.seal(kLock);
  EXPECT_FALSE(flushes.pop_complete());
  flushes.end(1);
  EXPECT_TRUE(flushes.pop_complete());
}

TEST_F(FlushesTest, HastenedPageWithAFlushInFlightFollowsIt) {  // PG-3
  write({1});
  flushes.hasten(1);
  start_all();
  write({1});
  flushes.hasten(1);
  flushes.hasten(1);  // once is enough
  EXPECT_EQ(start_all(), Numbers({}));
  flushes.end(1);
  EXPECT_EQ(start_all(), Numbers({1}));
}

TEST_F(FlushesTest, PageWithNothingNewCompletesItsRelease) {  // PG-7
  write({1});
  flushes.seal(kLock);
  EXPECT_EQ(flushes.next(), 1u);
  flushes.nothing_new(1);
  EXPECT_TRUE(flushes.pop_complete());
}

TEST_F(FlushesTest, QueuedFlushTakesLaterWritesAlong) {  // PG-6
  write({1});
  flushes.seal(kLock);
  EXPECT_EQ(flushes.next(), 1u);
  flushes.begin(1);
  EXPECT_EQ(flushes.flight(1), Flight::kQueued);
  flushes.check_page(1, Side::kCopy, true);  // still dirty: no new add()
  flushes.sent(1);
  flushes.check_page(1, Side::kCopy, false);
  flushes.end(1);
  EXPECT_TRUE(flushes.pop_complete());
}

}  // namespace
}  // namespace braid::dsm
