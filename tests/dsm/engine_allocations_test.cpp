// Allocation by single compute nodes: scenarios. Three clusters of two nodes; cluster 0 is the manager.
#include <gtest/gtest.h>

#include <string>

#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

constexpr Homes kBlock{};
constexpr Homes kCyclic{Homes::Kind::kCyclic, ClusterId(0)};
constexpr Homes kOnTwo{Homes::Kind::kCluster, ClusterId(2)};
constexpr Homes kFirstTouch{Homes::Kind::kFirstTouch, ClusterId(0)};

struct AllocationsTest : testing::Test {
  static EngineConfig config() {
    return {.clusters = 3,
            .compute_nodes = 2,
            .pages = 20,
            .locks = 1,
            .barriers = 1,
            .twins = 8,
            .run_pages = 1,
            .pack = false};
  }
  ~AllocationsTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  std::uint64_t allocate(std::uint16_t cluster, std::uint32_t count, Homes homes, std::uint16_t node = 0) {
    if (!m.engine(cluster).allocate(node, count, homes)) m.deliver_all();
    EXPECT_TRUE(m.engine(cluster).done(node));
    m.check();
    return m.engine(cluster).result(node);
  }
  std::vector<unsigned> homes(std::uint16_t cluster, std::uint32_t first, std::uint32_t count) {
    std::vector<unsigned> all;
    for (std::uint32_t p = first; p < first + count; ++p)
      all.push_back(m.engine(cluster).home(PageId(p)).value());
    return all;
  }

  EngineMachine m{config()};
};

