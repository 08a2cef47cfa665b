// The page protocol: a scenario for each rule, with the order of messages in which the rule matters.
//
// Three clusters of two nodes; every page has its home at cluster 0. Lock l is managed by cluster l % 3.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

EngineConfig three_clusters() {
  return {.clusters = 3,
          .compute_nodes = 2,
          .pages = 8,
          .locks = 6,
          .barriers = 3,
          .flush_window = 4,
          .twins = 8,
          .migrate_after = 0,
          .fetch_ahead = 0,
          .run_pages = 1,
          .pack = false};
}

constexpr std::size_t kX = 8, kY = 9, kZ = 10;  // bytes of one word of page 0
constexpr PageId kPage{0};

struct PagesTest : testing::Test {
  explicit PagesTest(EngineConfig config = three_clusters()) : m(config) { m.set_home(0, config.pages, 0); }
  ~PagesTest() override { EXPECT_EQ(m.bad_messages(), 0u); }

  Access access(std::uint16_t cluster, std::uint32_t page = 0) { return m.memory(cluster).access(page); }
  const ClusterCounts& counts(std::uint16_t cluster) { return m.engine(cluster).counts(); }
  // `cluster` takes and frees the lock, so that the next request for it makes this cluster release.
  void has_token(std::uint16_t cluster, std::uint32_t lock) {
    m.lock(cluster, lock);
    m.unlock(cluster, lock);
  }
  // Cluster `cluster` requests the token; the caller delivers the messages.
  void asks(std::uint16_t cluster, std::uint32_t lock, std::uint16_t node = 0) {
    EXPECT_FALSE(m.engine(cluster).lock(node, LockId(lock)));
    m.transmit_all();
  }
  // `holder`, with the token of `lock`, makes a complete release because `taker` takes the lock.
  void pass(std::uint16_t holder, std::uint16_t taker, std::uint32_t lock) {
    has_token(holder, lock);
    m.lock(taker, lock);
    m.unlock(taker, lock);
  }

  EngineMachine m;
};

TEST_F(PagesTest, ReadMissFetchesThePageFromItsHome) {  // PG-12
  m.write(0, kX, 42);
  EXPECT_EQ(m.read(1, kX), 42);
  EXPECT_EQ(access(1), Access::kRead);
  EXPECT_EQ(access(0), Access::kRead);  // the home will notice its next write
  EXPECT_EQ(counts(0).pages_sent, 1u);
  EXPECT_EQ(m.engine(1).node_counts(0).fetches, 1u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(PagesTest, PageIsFilledBeforeItOpens) {  // PG-4
  m.write(0, kX, 42);
  std::vector<int> seen;
  m.memory(1).on_protect = [&](std::uint32_t, std::uint32_t, Access a) {
    if (a == Access::kRead) seen.push_back(std::to_integer<int>(m.memory(1).at(kX)));
  };
  m.read(1, kX);
  EXPECT_EQ(seen, std::vector<int>{42});
}

TEST_F(PagesTest, TwinIsTakenBeforeASiblingCanWrite) {  // PG-4
  m.memory(1).on_protect = [&](std::uint32_t, std::uint32_t, Access a) {
    if (a == Access::kWrite) m.memory(1).at(kY) = std::byte{9};  // the sibling is as fast as can be
  };
  m.write(1, kX, 8);
  pass(1, 2, 0);
  EXPECT_EQ(m.read(2, kX), 8);
  EXPECT_EQ(m.read(2, kY), 9);
}

TEST_F(PagesTest, WriteFaultFetchesAndOpensAtOnce) {
  m.write(1, kX, 8);
  EXPECT_EQ(m.engine(1).node_counts(0).write_faults, 1u);
  EXPECT_EQ(access(1), Access::kWrite);
}

TEST_F(PagesTest, FaultsOnAPageBeingFetchedShareTheFetch) {  // PG-5
  EXPECT_FALSE(m.engine(1).fault(0, kPage, Access::kRead));
  EXPECT_FALSE(m.engine(1).fault(1, kPage, Access::kWrite));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_TRUE(m.engine(1).done(1));
  EXPECT_EQ(access(1), Access::kWrite);
  EXPECT_EQ(counts(0).pages_sent, 1u);
  EXPECT_TRUE(m.engine(1).fault(0, kPage, Access::kRead));  // a sibling was faster
}

TEST_F(PagesTest, WritesUnderALockAreVisibleUnderIt) {  // PG-17, LK-3
  EXPECT_EQ(m.read(2, kX), 0);
  m.lock(1, 0);
  m.write(1, kX, 7);
  m.unlock(1, 0);
  EXPECT_EQ(counts(1).diffs_sent, 0u);  // no cluster has requested the lock yet
  m.lock(2, 0);
  EXPECT_EQ(counts(1).diffs_sent, 1u);
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.read(2, kX), 7);
}

TEST_F(PagesTest, WritersOfNeighbouringBytesDoNotDisturbEachOther) {
  m.write(1, kX, 1);
  m.write(2, kY, 2);
  m.write(0, kZ, 3);
  pass(1, 2, 0);
  pass(2, 0, 1);
  pass(0, 1, 2);
  for (std::uint16_t c = 0; c < 3; ++c) {
    EXPECT_EQ(m.read(c, kX), 1);
    EXPECT_EQ(m.read(c, kY), 2);
    EXPECT_EQ(m.read(c, kZ), 3);
  }
}

TEST_F(PagesTest, ReplyOlderThanAnInvalidationIsRequestedAgain) {  // PG-15
  has_token(0, 0);
  EXPECT_FALSE(m.engine(1).fault(0, kPage, Access::kRead));
  m.deliver(Kind::kPageRequest, 0);  // the reply leaves, and is slow
  m.write(0, kX, 7);
  asks(2, 0);
  m.deliver(Kind::kLockRequest, 0);  // the home releases: cluster 1 may have a copy
  m.deliver(Kind::kInvalidate, 1);   // overtakes the reply
  m.deliver(Kind::kInvalidateAck, 0);
  m.deliver(Kind::kLockGrant, 2);  // what was written is visible everywhere
  m.deliver(Kind::kPageReply, 1);
  EXPECT_FALSE(m.engine(1).done(0));
  EXPECT_EQ(access(1), Access::kNone);
  EXPECT_EQ(counts(1).stale_replies, 1u);
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(m.peek(1, kX), 7);
}

TEST_F(PagesTest, InvalidatedDirtyPageSendsItsDiffAtOnce) {  // PG-14
  m.write(1, kX, 1);
  m.write(2, kY, 2);
  has_token(2, 2);
  asks(0, 2);
  m.transmit_all();
  m.deliver(Kind::kLockRequest, 2);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kInvalidate, 1);
  EXPECT_EQ(access(1), Access::kNone);
  EXPECT_EQ(m.count(Kind::kInvalidateAck), 1u);
  EXPECT_EQ(m.count(Kind::kDiff), 1u);
  m.deliver_all();
  EXPECT_EQ(m.peek(0, kX), 1);
  EXPECT_EQ(m.peek(0, kY), 2);
}

