// The small parts of the page protocol: the page table, the pool of twins, kept requests, recognised scans.
#include <gtest/gtest.h>

#include <vector>

#include "dsm/engine/kept_requests.h"
#include "dsm/engine/page_table.h"
#include "dsm/engine/scan.h"
#include "dsm/engine/twins.h"
#include "tests/dsm/array_memory.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

TEST(PageTable, BeginsHomedCyclicallyAndClosed) {
  ArrayMemory memory(5);
  const PageTable table({.cluster = ClusterId(1), .clusters = 2, .pages = 5}, memory);
  for (std::uint32_t page = 0; page < 5; ++page) {
    EXPECT_EQ(table.home(page), ClusterId(page % 2));
    EXPECT_EQ(table.here(page), page % 2 == 1);
    EXPECT_EQ(table[page].content, page % 2 == 1 ? Content::kClean : Content::kInvalid);
    EXPECT_EQ(memory.access(page), Access::kNone);
  }
  EXPECT_TRUE(table.contains(PageId(4)));
  EXPECT_FALSE(table.contains(PageId(5)));
}

TEST(PageTable, SetAccessProtectsARunWithOneCall) {
  ArrayMemory memory(5);
  PageTable table({.clusters = 2, .pages = 5}, memory);
  int calls = 0;
  memory.on_protect = [&](std::uint32_t first, std::uint32_t count, Access access) {
    ++calls;
    EXPECT_EQ(first, 1u);
    EXPECT_EQ(count, 3u);
    EXPECT_EQ(access, Access::kRead);
  };
  table.set_access(1, 3, Access::kRead);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(table[0].access, Access::kNone);
  EXPECT_EQ(table[1].access, Access::kRead);
  EXPECT_EQ(table[3].access, Access::kRead);
  EXPECT_EQ(table[4].access, Access::kNone);
}

TEST(Twins, TwinIsACopyOfThePage) {
  Twins twins({.twins = 2});
  std::vector<std::byte> page(kPageBytes, std::byte{7});
  const std::uint32_t twin = twins.take(page.data());
  page[5] = std::byte{8};
  EXPECT_EQ(twins.bytes(twin)[5], std::byte{7});
  EXPECT_EQ(twins.bytes(twin)[kPageBytes - 1], std::byte{7});
}

TEST(Twins, PoolIsEmptyWhenAllAreTakenAndRefillsWhenOneComesBack) {  // PG-8
  Twins twins({.twins = 2});
  const std::vector<std::byte> page(kPageBytes);
  const std::uint32_t first = twins.take(page.data());
  EXPECT_FALSE(twins.empty());
  EXPECT_NE(twins.take(page.data()), first);
  EXPECT_TRUE(twins.empty());
  EXPECT_EQ(twins.taken(), 2u);
  twins.give_back(first);
  EXPECT_FALSE(twins.empty());
  EXPECT_EQ(twins.take(page.data()), first);
}

TEST(Twins, NodesWaitInOrderOfArrival) {  // PG-8
  Twins twins({.compute_nodes = 3, .twins = 1});
  for (const int node : {2, 0, 1}) twins.add_waiter(static_cast<std::uint16_t>(node));
  EXPECT_EQ(twins.waiters(), 3u);
  EXPECT_EQ(twins.pop_waiter(), 2u);
  EXPECT_EQ(twins.pop_waiter(), 0u);
  EXPECT_EQ(twins.pop_waiter(), 1u);
  EXPECT_EQ(twins.waiters(), 0u);
}

