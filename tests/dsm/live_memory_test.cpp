// The two mappings of the heap, protections, and the kernel's limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "dsm/live/memory.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

volatile int* seen_at(PageId page) {
  return static_cast<volatile int*>(application_address(page));
}

class MemoryBy : public testing::TestWithParam<Protection> {
 protected:
  void SetUp() override {
    if (const Result<Memory> tried = Memory::make(1, GetParam()); !tried) GTEST_SKIP() << tried.error().text;
  }
};
INSTANTIATE_TEST_SUITE_P(Protections, MemoryBy,
                         testing::Values(Protection::kMprotect, Protection::kUserfaultfd),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

TEST_P(MemoryBy, StartsZeroedAtTheFixedAddress) {
  Result<Memory> memory = Memory::make(4, GetParam());
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  memory->protect(PageId(0), 4, Access::kRead);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen_at(PageId(0))), 0x7e9000000000u);
  for (std::uint32_t p = 0; p < 4; ++p) EXPECT_EQ(*seen_at(PageId(p)), 0);
}

TEST_P(MemoryBy, BothViewsShowTheSameBytes) {
  Result<Memory> memory = Memory::make(2, GetParam());
  ASSERT_TRUE(memory.ok());
  // The alias is writable while compute nodes may not even read.
  store(memory->page(PageId(1)), 41);
  memory->protect(PageId(1), 1, Access::kRead);
  EXPECT_EQ(*seen_at(PageId(1)), 41);
  memory->protect(PageId(1), 1, Access::kWrite);
  *seen_at(PageId(1)) = 42;
  EXPECT_EQ(load<int>(memory->page(PageId(1))), 42);
}

TEST_P(MemoryBy, ForbidsAccessesAccordingToTheProtection) {
  const auto touch = [](Access access, bool write) {
    return in_a_process([=] {
      Result<Memory> memory = Memory::make(2, GetParam());
      memory->protect(PageId(0), 2, access);
      if (write) *seen_at(PageId(1)) = 1;
      return *seen_at(PageId(1)) == (write ? 1 : 0) ? 0 : 1;
    });
  };
  EXPECT_TRUE(crashed(touch(Access::kNone, false)));
  EXPECT_EQ(touch(Access::kRead, false).exit_status, 0);
  EXPECT_TRUE(crashed(touch(Access::kRead, true)));
  EXPECT_EQ(touch(Access::kWrite, true).exit_status, 0);
}

TEST_P(MemoryBy, EveryChangeTakesEffectAndKeepsTheBytes) {
  constexpr Access kAll[] = {Access::kNone, Access::kRead, Access::kWrite};
  for (const Access from : kAll) {
    for (const Access to : kAll) {
      const auto touch = [&](bool write) {
        return in_a_process([=] {
          Result<Memory> memory = Memory::make(3, GetParam());
          // In the middle of a run, after accesses as far as `from` allows them.
          store(memory->page(PageId(1)), 5);
          memory->protect(PageId(1), 1, from);
          if (from != Access::kNone && *seen_at(PageId(1)) != 5) return 2;
          if (from == Access::kWrite) *seen_at(PageId(1)) = 5;
          memory->protect(PageId(0), 3, to);
          if (write) *seen_at(PageId(1)) = 6;
          return *seen_at(PageId(1)) == (write ? 6 : 5) ? 0 : 1;
        });
      };
      SCOPED_TRACE(testing::Message() << "from " << int(from) << " to " << int(to));
      const Ending read = touch(false), written = touch(true);
      EXPECT_EQ(crashed(read), to == Access::kNone) << read.text;
      EXPECT_EQ(crashed(written), to != Access::kWrite) << written.text;
      EXPECT_EQ(read.exit_status == 0, to != Access::kNone);
      EXPECT_EQ(written.exit_status == 0, to == Access::kWrite);
    }
  }
}