TEST_F(PagesTest, LateInvalidationIsAcknowledged) {  // PG-14
  // Cluster 1 never had the page; an engine that has already dropped its copy is in the same situation.
  std::vector<std::byte> bytes(kHeaderBytes);
  write_header(bytes, {.kind = Kind::kInvalidate, .id = 0, .number = 5});
  m.engine(1).on_message(ClusterId(0), bytes);
  m.transmit(1, 0);
  ASSERT_EQ(m.wire.size(), 1u);
  EXPECT_EQ(m.wire[0].kind(), Kind::kInvalidateAck);
  EXPECT_EQ(m.wire[0].number(), 5u);
}

// The state in which cluster 1's changes of page 0 are in flight and its copy is invalid.
struct FlushInProgress : PagesTest {
  void SetUp() override {
    m.write(1, kX, 1);
    has_token(0, 0);
    m.write(0, kY, 2);
    asks(2, 0);
    m.deliver(Kind::kLockRequest, 0);
    m.deliver(Kind::kInvalidate, 1);
    ASSERT_EQ(m.count(Kind::kDiff), 1u);
    ASSERT_EQ(access(1), Access::kNone);
  }
};

TEST_F(FlushInProgress, PageIsNotRequestedWhileTheOwnFlushIsUnacknowledged) {  // PG-1, PG-2
  EXPECT_FALSE(m.engine(1).fault(0, kPage, Access::kRead));
  m.transmit_all();
  EXPECT_EQ(m.count(Kind::kPageRequest),
            0u);  // it could overtake the diff, and the page would lack our own write
  m.deliver(Kind::kInvalidateAck, 0);
  m.deliver(Kind::kDiff, 0);
  EXPECT_EQ(m.count(Kind::kPageRequest), 0u);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kPageRequest), 1u);
  m.deliver_all();
  EXPECT_EQ(m.peek(1, kX), 1);
  EXPECT_EQ(m.peek(1, kY), 2);
}

TEST_F(FlushInProgress, ReleaseWaitsForAnEarlierFlush) {  // PG-17
  ASSERT_TRUE(m.engine(1).lock(0, LockId(1)));            // its manager: at once
  m.engine(1).unlock(0, LockId(1));
  asks(0, 1, 1);
  m.deliver(Kind::kLockRequest, 1);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);  // nothing is dirty, but the diff is not acknowledged
  m.deliver(Kind::kInvalidateAck, 0);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_GE(m.count(Kind::kLockGrant), 1u);
}

TEST_F(FlushInProgress, DiffThatArrivesInARoundWaitsForTheNextRound) {  // PG-9, PG-11
  EXPECT_FALSE(m.engine(2).fault(1, kPage, Access::kRead));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageReply, 2);  // a copy without what the diff brings
  m.deliver(Kind::kDiff, 0);       // before the acknowledgement of the round that is running
  EXPECT_EQ(m.peek(0, kX), 1);
  EXPECT_EQ(m.count(Kind::kDiffDone), 0u);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
  EXPECT_EQ(m.count(Kind::kDiffDone), 0u);
  m.deliver(Kind::kInvalidate, 2);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kDiffDone), 1u);
  EXPECT_EQ(access(2), Access::kNone);
}

TEST_F(FlushInProgress, RequestIsAnsweredDuringARound) {  // PG-12
  EXPECT_FALSE(m.engine(2).fault(1, kPage, Access::kRead));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageReply, 2);
  EXPECT_TRUE(m.engine(2).done(1));
  EXPECT_EQ(m.peek(2, kY), 2);
}

TEST_F(PagesTest, SecondFlushOfAPageWaitsForTheFirst) {  // PG-3
  has_token(1, 1);
  has_token(1, 4);
  m.write(1, kX, 1);
  asks(0, 1);
  m.deliver(Kind::kLockRequest, 1);
  ASSERT_EQ(m.count(Kind::kDiff), 1u);
  m.write(1, kX, 2);  // faults: the page was closed
  EXPECT_EQ(m.engine(1).node_counts(0).write_faults, 2u);
  asks(2, 4);
  m.deliver(Kind::kLockRequest, 1);
  EXPECT_EQ(m.count(Kind::kDiff), 1u);  // a second one could be applied first
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kDiff), 1u);
  m.deliver_all();
  EXPECT_EQ(m.peek(0, kX), 2);
}

TEST_F(PagesTest, WriteBeforeAQueuedDiffLeavesIsIncluded) {  // PG-6
  has_token(1, 1);
  m.write(1, kX, 1);
  EXPECT_FALSE(m.engine(0).lock(0, LockId(1)));
  ASSERT_TRUE(m.transmit(0, 1));
  m.deliver(std::size_t{0});  // the release begins; the driver has no room yet
  EXPECT_EQ(access(1), Access::kRead);
  EXPECT_TRUE(m.engine(1).fault(1, kPage, Access::kWrite));  // opened again, without a new twin
  m.poke(1, kY, 2);
  m.transmit_all();
  EXPECT_EQ(access(1), Access::kRead);  // closed before the diff was taken
  m.deliver_all();
  EXPECT_EQ(counts(1).diffs_sent, 1u);
  EXPECT_EQ(m.peek(0, kX), 1);
  EXPECT_EQ(m.peek(0, kY), 2);
}

TEST_F(PagesTest, PageThatEqualsItsTwinIsNotSent) {  // PG-7
  m.write(1, kX, 1);
  m.write(1, kX, 0);
  pass(1, 2, 0);
  EXPECT_EQ(counts(1).diffs_sent, 0u);
  EXPECT_EQ(access(1), Access::kRead);
  EXPECT_TRUE(m.quiet());
}

TEST_F(PagesTest, SoleInitiatorKeepsItsCopyAndOthersLoseTheirs) {  // PG-10, PG-16
  m.read(2, kX);
  m.write(1, kX, 1);
  pass(1, 0, 0);
  EXPECT_EQ(access(1), Access::kRead);
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(counts(0).invalidations_sent, 1u);
  m.write(2, kY, 2);  // and the copy that was kept is found when it is out of date
  pass(2, 0, 0);
  EXPECT_EQ(access(1), Access::kNone);
  EXPECT_EQ(m.read(1, kY), 2);
}

TEST_F(PagesTest, TwoInitiatorsOfOneRoundLoseTheirCopies) {  // PG-10
  // Cluster 2's round calls in cluster 1's copy; its acknowledgement is slow.
  m.read(1, kX);
  m.write(2, kX, 1);
  has_token(2, 2);
  asks(0, 2);
  m.deliver(Kind::kLockRequest, 2);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kInvalidate, 1);
  // During it cluster 1 fetches the page again and writes; the home writes after that.
  EXPECT_FALSE(m.engine(1).fault(1, kPage, Access::kWrite));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageReply, 1);
  m.poke(1, kY, 2);
  ASSERT_TRUE(m.engine(0).fault(1, kPage, Access::kWrite));
  m.poke(0, kZ, 3);
  // Both release: the next round has two initiators, and cluster 1's copy lacks what the home wrote.
  ASSERT_TRUE(m.engine(0).lock(1, LockId(0)));
  m.engine(0).unlock(1, LockId(0));
  ASSERT_TRUE(m.engine(1).lock(1, LockId(1)));
  m.engine(1).unlock(1, LockId(1));
  asks(2, 0, 0);
  m.deliver(Kind::kLockRequest, 0);
  asks(2, 1, 1);
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);
  EXPECT_EQ(m.count(Kind::kInvalidate), 0u);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kInvalidate), 2u);
  m.deliver_all();
  EXPECT_EQ(access(1), Access::kNone);
  EXPECT_EQ(m.read(1, kZ, 1), 3);
  EXPECT_EQ(m.peek(0, kY), 2);
}