TEST_F(AllocationsTest, AnyNodeGetsFreshPagesWithTheRequestedHomes) {  // AL-1, AL-2
  EXPECT_EQ(allocate(1, 6, kBlock), 0u);
  EXPECT_EQ(allocate(2, 4, kCyclic, 1), 6u);
  EXPECT_EQ(allocate(0, 3, kOnTwo), 10u);
  for (std::uint16_t c = 0; c < 3; ++c) {
    EXPECT_EQ(homes(c, 0, 13), (std::vector<unsigned>{0, 0, 1, 1, 2, 2, 0, 1, 2, 0, 2, 2, 2})) << c;
    EXPECT_EQ(m.engine(c).free_pages(), 7u);
  }
  m.write(0, 12 * kPageBytes, 5);
  EXPECT_EQ(allocate(1, 1, kBlock), 13u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(AllocationsTest, PagesCanBePlacedByFirstTouch) {  // AL-2, PG-22
  EXPECT_EQ(allocate(1, 6, kFirstTouch), 0u);
  m.write(2, 1 * kPageBytes, 5);
  m.write(0, 2 * kPageBytes, 6);
  EXPECT_EQ(m.engine(2).home(PageId(1)), ClusterId(2));
  EXPECT_EQ(m.engine(0).home(PageId(2)), ClusterId(0));
  for (std::uint16_t c = 0; c < 3; ++c) {
    for (std::uint16_t n = 0; n < 2; ++n) (void)m.engine(c).barrier(n, BarrierId(0));
  }
  m.deliver_all();
  EXPECT_EQ(m.read(1, 1 * kPageBytes), 5);
  EXPECT_EQ(m.read(1, 2 * kPageBytes), 6);
}

TEST_F(AllocationsTest, AllocationIsCompleteWhenEveryClusterKnowsIt) {  // AL-3
  EXPECT_FALSE(m.engine(1).allocate(0, 5, kOnTwo));
  m.deliver(Kind::kAllocate, 0);
  m.deliver(Kind::kRegion, 1);
  m.deliver(Kind::kRegionKnown, 0);
  EXPECT_EQ(m.count(Kind::kAllocated), 0u);
  m.deliver(Kind::kRegion, 2);
  EXPECT_EQ(m.count(Kind::kAllocated), 0u);
  m.deliver(Kind::kRegionKnown, 0);
  EXPECT_EQ(m.count(Kind::kAllocated), 1u);
  EXPECT_FALSE(m.engine(1).done(0));
  m.deliver(Kind::kAllocated, 1);
  EXPECT_TRUE(m.engine(1).done(0));
}

TEST_F(AllocationsTest, PageMayBeRequestedBeforeItsHomeKnowsTheAllocation) {  // AL-3, PG-20, PG-25
  EXPECT_EQ(allocate(0, 10, kOnTwo), 0u);
  EXPECT_FALSE(m.engine(0).allocate(0, 4, kOnTwo));
  m.deliver(Kind::kRegion, 1);
  // Cluster 1 reads to the end of the first region, and so fetches the beginning of the second one ahead.
  EXPECT_FALSE(m.engine(1).fault(0, PageId(8), Access::kRead));
  m.deliver(Kind::kPageRequest, 2);
  m.deliver(Kind::kPageReply, 1);
  EXPECT_FALSE(m.engine(1).fault(0, PageId(9), Access::kRead));
  for (int i = 0; i < 3; ++i) m.deliver(Kind::kPageRequest, 2);
  EXPECT_EQ(m.count(Kind::kPageReply), 2u) << "of page 9, and of 11, whose home was cluster 2 before";
  m.deliver(Kind::kRegion, 2);
  EXPECT_EQ(m.count(Kind::kPageReply), 3u);
  m.deliver_all();
  EXPECT_TRUE(m.engine(0).done(0));
  EXPECT_EQ(m.engine(0).result(0), 10u);
  m.write(0, 11 * kPageBytes, 5);
  for (std::uint16_t c = 0; c < 3; ++c) {
    for (std::uint16_t n = 0; n < 2; ++n) (void)m.engine(c).barrier(n, BarrierId(0));
  }
  m.deliver_all();
  EXPECT_EQ(m.read(1, 11 * kPageBytes), 5);
}

// Five clusters, a child each: 0 - 1 - 2 - 3 - 4.
TEST(AllocationTree, ClusterConfirmsWhenAllBelowItKnowTheRegion) {  // AL-3
  EngineMachine m({.clusters = 5, .pages = 20, .barrier_fan_out = 1});
  EXPECT_FALSE(m.engine(3).allocate(0, 7, kCyclic));
  m.deliver(Kind::kAllocate, 0);
  for (std::uint16_t c = 1; c < 5; ++c) {
    EXPECT_EQ(m.count(Kind::kRegion), 1u) << "each tells the next one only";
    EXPECT_EQ(m.count(Kind::kRegionKnown), 0u);
    m.deliver(Kind::kRegion, c);
  }
  for (std::uint16_t c = 4; c-- > 0;) {
    EXPECT_FALSE(m.engine(3).done(0));
    EXPECT_EQ(m.count(Kind::kAllocated), 0u);
    m.deliver(Kind::kRegionKnown, c);
  }
  m.deliver(Kind::kAllocated, 3);
  EXPECT_TRUE(m.engine(3).done(0));
  EXPECT_EQ(m.engine(3).result(0), 0u);
  for (std::uint16_t c = 0; c < 5; ++c) EXPECT_EQ(m.engine(c).home(PageId(6)), ClusterId(1));
  EXPECT_TRUE(m.quiet());
}

TEST(AllocationTree, MessagesPastTheTreeAreRefused) {  // AL-4
  EngineMachine m({.clusters = 5, .pages = 20, .barrier_fan_out = 1});
  const auto refuses = [&](std::uint16_t at, std::uint16_t from, Kind kind, std::uint32_t id,
                           std::uint32_t number) {
    std::vector<std::byte> bytes(kHeaderBytes + (kind == Kind::kRegion ? kHomesBytes : 0));
    write_header(bytes, {.kind = kind, .id = id, .number = number});
    const std::uint64_t before = m.engine(at).counts().bad_messages;
    m.engine(at).on_message(ClusterId(from), bytes);
    m.engine(at).check();
    return m.engine(at).counts().bad_messages != before;
  };
  EXPECT_TRUE(refuses(2, 0, Kind::kRegion, 0, 4)) << "from the manager, which is not its parent";
  EXPECT_TRUE(refuses(0, 4, Kind::kRegion, 0, 4)) << "the manager has no parent";
  EXPECT_TRUE(refuses(2, 3, Kind::kRegionKnown, 0, 0)) << "none was announced";
  EXPECT_FALSE(refuses(2, 1, Kind::kRegion, 0, 4));
  EXPECT_TRUE(refuses(2, 3, Kind::kRegionKnown, 0, 0)) << "it has not left";
  EXPECT_TRUE(refuses(2, 1, Kind::kRegion, 4, 4)) << "those below do not know the last one";
  m.transmit_all();
  EXPECT_TRUE(refuses(2, 4, Kind::kRegionKnown, 0, 0)) << "a child's child";
  EXPECT_FALSE(refuses(2, 3, Kind::kRegionKnown, 0, 0));
  EXPECT_TRUE(refuses(2, 3, Kind::kRegionKnown, 0, 0)) << "twice";
  m.transmit_all();
  EXPECT_EQ(m.count_to(Kind::kRegionKnown, 1), 1u);
  EXPECT_FALSE(refuses(2, 1, Kind::kRegion, 4, 4));
}

TEST_F(AllocationsTest, RequestsAreServedInOrder) {  // AL-1
  EXPECT_FALSE(m.engine(2).allocate(1, 2, kBlock));
  m.deliver(Kind::kAllocate, 0);
  EXPECT_FALSE(m.engine(0).allocate(0, 3, kBlock));
  EXPECT_FALSE(m.engine(1).allocate(0, 4, kBlock));
  m.deliver(Kind::kAllocate, 0);
  EXPECT_EQ(m.count(Kind::kRegion), 2u) << "of the first alone";
  m.deliver_all();
  EXPECT_EQ(m.engine(2).result(1), 0u);
  EXPECT_EQ(m.engine(0).result(0), 2u);
  EXPECT_EQ(m.engine(1).result(0), 5u);
}

TEST_F(AllocationsTest, RequestThatDoesNotFitIsRefusedAndALaterOneSucceeds) {  // AL-4
  EXPECT_EQ(allocate(1, 21, kBlock), kNoPages);
  EXPECT_EQ(allocate(0, 21, kBlock), kNoPages);
  EXPECT_EQ(allocate(1, 20, kBlock), 0u);
  EXPECT_EQ(allocate(2, 1, kBlock), kNoPages);
}

TEST_F(AllocationsTest, ClustersThatAllocateTogetherAndSingleNodesShareTheHeap) {  // AL-2
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.engine(c).allocate_together(3, kBlock), PageId(0));
  EXPECT_EQ(allocate(2, 2, kOnTwo), 3u);
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.engine(c).allocate_together(15, kCyclic), PageId(5));
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_FALSE(m.engine(c).allocate_together(1, kCyclic));
}

