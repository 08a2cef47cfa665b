// An engine allocates in its constructor and never again.
#include <gtest/gtest.h>

#include <array>

#include "engine_machine.h"
#include "tests/count_allocations.h"

namespace braid::dsm {
namespace {

TEST(Allocation, NoneAfterTheConstructor) {
  const EngineConfig config{.clusters = 3,
                            .compute_nodes = 2,
                            .pages = 32,
                            .locks = 5,
                            .barriers = 2,
                            .flush_window = 4,
                            .twins = 6,
                            .words = 5,
                            .flags = 5,
                            .semaphores = 5,
                            .conditions = 5};
  EngineMachine m(config);
  m.set_home(8, 8, 1);
  for (std::uint16_t c = 0; c < 3; ++c) m.engine(c).set_first_touch(PageId(16), 8);
  std::array<std::byte, kMaxMessageBytes> room;
  const auto deliver_all = [&] {
    for (bool any = true; any;) {
      any = false;
      for (std::uint16_t from = 0; from < 3; ++from)
        for (std::uint16_t to = 0; to < 3; ++to)
          while (m.engine(from).has_output(ClusterId(to))) {
            const std::size_t length = m.engine(from).poll_transmit(ClusterId(to), room);
            m.engine(to).on_message(ClusterId(from), ByteView(room).first(length));
            any = true;
          }
    }
  };
  std::size_t done = 0, called = 0;
  test::counting_allocations = true;
  for (std::uint32_t round = 0; round < 50; ++round) {
    for (std::uint16_t c = 0; c < 3; ++c) {
      (void)m.engine(c).lock(0, LockId(round % 5));
      deliver_all();
      for (std::uint32_t page = 0; page < 10; ++page) {  // more than there are twins
        const std::uint32_t p = (page * 3 + round) % 32;
        (void)m.engine(c).fault(0, PageId(p), Access::kWrite);
        (void)m.engine(c).fault(1, PageId((p + 7) % 32), Access::kRead);
        deliver_all();
        done += m.engine(c).done(0) && m.engine(c).done(1);
        if (m.may(c, p * kPageBytes, Access::kWrite)) m.memory(c).at(p * kPageBytes + c) ^= std::byte{1};
      }
      m.engine(c).unlock(0, LockId(round % 5));
      m.engine(c).on_message(ClusterId(static_cast<std::uint16_t>((c + 1) % 3)),
                             ByteView(room).first(7));  // nonsense
    }
    for (std::uint16_t c = 0; c < 3; ++c) {
      Engine& engine = m.engine(c);
      const std::uint32_t id = (round + c) % 5;
      for (const SyncOp op : {SyncOp::kWordAdd, SyncOp::kFlagSet, SyncOp::kFlagWait, SyncOp::kSemaphorePost,
                              SyncOp::kSemaphoreWait, SyncOp::kConditionBroadcast}) {
        (void)engine.sync(0, {.op = op, .id = id, .first = 1, .releases = true});
        deliver_all();
      }
      (void)engine.lock(0, LockId(id));
      deliver_all();
      (void)engine.sync(0, {.op = SyncOp::kConditionWait, .id = id, .lock = LockId(id)});
      deliver_all();
      (void)engine.sync(1, {.op = SyncOp::kConditionSignal, .id = id});
      deliver_all();
      called += engine.done(0) && engine.done(1);
      engine.unlock(0, LockId(id));
    }
    for (std::uint16_t c = 0; c < 3; ++c)
      for (std::uint16_t n = 0; n < 2; ++n)
        (void)m.engine(c).barrier(n, BarrierId(round % 2), Reduction::kSumInt64, 1);
    deliver_all();
  }
  test::counting_allocations = false;
  EXPECT_EQ(test::allocations, 0u);
  EXPECT_EQ(done, 50u * 3 * 10);
  EXPECT_EQ(called, 50u * 3);
  EXPECT_EQ(m.engine(2).result(1), 6u);
  EXPECT_TRUE(m.quiet());
  EXPECT_GT(m.engine(0).counts().diffs_applied, 0u);
  EXPECT_GT(m.engine(1).counts().homes_given, 0u);
  EXPECT_GT(m.engine(1).counts().forwarded, 0u);
}

}  // namespace
}  // namespace braid::dsm