TEST_F(PagesTest, HomeWritesFreelyWhileThereIsNoCopy) {  // PG-13
  const int calls = m.memory(0).protect_calls;
  m.write(0, kX, 1);
  pass(0, 1, 0);
  m.write(0, kX, 2);
  EXPECT_EQ(m.memory(0).protect_calls, calls);
  EXPECT_EQ(m.engine(0).node_counts(0).write_faults, 0u);
}

TEST_F(PagesTest, HomeWriteInvalidatesTheCopiesAtItsRelease) {  // PG-13
  m.read(1, kX);
  m.write(0, kX, 1);
  EXPECT_EQ(m.engine(0).node_counts(0).write_faults, 1u);
  EXPECT_EQ(access(1), Access::kRead);
  pass(0, 2, 0);
  EXPECT_EQ(access(1), Access::kNone);
  // There is no copy now: the next write faults once more, to open the page, and then costs nothing.
  m.write(0, kX, 2);
  pass(0, 2, 0);
  m.write(0, kX, 3);
  EXPECT_EQ(m.engine(0).node_counts(0).write_faults, 2u);
  EXPECT_EQ(m.read(1, kX), 3);
}

// The driver ends a program whose node faults for ever at an open page: every such fault must open it anew.
TEST_F(PagesTest, HomeWriteAfterEachReleaseFindsThePageClosed) {  // PG-13
  for (std::uint8_t i = 1; i < 4; ++i) {
    EXPECT_EQ(m.read(1, kX), i - 1);
    EXPECT_EQ(m.engine(0).access(kPage), Access::kRead);
    EXPECT_TRUE(m.engine(0).fault(0, kPage, Access::kWrite));
    EXPECT_EQ(m.engine(0).access(kPage), Access::kWrite);
    m.write(0, kX, i);
    pass(0, 2, 0);
  }
}

TEST_F(FlushInProgress, HomeWriteIsTrackedWhileACopyIsBeingInvalidated) {  // PG-13
  // Cluster 2 takes a copy, then cluster 1's diff calls it in: the home's list of copies is empty, cluster
  // 2's copy not.
  m.deliver(Kind::kInvalidateAck, 0);
  m.deliver(Kind::kLockGrant, 2);
  ASSERT_TRUE(m.engine(2).done(0));
  EXPECT_FALSE(m.engine(2).fault(1, kPage, Access::kRead));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageReply, 2);
  m.deliver(Kind::kDiff, 0);
  ASSERT_EQ(m.count(Kind::kInvalidate), 1u);  // to cluster 2, slow
  ASSERT_TRUE(m.engine(0).lock(0, LockId(3)));
  ASSERT_TRUE(m.engine(0).fault(0, kPage, Access::kWrite));
  m.poke(0, kZ, 3);
  m.engine(0).unlock(0, LockId(3));
  asks(2, 3, 1);
  m.deliver(Kind::kLockRequest, 0);
  EXPECT_EQ(m.count(Kind::kLockGrant), 0u);  // cluster 2 would read its old copy
  m.deliver(Kind::kInvalidate, 2);
  m.deliver(Kind::kInvalidateAck, 0);
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

TEST_F(PagesTest, RequestForAPageWithoutAKnownHomeIsKept) {  // PG-20
  EngineMachine late(three_clusters());  // page 1 is homed at cluster 1 until the clusters say otherwise
  late.engine(2).set_home(PageId(1), 1, ClusterId(0));
  EXPECT_FALSE(late.engine(2).fault(0, PageId(1), Access::kRead));
  late.deliver_all();
  EXPECT_FALSE(late.engine(2).done(0));
  EXPECT_FALSE(late.quiet());
  late.engine(0).set_home(PageId(1), 1, ClusterId(0));
  late.deliver_all();
  EXPECT_TRUE(late.engine(2).done(0));
  EXPECT_EQ(late.bad_messages(), 0u);
}

TEST_F(PagesTest, UnplacedPagesAreHomedCyclically) {
  EngineMachine fresh(three_clusters());
  for (std::uint32_t p = 0; p < 8; ++p) EXPECT_EQ(fresh.engine(1).home(PageId(p)).value(), p % 3);
  fresh.write(1, 1 * kPageBytes, 5);
  EXPECT_EQ(fresh.engine(1).node_counts(0).write_faults, 1u);  // opened at first touch
  EXPECT_EQ(fresh.read(2, 1 * kPageBytes), 5);
  EXPECT_EQ(fresh.read(2, 4 * kPageBytes), 0);
}

TEST_F(PagesTest, ReleaseClosesNeighbouringPagesWithOneCall) {  // PG-17
  has_token(1, 1);
  for (const std::uint32_t page : {3u, 1u, 2u, 4u, 7u}) m.write(1, page * kPageBytes, 1);
  const int calls = m.memory(1).protect_calls;
  asks(0, 1);
  m.deliver(Kind::kLockRequest, 1);
  EXPECT_EQ(m.memory(1).protect_calls, calls + 2);  // 1 to 4, and 7
  m.deliver_all();
}

// Cluster 1 has copies of pages 0 to 3, the home writes all of them, and not in order.
struct CopiesOfARun : PagesTest {
  void SetUp() override {
    for (std::uint32_t page = 0; page < 4; ++page) m.read(1, page * kPageBytes);
    for (const std::uint32_t page : {2u, 0u, 3u, 1u}) m.write(0, page * kPageBytes, 7);
    has_token(0, 0);
    asks(2, 0);
    calls_before = m.memory(1).protect_calls;
  }
  int calls_before = 0;
};

TEST_F(CopiesOfARun, InvalidationsOfNeighboursShareAMessageAndAProtectCall) {  // PG-21
  m.deliver(Kind::kLockRequest, 0);
  EXPECT_EQ(m.count(Kind::kInvalidate), 2u);  // the oldest write begins: 2 and 3, then 0 and 1
  m.deliver(Kind::kInvalidate, 1);
  m.deliver(Kind::kInvalidate, 1);
  EXPECT_EQ(m.memory(1).protect_calls, calls_before + 2);
  EXPECT_EQ(m.count(Kind::kInvalidateAck), 2u);
  EXPECT_EQ(counts(0).invalidations_sent, 4u);
  EXPECT_EQ(counts(1).invalidations_received, 4u);
  m.deliver_all();
  EXPECT_TRUE(m.engine(2).done(0));
  for (std::uint32_t page = 0; page < 4; ++page) {
    EXPECT_EQ(access(1, page), Access::kNone);
    EXPECT_EQ(m.read(1, page * kPageBytes), 7);
  }
}

