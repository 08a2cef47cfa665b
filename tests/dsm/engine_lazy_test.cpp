// The lazy protocol: what its releases, acquires and barriers send, and what becomes of copies. Page p's home is cluster p.
#include <gtest/gtest.h>

#include "engine_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

EngineConfig lazy(std::uint16_t clusters = 3) {
  return {.clusters = clusters,
          .compute_nodes = 2,
          .protocol = Protocol::kLazy,
          .pages = 8,
          .locks = 3,
          .barriers = 2,
          .lease_uses = 0,
          .twins = 4,
          .migrate_after = 0,
          .fetch_ahead = 0,
          .pack = false,
          .words = 3,
          .barrier_fan_out = 1};
}

std::vector<std::uint16_t> clusters(std::initializer_list<std::uint16_t> list) {
  return list;
}

constexpr std::size_t kX = 0, kY = 64;  // of page 0

struct Lazy : testing::Test {
  explicit Lazy(const EngineConfig& config = lazy()) : m(config) {}
  EngineMachine m;

  Access access(std::uint16_t cluster, std::uint32_t page = 0) {
    return m.engine(cluster).access(PageId(page));
  }
  // The node in `from` releases, the one in `to` acquires.
  void pass(std::uint16_t from, std::uint16_t to, std::uint32_t lock) {
    m.lock(from, lock);
    m.unlock(from, lock);
    m.lock(to, lock);
    m.unlock(to, lock);
    m.deliver_all();
  }
  // Every node comes to the barrier; what it sends stays on the wire.
  void come(std::uint16_t cluster, std::uint32_t barrier = 0) {
    for (std::uint16_t node = 0; node < m.config().compute_nodes; ++node)
      (void)m.engine(cluster).barrier(node, BarrierId(barrier));
    m.transmit_all();
  }
  std::uint64_t invalidations() {
    std::uint64_t n = 0;
    for (std::uint16_t c = 0; c < m.config().clusters; ++c) n += m.engine(c).counts().invalidations_sent;
    return n;
  }
  void TearDown() override { EXPECT_EQ(m.bad_messages(), expected_bad); }
  std::uint64_t expected_bad = 0;
};

TEST_F(Lazy, ReleaseLeavesCopiesAndTheAcquireDropsThem) {  // LZ-1, LZ-4
  EXPECT_EQ(m.read(1, kX), 0);
  EXPECT_EQ(m.read(2, kX), 0);
  m.lock(1, 1);
  m.write(1, kX, 7);
  m.unlock(1, 1);
  m.lock(2, 1);
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.read(2, kX), 7);
  EXPECT_EQ(access(1), Access::kRead);  // the writer has all there is
  EXPECT_EQ(invalidations(), 0u);
}

TEST_F(Lazy, ClusterThatDoesNotAcquireKeepsItsCopy) {  // LZ-1
  m.read(2, kX);
  m.lock(1, 1);
  m.write(1, kX, 7);
  m.unlock(1, 1);
  m.lock(0, 1);
  EXPECT_EQ(m.read(0, kX), 7);
  EXPECT_EQ(m.peek(2, kX), 0);
}

TEST_F(Lazy, HomesReleaseIsNoticedToo) {  // LZ-1
  m.read(1, kX);
  m.lock(0, 0);
  m.write(0, kX, 5);
  m.unlock(0, 0);
  EXPECT_EQ(m.peek(1, kX), 0);
  m.lock(1, 0);
  EXPECT_EQ(access(1), Access::kNone);
  EXPECT_EQ(m.read(1, kX), 5);
}

TEST_F(Lazy, NoticesGoOnWithTheNextRelease) {  // LZ-2
  m.read(2, kX);
  m.write(1, kX, 7);
  pass(1, 0, 1);
  pass(0, 2, 0);  // cluster 0 has written nothing
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.read(2, kX), 7);
}