// Cluster 1 reads page after page of one region, and requests pages of the next one before cluster 2 knows of
// it.
struct AheadOfARegion : AllocationsTest, testing::WithParamInterface<Homes::Kind> {
  Homes next() const { return {GetParam(), ClusterId(2)}; }
  void read_on() {
    for (std::uint32_t page = 0; page < 6; ++page) {
      if (!m.may(1, page * kPageBytes, Access::kRead))
        (void)m.engine(1).fault(0, PageId(page), Access::kRead);
      deliver_all(Kind::kPageRequest, 0);
      deliver_all(Kind::kPageReply, 1);
      EXPECT_TRUE(m.engine(1).done(0));
    }
    EXPECT_GT(m.count_to(Kind::kPageRequest, 2), 0u);
    deliver_all(Kind::kPageRequest, 2);
  }
  void deliver_all(Kind kind, std::uint16_t to) {
    m.transmit_all();
    for (std::size_t n = m.count_to(kind, to); n > 0; --n) m.deliver(kind, to);
  }
  // Every page can be used from everywhere.
  void use(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t page = first; page < first + count; ++page) {
      const auto writer = static_cast<std::uint16_t>(page % 3);
      const auto reader = static_cast<std::uint16_t>((page + 1) % 3);
      EXPECT_EQ(m.read(reader, page * kPageBytes), 0) << page;
      m.write(writer, page * kPageBytes, static_cast<std::uint8_t>(page));
    }
    for (std::uint16_t c = 0; c < 3; ++c) {
      for (std::uint16_t n = 0; n < 2; ++n) (void)m.engine(c).barrier(n, BarrierId(0));
    }
    m.deliver_all();
    for (std::uint32_t page = first; page < first + count; ++page)
      for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.read(c, page * kPageBytes), page) << page;
    m.deliver_all();
    EXPECT_TRUE(m.quiet());
  }
};
std::string name_of(const testing::TestParamInfo<Homes::Kind>& kind) {
  constexpr const char* kNames[] = {"Block", "Cyclic", "Cluster", "FirstTouch"};
  return kNames[static_cast<std::size_t>(kind.param)];
}
INSTANTIATE_TEST_SUITE_P(Homes, AheadOfARegion,
                         testing::Values(Homes::Kind::kBlock, Homes::Kind::kCyclic, Homes::Kind::kCluster,
                                         Homes::Kind::kFirstTouch),
                         name_of);