TEST_F(CopiesOfARun, PagesOfARunAreInvalidatedIndividually) {  // PG-14, PG-21
  m.write(1, 3 * kPageBytes + 1, 8);                           // a dirty copy behind a clean one
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kInvalidate, 1);
  EXPECT_EQ(access(1, 2), Access::kNone);
  EXPECT_EQ(access(1, 3), Access::kNone);
  EXPECT_EQ(m.count(Kind::kDiff), 1u);
  m.deliver_all();
  EXPECT_EQ(m.read(0, 3 * kPageBytes + 1), 8);
  EXPECT_EQ(m.read(0, 3 * kPageBytes), 7);
}

struct NarrowWindow : PagesTest {
  static EngineConfig config() {
    EngineConfig c = three_clusters();
    c.flush_window = 1;
    return c;
  }
  NarrowWindow() : PagesTest(config()) {}
};

TEST_F(NarrowWindow, OneFlushIsInProgressAtATime) {  // PG-18
  has_token(1, 1);
  for (std::uint32_t page = 0; page < 4; ++page)
    m.write(1, page * kPageBytes, static_cast<std::uint8_t>(page + 1));
  asks(2, 1);
  m.deliver(Kind::kLockRequest, 1);
  for (std::uint32_t page = 0; page < 4; ++page) {
    ASSERT_EQ(m.count(Kind::kDiff), 1u);
    ASSERT_EQ(m.count(Kind::kLockGrant), 0u);
    m.deliver(Kind::kDiff, 0);
    m.deliver(Kind::kDiffDone, 1);
  }
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
  m.deliver_all();
  for (std::uint32_t page = 0; page < 4; ++page) EXPECT_EQ(m.read(2, page * kPageBytes), page + 1);
}

TEST_F(NarrowWindow, RoundsOfTheHomeCountInTheWindow) {  // PG-18
  for (std::uint32_t page = 0; page < 3; ++page) {
    m.read(1, page * kPageBytes);
    m.write(0, page * kPageBytes, 1);
  }
  has_token(0, 0);
  asks(2, 0);
  m.deliver(Kind::kLockRequest, 0);
  for (int page = 0; page < 3; ++page) {
    ASSERT_EQ(m.count(Kind::kInvalidate), 1u);
    m.deliver(Kind::kInvalidate, 1);
    m.deliver(Kind::kInvalidateAck, 0);
  }
  EXPECT_EQ(m.count(Kind::kLockGrant), 1u);
}

struct OneTwin : PagesTest {
  static EngineConfig config() {
    EngineConfig c = three_clusters();
    c.twins = 1;
    return c;
  }
  OneTwin() : PagesTest(config()) {}
};

TEST_F(OneTwin, WriteWithoutATwinFlushesTheOldestDirtyPageAndWaits) {  // PG-8
  m.write(1, 0 * kPageBytes, 1);
  m.read(1, 1 * kPageBytes);
  EXPECT_FALSE(m.engine(1).fault(0, PageId(1), Access::kWrite));
  m.transmit_all();
  EXPECT_EQ(m.count(Kind::kDiff), 1u);
  EXPECT_EQ(access(1, 0), Access::kRead);
  EXPECT_EQ(access(1, 1), Access::kRead);
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(access(1, 1), Access::kWrite);
  m.poke(1, 1 * kPageBytes, 2);
  pass(1, 2, 0);
  EXPECT_EQ(m.read(2, 0 * kPageBytes), 1);
  EXPECT_EQ(m.read(2, 1 * kPageBytes), 2);
}

TEST_F(OneTwin, FetchedPageIsReadableWhileItsWriterWaitsForATwin) {  // PG-8
  m.write(1, 0 * kPageBytes, 1);
  EXPECT_FALSE(m.engine(1).fault(0, PageId(1), Access::kWrite));
  EXPECT_FALSE(m.engine(1).fault(1, PageId(1), Access::kRead));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageReply, 1);
  EXPECT_TRUE(m.engine(1).done(1));
  EXPECT_FALSE(m.engine(1).done(0));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
}

// The test acts as the home, and increments the versions itself.
struct Versions : testing::Test {
  Versions() : memory(config().pages), engine(config(), memory) {}
  static EngineConfig config() {
    EngineConfig c = three_clusters();
    c.cluster = ClusterId(1);
    c.clusters = 2;
    c.compute_nodes = 1;
    return c;
  }
  void receives(Kind kind, std::uint32_t id, std::uint32_t number, std::size_t payload = 0) {
    std::vector<std::byte> bytes(kHeaderBytes + payload);
    write_header(bytes, {.kind = kind, .id = id, .number = number});
    engine.on_message(ClusterId(0), bytes);
    engine.check();
  }
  Kind next_sent() {
    std::array<std::byte, max_message_bytes(PageLength())> room;
    const std::size_t length = engine.poll_transmit(ClusterId(0), room);
    return length == 0 ? Kind{} : static_cast<Kind>(room[0]);
  }
  void has_copy(std::uint32_t version) {
    EXPECT_FALSE(engine.fault(0, kPage, Access::kRead));
    EXPECT_EQ(next_sent(), Kind::kPageRequest);
    receives(Kind::kPageReply, 0, version, kPageBytes);
    EXPECT_TRUE(engine.done(0));
  }
  ArrayMemory memory;
  Engine engine;
};