TEST_F(Lazy, EachNoticeGoesToAClusterOnce) {  // LZ-2
  m.read(2, kX);
  m.write(1, kX, 7);
  pass(1, 2, 1);
  EXPECT_EQ(m.read(2, kX), 7);
  m.lock(1, 1);
  m.unlock(1, 1);
  (void)m.engine(2).lock(0, LockId(1));
  std::size_t notices = 0;
  for (m.transmit_all(); !m.wire.empty(); m.transmit_all()) {
    notices += m.count(Kind::kWriteNotice);
    m.deliver(std::size_t{0});
  }
  EXPECT_EQ(notices, 0u);
  EXPECT_EQ(m.peek(2, kX), 7);
}

TEST_F(Lazy, TokenIsNotUsedBeforeItsNoticesAreThere) {  // LZ-3
  m.read(2, kX);
  m.lock(1, 1);
  m.write(1, kX, 7);
  m.unlock(1, 1);
  ASSERT_FALSE(m.engine(2).lock(0, LockId(1)));
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kDiffDone, 1);
  ASSERT_EQ(m.count_to(Kind::kWriteNotice, 2), 1u);
  m.deliver(Kind::kLockGrant, 2);
  EXPECT_FALSE(m.engine(2).done(0));
  EXPECT_FALSE(m.engine(2).quiet());
  m.deliver(Kind::kWriteNotice, 2);
  EXPECT_TRUE(m.engine(2).done(0));
  EXPECT_EQ(m.read(2, kX), 7);
}

// A later message has no notices of its own: they belong to an earlier one that is still in flight.
TEST_F(Lazy, MessageIsHandledAfterEarlierOnes) {  // LZ-3
  m.read(2, kX);
  m.write(1, kX, 7);
  ASSERT_FALSE(m.engine(1).sync(0, {.op = SyncOp::kWordStore, .id = 2, .first = 1, .releases = true}));
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kDiffDone, 1);
  ASSERT_FALSE(m.engine(1).sync(1, {.op = SyncOp::kWordAdd, .id = 2, .first = 1}));
  m.transmit_all();
  ASSERT_EQ(m.count_to(Kind::kSyncCall, 2), 2u);
  m.deliver(m.wire.size() - 1);  // the second call
  m.transmit_all();
  EXPECT_EQ(m.count_to(Kind::kSyncResult, 1), 0u);
  m.deliver_all();
  EXPECT_EQ(m.engine(1).result(1), 1u);
  EXPECT_EQ(m.read(2, kX), 7);
}

TEST_F(Lazy, WriterWhoseCopyLacksAnotherOnesWritesLosesIt) {  // LZ-4
  m.write(1, kX, 1);
  m.write(2, kY, 2);
  pass(1, 0, 1);
  EXPECT_EQ(access(1), Access::kRead);
  EXPECT_EQ(access(2), Access::kWrite);
  m.lock(2, 2);
  m.unlock(2, 2);
  m.lock(0, 2);  // so cluster 2 releases
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.read(2, kX), 1);
  EXPECT_EQ(m.read(2, kY), 2);
}

TEST_F(Lazy, DirtyCopySendsItsChangesWhenItIsNoticed) {  // LZ-4
  m.write(2, kY, 2);
  m.write(1, kX, 1);
  pass(1, 2, 1);
  EXPECT_EQ(m.read(2, kX), 1);
  EXPECT_EQ(m.peek(2, kY), 2);
}

TEST_F(Lazy, ReplyThatIsOlderThanANoticeIsRequestedAgain) {  // LZ-4
  m.read(1, kX);
  m.lock(1, 1);
  m.write(1, kX, 7);
  ASSERT_FALSE(m.engine(2).fault(0, PageId(0), Access::kRead));
  m.deliver(Kind::kPageRequest, 0);
  m.transmit_all();
  ASSERT_EQ(m.count_to(Kind::kPageReply, 2), 1u);  // without the write
  m.unlock(1, 1);
  ASSERT_FALSE(m.engine(2).lock(1, LockId(1)));
  m.deliver(Kind::kLockRequest, 1);
  m.deliver(Kind::kDiff, 0);
  m.deliver(Kind::kDiffDone, 1);
  m.deliver(Kind::kWriteNotice, 2);
  m.deliver(Kind::kPageReply, 2);
  EXPECT_EQ(m.engine(2).counts().stale_replies, 1u);
  m.deliver_all();
  EXPECT_EQ(m.peek(2, kX), 7);
}