TEST_P(MemoryBy, LongerPageOpensAndClosesAsAWhole) {
  constexpr int kLongest = 65536 / sizeof(int), kNowhere = -1;
  for (const std::size_t bytes : {8192u, 16384u, 65536u}) {
    const auto touch = [&](int closed) {
      return in_a_process([=] {
        set_page_length(PageLength(bytes));
        Result<Memory> memory = Memory::make(4, GetParam());
        if (!memory) return 1;
        const std::size_t ints = bytes / sizeof(int);
        volatile int* const seen = seen_at(PageId(1));
        store(memory->page(PageId(1)) + bytes - sizeof(int), 41);
        memory->warm(PageId(2));
        memory->protect(PageId(1), 2, Access::kWrite);
        memory->protect_later(PageId(3), 1, Access::kRead);
        (void)memory->reveal(PageId(3), false);
        if (seen[ints - 1] != 41 || seen[2 * ints - 1] != 0 || seen[3 * ints - 1] != 0) return 2;
        seen[ints] = 7;
        seen[2 * ints - 1] = 7;
        memory->protect(PageId(1), 1, Access::kNone);
        if (seen[ints] != 7 || load<int>(memory->page(PageId(3)) - sizeof(int)) != 7) return 3;
        return closed == kNowhere ? 0 : seen[static_cast<std::size_t>(closed) % ints];
      });
    };
    SCOPED_TRACE(bytes);
    EXPECT_EQ(touch(kNowhere).exit_status, 0);
    for (const int part : {0, 1024, kLongest - 1}) EXPECT_TRUE(crashed(touch(part))) << part;
  }
}

TEST_P(MemoryBy, WarmingAPageAllocatesItAndChangesNothing) {
  Result<Memory> memory = Memory::make(3, GetParam());
  ASSERT_TRUE(memory.ok());
  store(memory->page(PageId(1)), 41);
  const auto exists = [&](PageId page) {
    unsigned char resident = 0;
    EXPECT_EQ(::mincore(memory->page(page), kPageBytes, &resident), 0);
    return (resident & 1) != 0;
  };
  EXPECT_FALSE(exists(PageId(2)));
  for (std::uint32_t p = 1; p < 3; ++p) memory->warm(PageId(p));
  EXPECT_TRUE(exists(PageId(2)));
  memory->protect(PageId(1), 2, Access::kRead);
  EXPECT_EQ(*seen_at(PageId(1)), 41);
  EXPECT_EQ(*seen_at(PageId(2)), 0);
}

TEST_P(MemoryBy, KnowsItsAddresses) {
  Result<Memory> memory = Memory::make(3, GetParam());
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(in_heap(kHeapAddress - 1, memory->pages()));
  EXPECT_TRUE(in_heap(kHeapAddress, memory->pages()));
  EXPECT_TRUE(in_heap(kHeapAddress + 3 * kPageBytes - 1, memory->pages()));
  EXPECT_FALSE(in_heap(kHeapAddress + 3 * kPageBytes, memory->pages()));
  EXPECT_FALSE(in_heap(0, memory->pages()));
  EXPECT_EQ(page_of(kHeapAddress + 2 * kPageBytes + 5), PageId(2));
}

TEST_P(MemoryBy, OccupiedAddressIsRefusedAndNothingIsOverwritten) {
  {
    Result<Memory> first = Memory::make(2, GetParam());
    ASSERT_TRUE(first.ok());
    first->protect(PageId(0), 2, Access::kWrite);
    *seen_at(PageId(0)) = 7;
    const Result<Memory> second = Memory::make(2, GetParam());
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().text, HasSubstr("0x7e9000000000 is taken in this process"));
    EXPECT_EQ(*seen_at(PageId(0)), 7);
  }
  EXPECT_TRUE(Memory::make(2, GetParam()).ok()) << "the first one gave its address back";
}