TEST_F(Versions, CompareCorrectlyAcrossAWrap) {  // PG-16
  has_copy(0xffff'fffe);
  receives(Kind::kInvalidate, 0, 0xffff'fffe);  // of the round before the copy was made
  EXPECT_EQ(memory.access(0), Access::kRead);
  receives(Kind::kInvalidate, 0, 1);
  EXPECT_EQ(memory.access(0), Access::kNone);
  EXPECT_EQ(next_sent(), Kind::kInvalidateAck);
  EXPECT_EQ(next_sent(), Kind::kInvalidateAck);
}

TEST_F(Versions, CopyThatIsLeftOutOfRoundsStaysComparable) {  // PG-16
  has_copy(0);
  for (const std::uint32_t version :
       {0x7000'0000u, 0xe000'0000u}) {  // two thousand million rounds of our own each
    ASSERT_TRUE(engine.fault(0, kPage, Access::kWrite));
    memory.at(kX) ^= std::byte{1};
    ASSERT_FALSE(engine.barrier(0, BarrierId(0)));
    EXPECT_EQ(next_sent(), Kind::kDiff);
    receives(Kind::kDiffDone, 0, version);
    EXPECT_EQ(next_sent(), Kind::kBarrierArrive);
    receives(Kind::kBarrierDepart, 0, version == 0x7000'0000u ? 0 : 1, kBarrierValueBytes);
    ASSERT_TRUE(engine.done(0));
  }
  EXPECT_EQ(memory.access(0), Access::kRead);
  receives(Kind::kInvalidate, 0, 0xe000'0001);
  EXPECT_EQ(memory.access(0), Access::kNone);
}

TEST_F(Versions, LongUnusedPageIsAcceptedAtAnyVersion) {  // PG-16
  has_copy(0);
  receives(Kind::kInvalidate, 0, 1);
  EXPECT_EQ(next_sent(), Kind::kInvalidateAck);
  has_copy(0x8000'0005);  // more than 2^31 rounds later
  EXPECT_EQ(memory.access(0), Access::kRead);
}

// --- Homes that move.

EngineConfig moving_after(std::uint32_t rounds) {
  EngineConfig c = three_clusters();
  c.migrate_after = rounds;
  return c;
}

struct FirstTouch : PagesTest {
  FirstTouch() {
    for (std::uint16_t c = 0; c < 3; ++c) m.engine(c).set_first_touch(PageId(3), 1);  // cluster 0 decides
  }
  static constexpr PageId kThird{3};
  static constexpr std::size_t kAddress = 3 * kPageBytes + kX;
};

TEST_F(FirstTouch, FirstToucherBecomesTheHome) {  // PG-22
  EXPECT_EQ(m.read(1, kAddress), 0);
  EXPECT_EQ(m.engine(1).home(kThird), ClusterId(1));
  EXPECT_EQ(access(0, 3), Access::kNone);
  EXPECT_EQ(counts(0).homes_given, 1u);
  EXPECT_EQ(counts(0).pages_sent, 0u);  // zeros need not travel
  m.write(1, kAddress, 7);
  pass(1, 2, 0);
  m.write(1, kAddress, 8);
  pass(1, 2, 3);
  EXPECT_EQ(m.engine(1).node_counts(0).read_faults, 1u);
  EXPECT_EQ(m.engine(1).node_counts(0).write_faults, 0u);
  EXPECT_EQ(counts(1).diffs_sent, 0u);
  EXPECT_EQ(m.read(2, kAddress), 8);  // and now a second cluster asks
  m.write(1, kAddress, 9);
  EXPECT_EQ(m.engine(1).node_counts(0).write_faults, 1u);
  pass(1, 2, 0);
  EXPECT_EQ(m.read(2, kAddress), 9);
}

TEST_F(FirstTouch, TouchAtTheInitialHomeKeepsThePageThere) {  // PG-22
  m.write(0, kAddress, 7);
  EXPECT_EQ(m.read(1, kAddress), 7);
  EXPECT_EQ(m.engine(1).home(kThird), ClusterId(0));
  EXPECT_EQ(counts(0).homes_given, 0u);
}

TEST_F(FirstTouch, OnlyTheFirstOfTwoRequestersBecomesTheHome) {  // PG-22, PG-24
  EXPECT_FALSE(m.engine(1).fault(0, kThird, Access::kWrite));
  EXPECT_FALSE(m.engine(2).fault(0, kThird, Access::kWrite));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageForward, 1);  // before cluster 1 knows that it is the home
  EXPECT_FALSE(m.engine(1).done(0));
  EXPECT_FALSE(m.engine(1).quiet());
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_TRUE(m.engine(2).done(0));
  EXPECT_EQ(m.engine(2).home(kThird), ClusterId(1));
}

struct MovingHome : PagesTest {
  explicit MovingHome(std::uint32_t rounds = 2) : PagesTest(moving_after(rounds)) {}
  // Cluster 1 writes, and its writes become visible.
  void write_and_release(std::uint8_t value) {
    m.write(1, kX, value);
    pass(1, 2, 1);
  }
};

TEST_F(MovingHome, OnlyWriterOfAPageBecomesItsHome) {  // PG-23
  write_and_release(1);
  EXPECT_EQ(m.engine(0).home(kPage), ClusterId(0));
  EXPECT_EQ(access(0), Access::kNone);  // to see whether anybody uses it there
  write_and_release(2);
  EXPECT_EQ(m.engine(0).home(kPage), ClusterId(1));
  EXPECT_EQ(m.engine(1).home(kPage), ClusterId(1));
  const std::uint64_t faults = m.engine(1).node_counts(0).write_faults;
  write_and_release(3);
  write_and_release(4);
  EXPECT_EQ(m.engine(1).node_counts(0).write_faults, faults);
  EXPECT_EQ(counts(1).diffs_sent, 2u);
  EXPECT_EQ(m.read(0, kX), 4);
  EXPECT_EQ(m.read(2, kX), 4);
  EXPECT_EQ(counts(0).forwarded, 1u);  // of cluster 2's request
  EXPECT_EQ(m.engine(2).home(kPage), ClusterId(1));
}

TEST_F(MovingHome, HomeStaysWhileItIsUsedThere) {  // PG-23
  for (std::uint8_t i = 1; i < 9; ++i) {
    write_and_release(i);
    EXPECT_EQ(m.read(0, kX), i);
    EXPECT_EQ(m.engine(0).home(kPage), ClusterId(0));
  }
}

TEST_F(MovingHome, HomeStaysWhileTwoClustersWrite) {  // PG-23
  for (std::uint8_t i = 1; i < 9; ++i) {
    write_and_release(i);
    m.write(2, kY, i);
    pass(2, 0, 2);
  }
  EXPECT_EQ(m.engine(0).home(kPage), ClusterId(0));
  EXPECT_EQ(m.read(1, kY), 8);
}

TEST_F(MovingHome, PageThatItsHomeWritesTooIsNotClosedInEveryRound) {  // PG-23
  write_and_release(1);
  EXPECT_EQ(access(0), Access::kNone);
  for (std::uint8_t i = 2; i < 5; ++i) {
    m.write(0, kY, i);  // while cluster 1 has a copy: the release is a round of the home's own
    pass(0, 2, 2);
    write_and_release(i);
    EXPECT_NE(access(0), Access::kNone);
  }
}

struct MovingAtOnce : MovingHome {
  MovingAtOnce() : MovingHome(1) {}
};

TEST_F(MovingAtOnce, WritesAfterTheDiffBelongToTheNewHome) {  // PG-23
  m.write(1, kX, 1);
  has_token(1, 1);
  asks(0, 1);
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);
  EXPECT_TRUE(m.engine(1).fault(0, kPage, Access::kWrite));
  m.poke(1, kY, 2);
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.engine(1).home(kPage), ClusterId(1));
  m.deliver_all();
  m.unlock(0, 1);
  EXPECT_EQ(counts(1).diffs_sent, 1u);
  EXPECT_EQ(m.read(2, kX), 1);
  EXPECT_EQ(m.read(2, kY), 2);
}

TEST_F(MovingAtOnce, HomeStaysWhileChangesMayBeInFlight) {  // PG-23
  m.write(2, kY, 2);
  m.write(1, kX, 1);
  has_token(1, 1);
  asks(0, 1);
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);           // cluster 1's
  m.deliver(Kind::kInvalidate, 2);     // cluster 2's changes leave
  m.deliver(Kind::kInvalidateAck, 0);  // and are overtaken
  m.deliver(Kind::kDiffDone, 1);
  EXPECT_EQ(m.count(Kind::kDiff), 1u);
  EXPECT_EQ(m.engine(0).home(kPage), ClusterId(0));
  m.deliver_all();
  m.unlock(0, 1);
  EXPECT_EQ(m.read(1, kX), 1);
  EXPECT_EQ(m.read(1, kY), 2);
}

TEST_F(MovingAtOnce, RequestThatOvertakesTheHomeIsKept) {  // PG-24
  m.write(1, kX, 1);
  has_token(1, 1);
  asks(0, 1);
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);
  EXPECT_FALSE(m.engine(2).fault(0, kPage, Access::kRead));
  m.transmit_all();
  m.deliver(Kind::kPageRequest, 0);  // the former home
  m.deliver(Kind::kPageForward, 1);  // before it knows that it is the home
  EXPECT_EQ(m.count(Kind::kPageReply), 0u);
  m.deliver(Kind::kDiffDone, 1);
  m.deliver(Kind::kPageReply, 2);
  EXPECT_EQ(m.peek(2, kX), 1);
  m.deliver_all();
  m.unlock(0, 1);
}