TEST_P(AheadOfARegion, PagesAreFetchedBeforeTheirHomeKnowsThem) {  // AL-2, PG-20, PG-25
  EXPECT_EQ(allocate(0, 6, {Homes::Kind::kCluster, ClusterId(0)}), 0u);
  EXPECT_FALSE(m.engine(0).allocate(0, 3, next()));
  m.deliver(Kind::kRegion, 1);
  read_on();
  m.deliver_all();
  ASSERT_TRUE(m.engine(0).done(0));
  EXPECT_EQ(m.engine(0).result(0), 6u);
  use(6, 3);
}

TEST_P(AheadOfARegion, PagesAreFetchedBeforeTheirHomeAllocatesThemToo) {  // AL-2, PG-20, PG-25
  EXPECT_EQ(allocate(0, 6, {Homes::Kind::kCluster, ClusterId(0)}), 0u);
  EXPECT_EQ(m.engine(0).allocate_together(3, next()), PageId(6));
  EXPECT_EQ(m.engine(1).allocate_together(3, next()), PageId(6));
  read_on();
  EXPECT_EQ(m.engine(2).allocate_together(3, next()), PageId(6));
  m.deliver_all();
  use(6, 3);
}

TEST_F(AllocationsTest, InvalidRegionsAndRequestsAreRefused) {  // AL-4
  EngineMachine forged(config());
  const auto send = [&](Kind kind, std::uint16_t from, std::uint16_t to, std::uint32_t id,
                        std::uint32_t number, std::uint16_t homes_kind = 0, std::uint16_t cluster = 0) {
    const bool has_homes = kind == Kind::kAllocate || kind == Kind::kRegion;
    std::vector<std::byte> bytes(kHeaderBytes + (has_homes ? kHomesBytes : 0));
    write_header(bytes, {.kind = kind, .id = id, .number = number});
    if (has_homes) {
      store(&bytes[kHeaderBytes], homes_kind);
      store(&bytes[kHeaderBytes + 2], cluster);
    }
    const std::uint64_t before = forged.engine(to).counts().bad_messages;
    forged.engine(to).on_message(ClusterId(from), bytes);
    forged.engine(to).check();
    return forged.engine(to).counts().bad_messages - before;
  };
  EXPECT_EQ(send(Kind::kAllocate, 2, 1, 4, 0), 1u);        // cluster 1 hands out nothing
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 4, 2), 1u);        // a node that is none
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 0, 0), 1u);        // no page
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 4, 0, 9), 1u);     // a kind of homes that is none
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 4, 0, 2, 3), 1u);  // a cluster that is none
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 4, 0), 0u);
  EXPECT_EQ(send(Kind::kAllocate, 2, 0, 4, 0), 1u);     // its first one is not answered
  EXPECT_EQ(send(Kind::kRegionKnown, 1, 0, 0, 0), 1u);  // it has not left
  forged.transmit_all();
  EXPECT_EQ(send(Kind::kRegionKnown, 1, 0, 1, 0), 1u);  // another region
  EXPECT_EQ(send(Kind::kRegionKnown, 1, 0, 0, 0), 0u);
  EXPECT_EQ(send(Kind::kRegionKnown, 1, 0, 0, 0), 1u);  // twice
  EXPECT_EQ(send(Kind::kRegion, 2, 1, 0, 4), 1u);       // from one who hands out nothing
  EXPECT_EQ(send(Kind::kRegion, 0, 1, 1, 4), 1u);       // not the next page
  EXPECT_EQ(send(Kind::kRegion, 0, 1, 0, 21), 1u);      // over the end
  EXPECT_EQ(send(Kind::kRegion, 0, 1, 0, 4), 0u);
  EXPECT_EQ(send(Kind::kRegion, 0, 1, 4, 4), 1u);     // the first one's answer has not left
  EXPECT_EQ(send(Kind::kAllocated, 0, 1, 0, 0), 1u);  // without a request
  EXPECT_FALSE(forged.engine(1).allocate(1, 2, {}));
  EXPECT_EQ(send(Kind::kAllocated, 0, 1, 2, 1), 1u);  // its request has not left
  forged.transmit_all();
  EXPECT_EQ(send(Kind::kAllocated, 0, 1, 3, 1), 1u);             // one of them is in no region
  EXPECT_EQ(send(Kind::kAllocated, 0, 1, kNoPages - 1, 1), 1u);  // outside the heap
  EXPECT_EQ(send(Kind::kAllocated, 0, 1, 2, 1), 0u);
  EXPECT_TRUE(forged.engine(1).done(1));
  EXPECT_EQ(forged.engine(1).result(1), 2u);
}

}  // namespace
}  // namespace braid::dsm