// Cluster 1 has 2 below it, and 0 above it.
TEST_F(Lazy, BarrierTellsEveryClusterOnce) {  // LZ-5
  for (const std::uint16_t c : clusters({1, 2})) m.read(c, kX);
  m.read(0, kPageBytes);
  m.write(0, kX, 1);
  m.write(2, kPageBytes, 2);
  for (const std::uint16_t c : clusters({0, 1, 2})) come(c);
  std::size_t notices = 0;
  for (m.transmit_all(); !m.wire.empty(); m.transmit_all()) {
    notices += m.wire[0].kind() == Kind::kWriteNotice;
    m.deliver(std::size_t{0});
  }
  EXPECT_EQ(notices, 4u);  // page 1 goes up twice, page 0 down twice
  EXPECT_EQ(m.read(0, kPageBytes), 2);
  for (const std::uint16_t c : clusters({1, 2})) EXPECT_EQ(m.read(c, kX), 1);
  // Nobody is told again, neither by a lock nor by another barrier.
  m.lock(0, 0);
  m.unlock(0, 0);
  (void)m.engine(2).lock(0, LockId(0));
  m.deliver_all();
  m.unlock(2, 0);
  for (const std::uint16_t c : clusters({0, 1, 2})) come(c, 1);
  notices = 0;
  for (m.transmit_all(); !m.wire.empty(); m.transmit_all()) {
    notices += m.wire[0].kind() == Kind::kWriteNotice;
    m.deliver(std::size_t{0});
  }
  EXPECT_EQ(notices, 0u);
}

// A notice that comes after a cluster's arrival, from one that has departed already, is known to no other one.
TEST_F(Lazy, NoticeThatComesAfterTheArrivalIsToldOn) {  // LZ-5
  m.read(2, kX);
  for (const std::uint16_t c : clusters({2, 1, 0})) come(c);
  m.deliver(Kind::kBarrierArrive, 1);
  m.deliver(Kind::kBarrierArrive, 0);  // cluster 0 departs; its departure for 1 stays on the wire
  ASSERT_TRUE(m.engine(0).done(0));
  m.write(0, kX, 3);
  ASSERT_FALSE(m.engine(0).sync(0, {.op = SyncOp::kWordStore, .id = 1, .first = 1, .releases = true}));
  m.deliver(Kind::kWriteNotice, 1);
  m.deliver_all();  // now cluster 1 departs
  m.lock(1, 1);
  m.unlock(1, 1);
  m.lock(2, 1);
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.read(2, kX), 3);
}

TEST_F(Lazy, NoticesOfNeighbouringPagesShareAMessage) {  // LZ-3
  m.set_home(0, 8, 0);
  for (std::uint32_t page = 0; page < 4; ++page) m.read(1, page * kPageBytes);
  for (std::uint32_t page = 0; page < 4; ++page) m.write(0, page * kPageBytes, 1);
  m.lock(0, 0);
  m.unlock(0, 0);
  (void)m.engine(1).lock(0, LockId(0));
  m.deliver(Kind::kLockRequest, 0);
  m.transmit_all();
  EXPECT_EQ(m.count(Kind::kWriteNotice), 1u);
  m.deliver_all();
  for (std::uint32_t page = 0; page < 4; ++page) EXPECT_EQ(access(1, page), Access::kNone);
}

struct LazyHomes : Lazy {
  static EngineConfig config() {
    EngineConfig c = lazy();
    c.migrate_after = 2;
    return c;
  }
  LazyHomes() : Lazy(config()) { m.set_home(0, 1, 0); }
  void write_and_release(std::uint16_t cluster, std::uint8_t value) {
    m.write(cluster, kX, value);
    pass(cluster, cluster == 0 ? 1 : 0, cluster);
  }
};