TEST_F(MovingAtOnce, FormerHomeBecomesTheHomeAgain) {  // PG-24
  write_and_release(1);
  EXPECT_EQ(m.engine(0).home(kPage), ClusterId(1));
  m.write(2, kX, 2);
  pass(2, 0, 2);
  EXPECT_EQ(m.engine(1).home(kPage), ClusterId(2));
  m.write(0, kX, 3);  // asks cluster 1, which sends it on
  pass(0, 1, 0);
  EXPECT_EQ(m.engine(2).home(kPage), ClusterId(0));
  for (std::uint16_t c = 0; c < 3; ++c) EXPECT_EQ(m.read(c, kX), 3);
}

// --- Pages that are fetched ahead.

EngineConfig fetching_ahead(std::uint32_t pages) {
  EngineConfig c = three_clusters();
  c.pages = 64;
  c.fetch_ahead = pages;
  c.scan_ahead = 0;
  return c;
}

struct FetchAhead : PagesTest {
  FetchAhead() : PagesTest(fetching_ahead(8)) {}
  std::uint64_t fetches() { return m.engine(1).node_counts(0).fetches; }
};

TEST_F(FetchAhead, SequentialReadsFindTheNextPages) {  // PG-25
  for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  for (std::size_t p = 0; p < 64; ++p) EXPECT_EQ(m.read(1, p * kPageBytes), p + 1);
  EXPECT_EQ(fetches(), 10u);  // 0, 1, 4, 9, and every ninth
  EXPECT_EQ(counts(1).fetched_ahead, 64u - 10);
  EXPECT_EQ(counts(0).pages_sent, 64u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(FetchAhead, PagesAStrideApartAreFoundUpToTheHeapsEnd) {  // PG-25
  for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  for (std::size_t p = 0; p < 64; p += 5) EXPECT_EQ(m.read(1, p * kPageBytes), p + 1);
  EXPECT_EQ(fetches(), 5u);                // 0, 5, 10, 25, 50
  EXPECT_EQ(counts(1).fetched_ahead, 8u);  // of eight from 55 on there are two
  EXPECT_EQ(counts(0).pages_sent, 13u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(FetchAhead, PagesAreFoundDownwardsToTheFirst) {  // PG-25
  for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  for (std::size_t p = 64; p-- > 0;) EXPECT_EQ(m.read(1, p * kPageBytes), p + 1);
  EXPECT_EQ(fetches(), 10u);  // 63, 62, 61, 58, 53, and every ninth
  EXPECT_EQ(counts(1).fetched_ahead, 64u - 10);
  EXPECT_EQ(counts(0).pages_sent, 64u);
  EXPECT_TRUE(m.quiet());
}

TEST_F(FetchAhead, SequentialWritesFindTheNextPages) {  // PG-25
  for (std::size_t p = 0; p < 32; ++p) {  // by turns with reads in the other direction, as when a node copies
    EXPECT_EQ(m.read(1, (63 - p) * kPageBytes), 0);
    m.write(1, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  }
  // Reads miss 63, 62, 61, 58, 53, 44 and 35, which brings 29 to 31, too; writes 0 to 4, 6, 8, 11, 14, 18 and 23.
  EXPECT_EQ(fetches(), 7u + 11u);
  EXPECT_EQ(counts(1).fetched_ahead, 64u - 18);
  pass(1, 2, 0);
  for (std::size_t p = 0; p < 32; ++p) EXPECT_EQ(m.read(2, p * kPageBytes), p + 1);
  EXPECT_TRUE(m.quiet());
}

EngineConfig fetching_further_ahead() {
  EngineConfig c = fetching_ahead(2);
  c.scan_ahead = 8;
  c.run_pages = 16;
  return c;
}

struct FetchFurtherAhead : PagesTest {
  FetchFurtherAhead() : PagesTest(fetching_further_ahead()) {}
};

TEST_F(FetchFurtherAhead, LongScanFindsMorePages) {  // PG-25
  for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  for (std::size_t p = 0; p < 64; ++p) EXPECT_EQ(m.read(1, p * kPageBytes), p + 1);
  EXPECT_EQ(m.engine(1).node_counts(0).fetches, 16u);  // 0, 1, every third up to 34, 39, 48, 57
  EXPECT_EQ(counts(1).fetched_ahead, 64u - 16);
  EXPECT_TRUE(m.quiet());
}

TEST_F(FetchFurtherAhead, HomeHasRoomForTheRequestsOfLongScans) {  // PG-19, PG-25
  m.engine(1).prefetch(PageId(0), 64);
  EXPECT_EQ(counts(1).fetched_ahead, 8u * m.config().compute_nodes);
  m.deliver_all();
  EXPECT_EQ(counts(0).pages_sent, 8u * m.config().compute_nodes);
  EXPECT_EQ(m.bad_messages(), 0u);
}

TEST_F(FetchAhead, RandomReadsFetchNothingAhead) {  // PG-25
  for (const std::size_t p : {3, 1, 40, 12, 11, 60, 7, 30, 2}) m.read(1, p * kPageBytes);
  EXPECT_EQ(counts(1).fetched_ahead, 0u);
}

TEST_F(FetchAhead, ReadsBetweenSynchronisationsFetchNothingAhead) {  // PG-25
  for (std::uint32_t page = 0; page < 8; ++page) {
    m.read(1, page * kPageBytes);
    m.lock(1, 4);  // that this cluster manages: no messages
    m.unlock(1, 4);
  }
  EXPECT_EQ(counts(1).fetched_ahead, 0u);
  EXPECT_EQ(m.engine(1).node_counts(0).fetches, 8u);
}

TEST_F(FetchAhead, StalePageThatNoNodeNeedsIsDropped) {  // PG-25
  has_token(0, 0);
  m.read(1, 0);
  EXPECT_FALSE(m.engine(1).fault(0, PageId(1), Access::kRead));
  m.transmit_all();
  ASSERT_EQ(m.count(Kind::kPageRequest), 3u);  // 1, and 2 and 3 ahead
  for (int i = 0; i < 3; ++i) m.deliver(Kind::kPageRequest, 0);
  m.write(0, 2 * kPageBytes, 7);
  asks(2, 0);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kInvalidate, 1);  // overtakes page 2
  m.deliver_all();
  EXPECT_EQ(counts(1).stale_replies, 1u);
  EXPECT_EQ(access(1, 2), Access::kNone);
  EXPECT_EQ(access(1, 3), Access::kRead);
  EXPECT_TRUE(m.engine(1).quiet());
  EXPECT_EQ(m.read(1, 2 * kPageBytes), 7);
}

TEST_F(FetchAhead, PagesAreFetchedWhenANodeAsksForThem) {  // PG-25
  for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  m.read(1, 12 * kPageBytes);
  m.engine(1).prefetch(PageId(10), 6);  // not 12, which is here
  m.engine(1).prefetch(PageId(10), 6);  // and none twice
  m.transmit_all();
  EXPECT_EQ(counts(1).fetched_ahead, 5u);
  EXPECT_EQ(access(1, 10), Access::kNone);
  m.deliver_all();
  for (std::size_t p = 10; p < 16; ++p) EXPECT_EQ(m.peek(1, p * kPageBytes), p + 1);
  EXPECT_EQ(access(1, 16), Access::kNone);
  EXPECT_EQ(counts(0).pages_sent, 6u);
  EXPECT_TRUE(m.quiet());
  // No more than fetch_ahead are in flight, for each node.
  m.engine(1).prefetch(PageId(20), 40);
  EXPECT_EQ(counts(1).fetched_ahead, 5u + 8 * m.config().compute_nodes);
  m.deliver_all();
  m.engine(0).prefetch(PageId(0), 64);  // at the home: nothing
  EXPECT_EQ(counts(0).fetched_ahead, 0u);
}

TEST_F(FetchAhead, FaultJoinsAPageThatWasAskedFor) {  // PG-5, PG-25
  m.write(0, 3 * kPageBytes, 9);
  m.engine(1).prefetch(PageId(3), 1);
  m.transmit_all();
  EXPECT_FALSE(m.engine(1).fault(0, PageId(3), Access::kWrite));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(access(1, 3), Access::kWrite);
  EXPECT_EQ(m.peek(1, 3 * kPageBytes), 9);
  EXPECT_EQ(counts(0).pages_sent, 1u);
}

// --- Runs of pages.

EngineConfig in_runs(std::uint32_t pages) {
  EngineConfig c = fetching_ahead(15);
  c.run_pages = pages;
  return c;
}

struct Runs : PagesTest {
  explicit Runs(std::uint32_t run_pages = 16) : PagesTest(in_runs(run_pages)) {
    for (std::size_t p = 0; p < 64; ++p) m.write(0, p * kPageBytes, static_cast<std::uint8_t>(p + 1));
  }
  // Cluster 1 has read all pages before `page`, and the next fault there begins a run of 16.
  void scan_to(std::uint32_t page) {
    for (std::size_t p = 0; p < page; ++p) EXPECT_EQ(m.read(1, p * kPageBytes), p + 1);
  }
  bool fault(std::uint32_t page, Access wanted = Access::kRead, std::uint16_t node = 0) {
    return m.engine(1).fault(node, PageId(page), wanted);
  }
  // The pages of the replies in flight.
  std::vector<std::uint32_t> replies() const {
    std::vector<std::uint32_t> pages;
    for (const InFlight& message : m.wire) {
      const Message reply = parse(PageLength(), message.bytes).value();
      if (reply.header.kind == Kind::kPageReply)
        pages.push_back(RunOfPages(PageLength(), reply.header.number, reply.payload).pages());
    }
    return pages;
  }
  // A fault on page 34 of a scan: 34, and 35 to 49 together, are requested, and the replies are queued.
  void request_run() {
    scan_to(34);
    EXPECT_FALSE(fault(34));
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(m.transmit(1, 0));
      m.deliver(std::size_t{0});
    }
  }
};

TEST_F(Runs, ConsecutivePagesShareARequestAndReplies) {  // PG-28
  scan_to(34);
  EXPECT_FALSE(fault(34));
  m.transmit_all();
  ASSERT_EQ(m.wire.size(), 2u);
  EXPECT_EQ(m.wire[0].kind(), Kind::kPageRequest);
  EXPECT_EQ(m.wire[0].id(), 34u);
  EXPECT_EQ(m.wire[0].number(), 0u);  // the node waits for it alone
  EXPECT_EQ(m.wire[1].kind(), Kind::kPageRequest);
  EXPECT_EQ(m.wire[1].id(), 35u);
  EXPECT_EQ(m.wire[1].number(), 14u);
  m.deliver(Kind::kPageRequest, 0);
  m.deliver(Kind::kPageRequest, 0);
  EXPECT_EQ(replies(), (std::vector<std::uint32_t>{1, 15}));
  const int before = m.memory(1).protect_calls;
  m.deliver_all();
  EXPECT_EQ(m.memory(1).protect_calls, before + 2);
  for (std::size_t p = 34; p < 50; ++p) EXPECT_EQ(m.peek(1, p * kPageBytes), p + 1);
  EXPECT_EQ(access(1, 50), Access::kNone);
  EXPECT_TRUE(m.quiet());
}

TEST_F(Runs, RepliesFitTheRoomOfTheirDriver) {  // PG-28
  EXPECT_EQ(m.engine(1).room_wanted(ClusterId(0)), min_room_bytes(PageLength()));
  request_run();
  EXPECT_EQ(m.engine(0).room_wanted(ClusterId(1)), max_message_bytes(PageLength()));
  EXPECT_TRUE(m.transmit(0, 1));
  std::array<std::byte, max_message_bytes(PageLength())> room;
  for (const std::size_t pages : {1, 2, 3}) {
    const std::size_t most =
        std::max(min_room_bytes(PageLength()), kHeaderBytes + reply_payload(PageLength(), pages + 1) - 1);
    const std::size_t bytes = m.engine(0).poll_transmit(ClusterId(1), MutableBytes(room).first(most));
    EXPECT_EQ(bytes, kHeaderBytes + reply_payload(PageLength(), pages));
    m.engine(1).on_message(ClusterId(0), ByteView(room).first(bytes));
  }
  m.deliver_all();
  for (std::size_t p = 34; p < 50; ++p) EXPECT_EQ(m.peek(1, p * kPageBytes), p + 1);
}

TEST_F(Runs, HomeClosesARunWithOneCall) {  // PG-12, PG-28
  request_run();
  EXPECT_EQ(access(0, 34), Access::kWrite);
  const int before = m.memory(0).protect_calls;
  m.transmit_all();
  EXPECT_EQ(m.memory(0).protect_calls, before + 2);
  for (std::uint32_t p = 34; p < 50; ++p) EXPECT_EQ(access(0, p), Access::kRead);
  m.deliver_all();
}

struct ShortRuns : Runs {
  ShortRuns() : Runs(8) {}
};

TEST_F(ShortRuns, FewPagesAreNotRequestedWhileOthersAreInFlight) {  // PG-25, PG-28
  request_run();
  m.deliver(Kind::kPageRequest, 0);  // the rest
  m.deliver(Kind::kPageReply, 1);
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(access(1, 35), Access::kNone);
  EXPECT_FALSE(fault(35));  // the scan got on by one page
  EXPECT_FALSE(m.engine(1).has_output(ClusterId(0)));
  m.deliver(Kind::kPageReply, 1);
  EXPECT_FALSE(fault(43));
  EXPECT_TRUE(m.engine(1).has_output(ClusterId(0)));
  m.deliver_all();
  EXPECT_EQ(m.peek(1, 57 * kPageBytes), 58);
}

TEST_F(Runs, StalePageOfARunIsNotShown) {  // PG-15, PG-28
  has_token(0, 0);
  request_run();
  m.transmit_all();
  m.write(0, 36 * kPageBytes, 99);
  asks(2, 0);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kInvalidate, 1);  // overtakes the replies
  m.deliver_all();
  EXPECT_EQ(counts(1).stale_replies, 1u);
  EXPECT_EQ(access(1, 35), Access::kRead);
  EXPECT_EQ(access(1, 36), Access::kNone);
  EXPECT_EQ(access(1, 37), Access::kRead);
  EXPECT_TRUE(m.quiet());
  EXPECT_EQ(m.read(1, 36 * kPageBytes), 99);
  EXPECT_EQ(m.read(1, 37 * kPageBytes), 38);
}

TEST_F(Runs, StalePageOfARunThatANodeNeedsIsRequestedAgain) {  // PG-15, PG-28
  has_token(0, 0);
  request_run();
  m.transmit_all();
  EXPECT_FALSE(fault(36, Access::kRead, 1));
  m.write(0, 36 * kPageBytes, 99);
  asks(2, 0);
  m.deliver(Kind::kLockRequest, 0);
  m.deliver(Kind::kInvalidate, 1);
  for (int i = 0; i < 2; ++i) m.deliver(Kind::kPageReply, 1);
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_EQ(access(1, 35), Access::kRead);
  EXPECT_FALSE(m.engine(1).done(1));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(1));
  EXPECT_EQ(m.peek(1, 36 * kPageBytes), 99);
}

TEST_F(Runs, LaterInvalidationOfAPageOfARunIsObeyed) {  // PG-14, PG-28
  request_run();
  m.deliver_all();
  m.write(0, 36 * kPageBytes, 99);
  pass(0, 2, 0);
  EXPECT_EQ(access(1, 35), Access::kRead);
  EXPECT_EQ(access(1, 36), Access::kNone);
  EXPECT_EQ(m.read(1, 36 * kPageBytes), 99);
}

TEST_F(Runs, PageOfARunOpensForTheNodeThatWaitsToWriteIt) {  // PG-5, PG-28
  request_run();
  EXPECT_FALSE(fault(36, Access::kWrite, 1));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(1));
  EXPECT_EQ(access(1, 35), Access::kRead);
  EXPECT_EQ(access(1, 36), Access::kWrite);
  EXPECT_EQ(access(1, 37), Access::kRead);
  m.poke(1, 36 * kPageBytes, 77);
  pass(1, 2, 0);
  EXPECT_EQ(m.read(2, 36 * kPageBytes), 77);
}

