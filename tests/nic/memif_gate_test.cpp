// The gate that keeps DPDK's interrupt thread from unmapping a memif's rings while a queue is inside a burst.
#include "proxy/nic/memif_gate.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/check.h"

namespace braid::proxy {
namespace {

constexpr std::size_t kPage = 4096;

class Rings {
 public:
  Rings() : memory_(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    CHECK(memory_ != MAP_FAILED);
  }
  int unmap() { return MemifGate::unmap(memory_, kPage); }
  bool mapped() const { return ::msync(memory_, kPage, MS_ASYNC) == 0; }

 private:
  void* memory_;
};

struct MemifGateTest : testing::TestWithParam<bool> {
  // With the kernel's fences, and with locked instructions where it has none. Once chosen they stay.
  static void SetUpTestSuite() { gate = MemifGate::make(); }
  void SetUp() override {
    if (GetParam()) MemifGate::choose_fences();
  }
  static inline MemifGate* gate = nullptr;
};

TEST_P(MemifGateTest, AsksForTheLinkOnlyAfterSomethingWasUnmapped) {
  int asked = 0;
  const auto up = [&] { return ++asked > 0; };
  Rings rings;
  EXPECT_EQ(rings.unmap(), 0);
  asked = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(gate->enter(up));
    gate->leave();
  }
  EXPECT_EQ(asked, 1);
  Rings others;
  EXPECT_EQ(others.unmap(), 0);
  ASSERT_TRUE(gate->enter(up));
  gate->leave();
  EXPECT_EQ(asked, 2);
}

TEST_P(MemifGateTest, DownLinkIsNotEnteredAndIsCheckedEachTime) {
  Rings rings;
  EXPECT_EQ(rings.unmap(), 0);
  int asked = 0;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(gate->enter([&] { return ++asked < 0; }));
  EXPECT_EQ(asked, 3);
  Rings more;
  EXPECT_EQ(more.unmap(), 0);  // nobody is inside
  EXPECT_TRUE(gate->enter([] { return true; }));
  gate->leave();
}

TEST_P(MemifGateTest, UnmappingWaitsUntilTheOwnerHasLeft) {
  Rings rings;
  ASSERT_TRUE(gate->enter([] { return true; }));
  std::atomic<bool> unmapped{false};
  std::thread interrupt([&] {
    EXPECT_EQ(rings.unmap(), 0);
    unmapped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(unmapped);
  EXPECT_TRUE(rings.mapped());
  gate->leave();
  interrupt.join();
  EXPECT_FALSE(rings.mapped());
}

// An owner in a loop of bursts never touches rings that are gone: it would die of it.
TEST_P(MemifGateTest, ABurstNeverSeesUnmappedRings) {
  std::atomic<volatile char*> rings{nullptr};
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> bursts{0};
  std::thread owner([&] {
    while (!stop) {
      if (!gate->enter([&] { return rings.load() != nullptr; })) {
        std::this_thread::yield();
        continue;
      }
      volatile char* const memory = rings.load();
      if (memory != nullptr) memory[0] = static_cast<char>(memory[1] + 1);
      gate->leave();
      ++bursts;
    }
  });
  for (int round = 0; round < 20; ++round) {
    void* const memory = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    const std::uint64_t before = bursts;
    rings = static_cast<char*>(memory);
    while (bursts < before + 2) std::this_thread::yield();
    rings = nullptr;  // the link is down
    ASSERT_EQ(MemifGate::unmap(memory, kPage), 0);
  }
  stop = true;
  owner.join();
  EXPECT_GE(bursts, 40u);
}

INSTANTIATE_TEST_SUITE_P(Fences, MemifGateTest, testing::Values(false, true),
                         [](const auto& test) { return test.param ? "OfTheKernel" : "LockedInstructions"; });

}  // namespace
}  // namespace braid::proxy
