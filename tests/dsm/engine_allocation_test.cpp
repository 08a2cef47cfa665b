// An engine allocates in its constructor and never again, and what it reserved there stays small.
//
//   BRAID_LOCK_OPERATIONS=n    makes that many lock operations while a cluster does not synchronise
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "engine_machine.h"
#include "tests/count_allocations.h"
#include "tests/dsm/page_bytes.h"

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
  std::array<std::byte, max_message_bytes(PageLength())> room;
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

std::size_t resident_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  std::size_t all = 0, resident = 0;
  const bool read = file != nullptr && std::fscanf(file, "%zu %zu", &all, &resident) == 2;
  if (file != nullptr) std::fclose(file);
  EXPECT_TRUE(read);
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Four clusters, of which the last has copies of the pages and then does not synchronise. The others count under locks,
// four times in each stay of a token, and write a page of their own.
class Counting {
 public:
  static constexpr std::uint16_t kClusters = 4, kSilent = 3;
  static constexpr std::uint32_t kLocks = 8, kPages = 64, kUsesOfAStay = 4;

  std::uint64_t noticed = 0;  // pages of which the silent cluster was told

  Counting() : m_(config()) {}
  Engine& engine(std::uint16_t cluster) { return m_.engine(cluster); }

  void copy_all() {
    for (std::uint32_t page = 0; page < kPages; ++page) open(kSilent, page, Access::kRead);
  }
  // Stay number `stay`, of all.
  void stay(std::uint64_t stay) {
    const auto cluster = static_cast<std::uint16_t>(stay % 3);
    const auto lock = static_cast<std::uint32_t>(stay / 3 % kLocks);
    for (std::uint32_t use = 0; use < kUsesOfAStay; ++use) {
      take(cluster, lock);
      add(cluster, lock);
      open(cluster, kLocks + static_cast<std::uint32_t>(stay % (kPages - kLocks)), Access::kWrite);
      m_.memory(cluster).at((kLocks + stay % (kPages - kLocks)) * kPageBytes + cluster) ^= std::byte{1};
      engine(cluster).unlock(0, LockId(lock));
    }
  }
  void take(std::uint16_t cluster, std::uint32_t lock) {
    if (engine(cluster).lock(0, LockId(lock))) return;
    deliver();
    CHECK(engine(cluster).done(0));
  }
  std::uint64_t count(std::uint16_t cluster, std::uint32_t lock) {
    open(cluster, lock, Access::kRead);
    return load<std::uint64_t>(&m_.memory(cluster).at(std::size_t{lock} * kPageBytes));
  }
  void deliver() {
    for (bool any = true; any;) {
      any = false;
      for (std::uint16_t from = 0; from < kClusters; ++from)
        engine(from).output_clusters().for_each([&](ClusterId to) {
          const ByteView bytes = ByteView(room_).first(engine(from).poll_transmit(to, room_));
          if (to.value() == kSilent) note(bytes);
          engine(to.value()).on_message(ClusterId(from), bytes);
          any = true;
        });
    }
  }
  bool quiet() const { return m_.quiet(); }
  std::uint64_t bad_messages() const { return m_.bad_messages(); }

 private:
  static EngineConfig config() {
    return {.clusters = kClusters,
            .protocol = Protocol::kLazy,
            .pages = kPages,
            .locks = kLocks,
            .twins = kPages,
            .pack = false};
  }
  void note(ByteView bytes) {
    const auto message = parse(PageLength(), bytes);
    if (message->header.kind == Kind::kWriteNotice)
      noticed += RunVersions{0, message->payload.subspan(kNoticePlaceBytes)}.pages();
  }
  void open(std::uint16_t cluster, std::uint32_t page, Access wanted) {
    while (m_.memory(cluster).access(page) < wanted) {
      if (!engine(cluster).fault(0, PageId(page), wanted)) deliver();
      CHECK(engine(cluster).done(0));
    }
  }
  void add(std::uint16_t cluster, std::uint32_t lock) {
    open(cluster, lock, Access::kWrite);
    std::byte* const at = &m_.memory(cluster).at(std::size_t{lock} * kPageBytes);
    store(at, load<std::uint64_t>(at) + 1);
  }

  EngineMachine m_;
  std::array<std::byte, max_message_bytes(PageLength())> room_;
};

TEST(Allocation, MemoryIsBoundedWhileAClusterDoesNotSynchronise) {  // LZ-2
  const char* const told = std::getenv("BRAID_LOCK_OPERATIONS");
  const std::uint64_t operations = told == nullptr ? 1'000'000 : std::strtoull(told, nullptr, 10);
  const std::uint64_t stays = operations / Counting::kUsesOfAStay;
  const std::uint64_t warm =
      3 * Counting::kLocks * Counting::kPages;  // each cluster has used each page with each lock
  ASSERT_GT(stays, 2 * warm);
  Counting machine;
  machine.copy_all();
  std::uint64_t stay = 0;
  for (; stay < warm; ++stay) machine.stay(stay);
  const std::size_t resident = resident_bytes();
  test::allocations = 0;
  test::counting_allocations = true;
  for (; stay < stays; ++stay) machine.stay(stay);
  test::counting_allocations = false;
  EXPECT_EQ(test::allocations, 0u);
  EXPECT_LE(resident_bytes(), resident + (256u << 10)) << "after " << operations << " lock operations";
  EXPECT_EQ(machine.noticed, 0u) << "it has acquired nothing";

  // Now it hears of each page once, however often that was written, and sees everything.
  std::uint64_t counted = 0;
  for (std::uint32_t lock = 0; lock < Counting::kLocks; ++lock) {
    machine.take(Counting::kSilent, lock);
    counted += machine.count(Counting::kSilent, lock);
    machine.engine(Counting::kSilent).unlock(0, LockId(lock));
  }
  EXPECT_EQ(counted, stays * Counting::kUsesOfAStay);
  EXPECT_GT(machine.noticed, 0u);
  EXPECT_LE(machine.noticed, std::uint64_t{Counting::kPages} * (Counting::kClusters - 1))
      << "once from each cluster";
  machine.deliver();
  EXPECT_TRUE(machine.quiet());
  EXPECT_EQ(machine.bad_messages(), 0u);
}

}  // namespace
}  // namespace braid::dsm