TEST(PageBytes, CountsTheBytesOfAllReplies) {
  std::vector<std::byte> reply(kHeaderBytes + reply_payload(PageLength(), 3));
  write_header(reply, {.kind = Kind::kPageReply, .id = 4});
  EXPECT_EQ(bytes_of_pages(PageLength(), reply), 3 * kPageBytes);
  std::vector<std::byte> request(kHeaderBytes);
  write_header(request, {.kind = Kind::kPageRequest, .id = 4, .number = 2});
  EXPECT_EQ(bytes_of_pages(PageLength(), request), 0u);
  write_length(request, request.size());
  request.insert(request.end(), reply.begin(), reply.end());
  EXPECT_EQ(bytes_of_pages(PageLength(), request), 3 * kPageBytes);
  EXPECT_EQ(bytes_of_pages(PageLength(), {}), 0u);
}

// --- Several messages in one.

EngineConfig packing() {
  EngineConfig c = three_clusters();
  c.pages = 20;
  c.flush_window = 20;
  c.twins = 20;
  c.pack = true;
  return c;
}

struct Packing : PagesTest {
  Packing() : PagesTest(packing()) {}
  void change(std::uint32_t page, std::size_t bytes) {
    m.open(1, page * kPageBytes, Access::kWrite);
    for (std::size_t i = 0; i < bytes; ++i) m.poke(1, page * kPageBytes + i, 7);
  }
  void release() {
    for (std::uint16_t node = 0; node < 2; ++node) (void)m.engine(1).barrier(node, BarrierId(0));
  }
  // The kinds of the parts of the next message from `from` to `to`.
  std::vector<Kind> sends(std::uint16_t from, std::uint16_t to) {
    std::vector<Kind> kinds;
    if (!m.transmit(from, to)) return kinds;
    for (ByteView rest = m.wire.back().bytes; !rest.empty();) {
      const Message message = parse(PageLength(), rest).value();
      kinds.push_back(message.header.kind);
      rest = message.rest;
    }
    return kinds;
  }
};