TEST_F(LazyHomes, SecondReleaseOfTheOnlyWriterInvalidatesAndMovesTheHome) {  // LZ-6
  m.read(2, kX);
  write_and_release(1, 1);
  EXPECT_EQ(access(2), Access::kRead);
  write_and_release(1, 2);
  EXPECT_EQ(access(2), Access::kNone);
  EXPECT_EQ(m.engine(1).home(PageId(0)), ClusterId(1));
  EXPECT_EQ(invalidations(), 1u);
  EXPECT_EQ(m.read(2, kX), 2);
}

TEST_F(LazyHomes, PageThatNoClusterReadsAgainIsWrittenFreelyByItsHome) {  // LZ-6
  m.read(2, kX);
  write_and_release(0, 1);
  EXPECT_EQ(access(2), Access::kRead);
  write_and_release(0, 2);
  EXPECT_EQ(access(2), Access::kNone);
  m.write(0, kX, 3);
  const std::uint64_t faults = m.engine(0).node_counts(0).write_faults;
  write_and_release(0, 4);
  m.write(0, kX, 5);
  EXPECT_EQ(m.engine(0).node_counts(0).write_faults, faults);
}

TEST_F(LazyHomes, PageThatIsReadAgainIsNotInvalidated) {  // LZ-6
  for (std::uint8_t i = 1; i < 6; ++i) {
    m.read(2, kX);
    write_and_release(0, i);
    pass(0, 2, 2);
  }
  EXPECT_EQ(invalidations(), 0u);
}

TEST_F(Lazy, ForgedPlacesAndNoticesAreRefused) {  // LZ-3
  Engine& e = m.engine(2);
  const auto refused = [&](std::vector<std::byte> bytes) {
    const std::uint64_t before = e.counts().bad_messages;
    e.on_message(ClusterId(1), bytes);
    e.check();
    return e.counts().bad_messages - before;
  };
  const auto notice = [](std::uint32_t page, std::uint32_t number) {
    std::vector<std::byte> bytes(kHeaderBytes + kNoticePlaceBytes);
    write_header(bytes, {.kind = Kind::kWriteNotice, .id = page, .number = 1});
    store(&bytes[kHeaderBytes], number);
    return bytes;
  };
  const auto grant = [](std::uint32_t number, std::uint32_t notices, std::size_t place = kPlaceBytes) {
    std::vector<std::byte> bytes(kHeaderBytes + place);
    write_header(bytes, {.kind = Kind::kLockGrant, .id = 0});
    if (place != 0) store(&bytes[kHeaderBytes], number);
    if (place != 0) store(&bytes[kHeaderBytes + 4], notices);
    return bytes;
  };
  EXPECT_EQ(refused(notice(8, 1)), 1u);    // no such page
  EXPECT_EQ(refused(notice(0, 0)), 1u);    // of a message that was handled
  EXPECT_EQ(refused(notice(0, 9)), 1u);    // two compute nodes wait for eight messages at most
  EXPECT_EQ(refused(grant(1, 0, 0)), 1u);  // without a place
  EXPECT_EQ(refused(grant(1, 0)), 1u);     // can be handled, and was not requested
  EXPECT_EQ(refused(grant(3, 1)), 0u);     // waits for number 2
  EXPECT_EQ(refused(grant(3, 1)), 1u);     // twice
  EXPECT_EQ(refused(notice(0, 3)), 0u);
  EXPECT_EQ(refused(notice(0, 3)), 1u);  // more than the message has
  EXPECT_EQ(refused(notice(0, 4)), 0u);
  EXPECT_EQ(refused(grant(4, 0)), 1u);  // fewer than have come
  EXPECT_EQ(e.counts().bad_messages, 8u);
  expected_bad = 8;
  // An eager engine has no notices and no places.
  EngineConfig eager = lazy();
  eager.protocol = Protocol::kEager;
  EngineMachine other(eager);
  other.engine(2).on_message(ClusterId(1), notice(0, 1));
  other.engine(2).on_message(ClusterId(1), grant(1, 0));
  EXPECT_EQ(other.engine(2).counts().bad_messages, 2u);
}

}  // namespace
}  // namespace braid::dsm