TEST(KeptRequests, RequestsForAPageAreReleasedInTheirOrder) {  // PG-20
  KeptRequests kept({.clusters = 3, .compute_nodes = 2, .fetch_ahead = 0});
  kept.keep({ClusterId(2), PageId(5), 0});
  kept.keep({ClusterId(1), PageId(6), 0});
  kept.keep({ClusterId(1), PageId(5), 3});
  EXPECT_EQ(kept.unanswered(ClusterId(1)), 2u);
  std::vector<std::uint32_t> hops;
  std::vector<std::uint16_t> from;
  kept.release(PageId(5), [&](const KeptRequest& request) {
    from.push_back(request.from.value());
    hops.push_back(request.hops);
  });
  EXPECT_EQ(from, (std::vector<std::uint16_t>{2, 1}));
  EXPECT_EQ(hops, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(kept.unanswered(ClusterId(1)), 1u);
  EXPECT_EQ(kept.unanswered(ClusterId(2)), 0u);
  EXPECT_FALSE(kept.empty());
  kept.check();
}

TEST(KeptRequests, ForwardedRequestCountsUntilItHasLeft) {  // PG-19
  KeptRequests kept({.clusters = 3});
  kept.forward_queued(ClusterId(1));
  EXPECT_EQ(kept.unanswered(ClusterId(1)), 1u);
  EXPECT_TRUE(kept.empty());
  kept.forward_sent(ClusterId(1));
  EXPECT_EQ(kept.unanswered(ClusterId(1)), 0u);
}

// The pages that a scan requests when the node faults on `page`.
std::vector<std::uint32_t> ask(Scan& scan, std::uint32_t page, std::uint32_t most = 8,
                               std::uint32_t most_of_long = 0) {
  std::vector<std::uint32_t> pages;
  for (std::uint32_t count = scan.missed(page, most, most_of_long); count > 0; --count, scan.advance())
    pages.push_back(static_cast<std::uint32_t>(scan.next()));
  return pages;
}

using Numbers = std::vector<std::uint32_t>;

TEST(Scan, RequestsMorePagesInALongerScan) {  // PG-25
  Scan scan;
  EXPECT_EQ(ask(scan, 10), Numbers({}));
  EXPECT_EQ(ask(scan, 11), Numbers({12, 13}));
  EXPECT_EQ(ask(scan, 14), Numbers({15, 16, 17, 18}));
  EXPECT_EQ(ask(scan, 19), Numbers({20, 21, 22, 23, 24, 25, 26, 27}));
  EXPECT_EQ(ask(scan, 28), Numbers({29, 30, 31, 32, 33, 34, 35, 36}));  // `most`
}

TEST(Scan, RequestsYetMoreWhenItIsLong) {  // PG-25
  Scan scan;
  // How many pages each of the next misses requests; a node that reads in order misses the first that was not requested.
  std::uint32_t page = 0;
  const auto sizes = [&](int misses, std::uint32_t most_of_long) {
    std::vector<std::size_t> all;
    for (; misses != 0; --misses, page = static_cast<std::uint32_t>(scan.next()))
      all.push_back(ask(scan, page, 4, most_of_long).size());
    return all;
  };
  using Sizes = std::vector<std::size_t>;
  EXPECT_EQ(sizes(10, 8), (Sizes{0, 2, 4, 4, 4, 4, 4, 4, 8, 8}));  // the ninth is on page 34
  scan.end();
  EXPECT_EQ(sizes(9, 8), (Sizes{0, 2, 4, 4, 4, 4, 4, 4, 8}));
  page += 100;  // another scan
  EXPECT_EQ(sizes(4, 8), (Sizes{0, 2, 4, 4}));
  EXPECT_EQ(sizes(20, 4), Sizes(20, 4));
  EXPECT_EQ(sizes(20, 0), Sizes(20, 4));
}

TEST(Scan, OfWritesRequestsAQuarterOfThePagesThatItPassed) {  // PG-25
  Scan scan;
  std::vector<std::size_t> sizes;
  std::uint32_t page = 0;
  for (int miss = 0; miss < 12; ++miss) {
    std::uint32_t count = scan.missed(page, 8, 0, Scan::kPartOfWrites);
    sizes.push_back(count);
    for (; count > 0; --count) scan.advance();
    page = static_cast<std::uint32_t>(scan.next());
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7}));
}