TEST_F(Packing, DiffsToOneHomeShareAMessageAndSoDoTheirAnswers) {  // PG-26
  for (std::uint32_t page = 0; page < 16; page += 2) change(page, 1);
  release();
  EXPECT_EQ(sends(1, 0), std::vector<Kind>(8, Kind::kDiff));
  EXPECT_EQ(sends(1, 0), std::vector<Kind>());
  m.deliver(std::size_t{0});
  EXPECT_EQ(sends(0, 1), std::vector<Kind>(8, Kind::kDiffDone));
  m.deliver(std::size_t{0});
  EXPECT_EQ(sends(1, 0), std::vector<Kind>{Kind::kBarrierArrive});
  for (std::size_t page = 0; page < 16; page += 2) EXPECT_EQ(m.peek(0, page * kPageBytes), 7);
}

TEST_F(Packing, DiffThatDoesNotFitBeginsTheNextMessage) {  // PG-26
  change(0, 1);
  for (std::uint32_t page = 1; page < 18; ++page) change(page, kPageBytes);
  change(18, 1);
  release();
  EXPECT_EQ(m.engine(1).room_wanted(ClusterId(0)), max_message_bytes(PageLength()));
  EXPECT_EQ(sends(1, 0), std::vector<Kind>(17, Kind::kDiff));
  EXPECT_EQ(m.engine(1).room_wanted(ClusterId(0)), 2 * min_room_bytes(PageLength()));
  EXPECT_EQ(sends(1, 0), std::vector<Kind>(2, Kind::kDiff));
  EXPECT_EQ(counts(1).diffs_sent, 19u);
  EXPECT_EQ(counts(1).diff_bytes_sent, 2 * (4u + 1) + 17 * (4u + kPageBytes));
  m.deliver(std::size_t{1});
  m.deliver(std::size_t{0});
  for (const std::size_t at : {std::size_t{0}, 2 * kPageBytes - 1, 18 * kPageBytes - 1, 18 * kPageBytes})
    EXPECT_EQ(m.peek(0, at), 7);
}

TEST_F(Packing, PageSharesAMessageWithShortOnes) {  // PG-26
  EXPECT_FALSE(m.engine(1).fault(0, PageId(5), Access::kRead));
  EXPECT_FALSE(m.engine(1).lock(1, LockId(0)));
  EXPECT_EQ(sends(1, 0), (std::vector<Kind>{Kind::kPageRequest, Kind::kLockRequest}));
  m.deliver(std::size_t{0});
  EXPECT_EQ(sends(0, 1), (std::vector<Kind>{Kind::kPageReply, Kind::kLockGrant}));
  m.deliver(std::size_t{0});
  EXPECT_TRUE(m.engine(1).done(0));
  EXPECT_TRUE(m.engine(1).holds(1, LockId(0)));
}

}  // namespace
}  // namespace braid::dsm