// Globals of a program that has four pages of them, with `first` at their beginning.
int* make_globals(int first) {
  void* const place =
      ::mmap(nullptr, 4 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  set_globals_window({reinterpret_cast<std::uintptr_t>(place), 4});
  *static_cast<int*>(place) = first;
  return static_cast<int*>(place);
}

TEST_P(MemoryBy, GlobalsAreTheFirstPages) {
  const Ending ending = in_a_process([] {
    int* const globals = make_globals(5);
    const auto at = reinterpret_cast<std::uintptr_t>(globals);
    if (application_address(PageId(3)) != globals + 3 * kPageBytes / sizeof(int)) return 1;
    if (reinterpret_cast<std::uintptr_t>(application_address(PageId(4))) != kHeapAddress) return 2;
    if (!in_heap(at, 10) || !in_heap(at + 4 * kPageBytes - 1, 10) || in_heap(at + 4 * kPageBytes, 10) ||
        in_heap(at - 1, 10))
      return 3;
    if (!in_heap(kHeapAddress + 6 * kPageBytes - 1, 10) || in_heap(kHeapAddress + 6 * kPageBytes, 10))
      return 4;
    if (page_of(at + 3 * kPageBytes) != PageId(3) || page_of(kHeapAddress) != PageId(4)) return 5;
    return in_heap(kHeapAddress, 0) || !in_heap(at, 0) ? 6 : 0;
  });
  EXPECT_EQ(ending.exit_status, 0) << ending.text;
}

TEST_P(MemoryBy, OpenedGlobalsHaveTheProtectionsThatWereSetBefore) {
  for (const bool write : {false, true}) {
    const Ending ending = in_a_process([=] {
      volatile int* const globals = make_globals(5);
      constexpr std::size_t kInts = kPageBytes / sizeof(int);
      Result<Memory> memory = Memory::make(10, GetParam());
      if (!memory) return 1;
      memory->protect_later(PageId(1), 5, Access::kWrite);
      memory->protect(PageId(3), 1, Access::kRead);
      globals[0] = 6;  // they are private still
      store(memory->page(PageId(0)), 60);
      store(memory->page(PageId(1)), 61);
      store(memory->page(PageId(3)), 63);
      if (!memory->open_globals().ok()) return 2;
      (void)memory->reveal(PageId(1), true);
      (void)memory->reveal(PageId(3), false);
      (void)memory->reveal(PageId(5), true);
      if (globals[kInts] != 61 || globals[3 * kInts] != 63 || *seen_at(PageId(5)) != 0) return 3;
      globals[kInts] = 71;
      *seen_at(PageId(5)) = 75;
      memory->protect(PageId(2), 4, Access::kRead);  // from the globals into the heap behind them
      if (globals[3 * kInts] != 63 || *seen_at(PageId(5)) != 75) return 4;
      if (write) *seen_at(PageId(5)) = 0;
      return load<int>(memory->page(PageId(1))) == 71 ? 0 : 5;
    });
    EXPECT_EQ(crashed(ending), write) << ending.text;
    if (!write) {
      EXPECT_EQ(ending.exit_status, 0) << ending.text;
    }
  }
  // Nothing was allowed for the first page.
  EXPECT_TRUE(crashed(in_a_process([] {
    volatile int* const globals = make_globals(5);
    Result<Memory> memory = Memory::make(10, GetParam());
    return memory->open_globals().ok() ? globals[0] : 1;
  })));
}

TEST_P(MemoryBy, GlobalsArePrivateAgainWhenTheHeapHasGone) {
  for (const bool closes_descriptors : {false, true}) {
    const Ending ending = in_a_process([=] {
      volatile int* const globals = make_globals(5);
      {
        Result<Memory> memory = Memory::make(10, GetParam());
        if (!memory.ok() || !memory->open_globals().ok()) return 1;
        memory->protect(PageId(0), 1, Access::kWrite);
        globals[0] = 7;
        store(memory->page(PageId(2)), 8);
        if (closes_descriptors) ::close_range(3, ~0u, 0);
      }
      globals[1] = 9;
      return globals[0] == 7 && globals[1] == 9 && globals[2 * kPageBytes / sizeof(int)] == 8 ? 0 : 2;
    });
    EXPECT_EQ(ending.exit_status, 0) << ending.text;
  }
}

bool has_memory(Memory& memory, std::uint32_t page) {
  unsigned char resident = 0;
  EXPECT_EQ(::mincore(memory.page(PageId(page)), kPageBytes, &resident), 0);
  return (resident & 1) != 0;
}
std::uint32_t pages_with_memory(Memory& memory) {
  std::uint32_t all = 0;
  for (std::uint32_t p = 0; p < memory.pages(); ++p) all += has_memory(memory, p);
  return all;
}

TEST(Memory, PagesForLaterTakeMemoryWhenTheyAreRevealed) {
  Result<Memory> made = Memory::make(1000, Protection::kUserfaultfd);
  if (!made) GTEST_SKIP() << made.error().text;
  Memory& memory = *made;
  const std::uint32_t before = pages_with_memory(memory);  // one was tried
  memory.protect_later(PageId(100), 800, Access::kWrite);
  EXPECT_EQ(pages_with_memory(memory), before);
  EXPECT_FALSE(memory.reveal(PageId(99), false)) << "no access is allowed";
  EXPECT_TRUE(memory.reveal(PageId(500), true));
  EXPECT_FALSE(memory.reveal(PageId(500), true)) << "it is shown";
  *seen_at(PageId(500)) = 5;
  EXPECT_EQ(pages_with_memory(memory), before + 1);
  // In order, several at a time, up to the next page that must not be delayed.
  EXPECT_TRUE(memory.reveal(PageId(501), false));
  *seen_at(PageId(516)) = 6;
  EXPECT_EQ(pages_with_memory(memory), before + 17);
  EXPECT_TRUE(memory.reveal(PageId(898), false));
  EXPECT_TRUE(memory.reveal(PageId(899), false));
  EXPECT_FALSE(has_memory(memory, 900));
}

TEST(Memory, PagesForLaterFollowEveryChangeOfTheirProtection) {
  for (const bool write : {false, true}) {
    const Ending ending = in_a_process([=] {
      Result<Memory> made = Memory::make(100, Protection::kUserfaultfd);
      if (!made) return 77;
      Memory& memory = *made;
      memory.protect_later(PageId(0), 100, Access::kWrite);
      memory.protect(PageId(10), 20, Access::kRead);  // still hidden, and readable only
      if (has_memory(memory, 12) || memory.reveal(PageId(12), true)) return 1;
      memory.protect(PageId(12), 1, Access::kWrite);  // more is allowed: somebody needs it
      *seen_at(PageId(12)) = 12;
      memory.protect(PageId(40), 1, Access::kNone);
      if (memory.reveal(PageId(40), false) || has_memory(memory, 40)) return 2;
      memory.protect_later(PageId(12), 1, Access::kRead);  // shown pages stay shown
      if (*seen_at(PageId(12)) != 12) return 3;
      if (!memory.reveal(PageId(20), false) || *seen_at(PageId(20)) != 0) return 4;
      store(memory.page(PageId(50)), 41);  // hidden, and written by another cluster
      if (!memory.reveal(PageId(50), true) || *seen_at(PageId(50)) != 41) return 5;
      if (write) *seen_at(PageId(20)) = 1;
      return 0;
    });
    if (ending.exit_status == 77) GTEST_SKIP() << "no userfaultfd";
    EXPECT_EQ(crashed(ending), write) << ending.text;
    if (!write) {
      EXPECT_EQ(ending.exit_status, 0) << ending.text;
    }
  }
}

TEST(Memory, TheKernelsLimitOfMappingsIsNamedWithItsCure) {
  unsigned limit = 0;
  std::FILE* const file = std::fopen("/proc/sys/vm/max_map_count", "r");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fscanf(file, "%u", &limit), 1);
  std::fclose(file);
  if (limit > 1u << 20) GTEST_SKIP() << "a limit of " << limit << " mappings is too far away to meet";
  const Ending ending = in_a_process([&] {
    Result<Memory> memory = Memory::make(2 * limit, Protection::kMprotect);
    // Every other page differs from its neighbours, so none can share a mapping.
    for (std::uint32_t p = 0; p < 2 * limit; p += 2) memory->protect(PageId(p), 1, Access::kRead);
    return 0;
  });
  EXPECT_EQ(ending.exit_status, kFailureStatus) << ending.text;
  EXPECT_THAT(ending.text, HasSubstr("vm.max_map_count = " + std::to_string(limit)));
  EXPECT_THAT(ending.text, HasSubstr("sysctl -w vm.max_map_count="));
  EXPECT_THAT(ending.text, HasSubstr("BRAID_PROTECTION=userfaultfd"));
}

// Four times as many as the kernel's usual limit of mappings.
TEST(Memory, UserfaultfdKeepsAGigabyteOfAlternatingProtectionsApart) {
  constexpr std::uint32_t kPages = (1u << 30) / kPageBytes;
  Result<Memory> memory = Memory::make(kPages, Protection::kUserfaultfd);
  if (!memory) GTEST_SKIP() << memory.error().text;
  for (std::uint32_t p = 0; p < kPages; p += 2)
    memory->protect(PageId(p), 1, p % 4 == 0 ? Access::kRead : Access::kWrite);
  for (std::uint32_t p = 2; p < kPages; p += 4) *seen_at(PageId(p)) = static_cast<int>(p);
  for (std::uint32_t p = 0; p < kPages; p += 2)
    ASSERT_EQ(*seen_at(PageId(p)), p % 4 == 0 ? 0 : static_cast<int>(p));
  memory->protect(PageId(0), kPages, Access::kNone);
  EXPECT_EQ(load<int>(memory->page(PageId(6))), 6);
}

}  // namespace
}  // namespace braid::dsm