TEST(Scans, ReadsAndWritesAreToldApart) {  // PG-25
  Scans scans;
  for (std::uint32_t page = 0; page < 2; ++page) {
    EXPECT_EQ(ask(scans.of(Access::kWrite), 1000 + 3 * page), Numbers({}));
    EXPECT_EQ(ask(scans.of(Access::kRead), page), page == 0 ? Numbers({}) : Numbers({2, 3}));
  }
  EXPECT_EQ(ask(scans.of(Access::kWrite), 1006), Numbers({1009, 1012}));
  scans.end();
  EXPECT_EQ(ask(scans.of(Access::kRead), 4), Numbers({}));
  EXPECT_EQ(ask(scans.of(Access::kWrite), 1015), Numbers({}));
}

TEST(Scan, FindsAnyStrideByThreeMisses) {  // PG-25
  for (const std::int64_t stride : {2, 5, 64, -1, -7}) {
    Scan scan;
    const auto page = [&](std::int64_t i) { return static_cast<std::uint32_t>(1000 + i * stride); };
    EXPECT_EQ(ask(scan, page(0)), Numbers({}));
    EXPECT_EQ(ask(scan, page(1)), Numbers({}));
    EXPECT_EQ(ask(scan, page(2)), Numbers({page(3), page(4)})) << stride;
    EXPECT_EQ(ask(scan, page(5)), Numbers({page(6), page(7), page(8), page(9)})) << stride;
    EXPECT_EQ(ask(scan, page(7)), Numbers({page(10), page(11), page(12), page(13), page(14), page(15)}))
        << stride;
  }
}

TEST(Scan, OtherStrideEndsIt) {  // PG-25
  Scan scan;
  for (const std::uint32_t page : {100u, 105u}) ask(scan, page);
  EXPECT_EQ(ask(scan, 110), Numbers({115, 120}));
  EXPECT_EQ(ask(scan, 127), Numbers({}));  // not every fifth
  EXPECT_EQ(ask(scan, 129), Numbers({}));
  EXPECT_EQ(ask(scan, 131), Numbers({133, 135}));
  EXPECT_EQ(ask(scan, 139), Numbers({}));  // beyond the first that it has not asked for
  EXPECT_EQ(ask(scan, 137), Numbers({}));  // back
}

TEST(Scan, NextColumnHasTheStrideOfTheLast) {  // PG-25
  Scan scan;
  for (const std::uint32_t page : {0u, 4u}) ask(scan, page);
  EXPECT_EQ(ask(scan, 8), Numbers({12, 16}));
  EXPECT_EQ(ask(scan, 1), Numbers({}));
  EXPECT_EQ(ask(scan, 5), Numbers({9, 13}));
  EXPECT_EQ(ask(scan, 2), Numbers({}));
  EXPECT_EQ(ask(scan, 3), Numbers({4, 5}));  // or 1, as ever
  scan.end();
  EXPECT_EQ(ask(scan, 40), Numbers({}));
  EXPECT_EQ(ask(scan, 44), Numbers({}));
}

TEST(Scan, TwoInterleavedStreamsAreNone) {  // PG-25
  Scan scan;
  for (std::uint32_t i = 0; i < 50; ++i) {
    EXPECT_EQ(ask(scan, 1000 + i), Numbers({}));
    EXPECT_EQ(ask(scan, 2000 + 3 * i), Numbers({}));
  }
}

TEST(Scan, RandomReadsRequestNothing) {  // PG-25
  Scan scan;
  for (const std::uint32_t page : {10u, 20u, 5u, 7u, 40u}) EXPECT_EQ(ask(scan, page), Numbers({}));
}

TEST(Scan, RequestsNoPageTwice) {  // PG-25
  Scan scan;
  ask(scan, 10);
  EXPECT_EQ(ask(scan, 11), Numbers({12, 13}));
  EXPECT_EQ(ask(scan, 12), Numbers({14, 15, 16}));  // 13 is asked for already
}

TEST(Scan, EndsWhenTheNodeSynchronises) {  // PG-25
  Scan scan;
  ask(scan, 10);
  scan.end();
  EXPECT_EQ(ask(scan, 11), Numbers({}));
  EXPECT_EQ(ask(scan, 12), Numbers({13, 14}));
}

}  // namespace
}  // namespace braid::dsm
