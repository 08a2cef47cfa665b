// The heap's two views of the same bytes, and what happens at the kernel's limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>

#include "dsm/live/failure.h"
#include "dsm/live/memory.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

volatile int* seen_at(PageId page) {
  return static_cast<volatile int*>(Memory::application_address(page));
}

TEST(Memory, StartsZeroedAtTheFixedAddress) {
  Result<Memory> memory = Memory::make(4);
  ASSERT_TRUE(memory.ok()) << memory.error().text;
  memory->protect(PageId(0), 4, Access::kRead);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(seen_at(PageId(0))), 0x7e9000000000u);
  for (std::uint32_t p = 0; p < 4; ++p) EXPECT_EQ(*seen_at(PageId(p)), 0);
}

TEST(Memory, BothViewsShowTheSameBytes) {
  Result<Memory> memory = Memory::make(2);
  ASSERT_TRUE(memory.ok());
  // The alias is writable while compute nodes may not even look.
  store(memory->page(PageId(1)), 41);
  memory->protect(PageId(1), 1, Access::kRead);
  EXPECT_EQ(*seen_at(PageId(1)), 41);
  memory->protect(PageId(1), 1, Access::kWrite);
  *seen_at(PageId(1)) = 42;
  EXPECT_EQ(load<int>(memory->page(PageId(1))), 42);
}

TEST(Memory, ForbidsWhatTheProtectionForbids) {
  const auto touch = [](Access access, bool write) {
    return in_a_process([=] {
      Result<Memory> memory = Memory::make(2);
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

TEST(Memory, KnowsItsAddresses) {
  Result<Memory> memory = Memory::make(3);
  ASSERT_TRUE(memory.ok());
  EXPECT_FALSE(memory->contains(kHeapAddress - 1));
  EXPECT_TRUE(memory->contains(kHeapAddress));
  EXPECT_TRUE(memory->contains(kHeapAddress + 3 * kPageBytes - 1));
  EXPECT_FALSE(memory->contains(kHeapAddress + 3 * kPageBytes));
  EXPECT_FALSE(memory->contains(0));
  EXPECT_EQ(Memory::page_of(kHeapAddress + 2 * kPageBytes + 5), PageId(2));
}

TEST(Memory, ATakenAddressIsRefusedAndNothingIsOverwritten) {
  {
    Result<Memory> first = Memory::make(2);
    ASSERT_TRUE(first.ok());
    first->protect(PageId(0), 2, Access::kWrite);
    *seen_at(PageId(0)) = 7;
    const Result<Memory> second = Memory::make(2);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(second.error().text, HasSubstr("0x7e9000000000 is taken in this process"));
    EXPECT_EQ(*seen_at(PageId(0)), 7);
  }
  EXPECT_TRUE(Memory::make(2).ok()) << "the first one gave its address back";
}

TEST(Memory, TheKernelsLimitOfMappingsIsNamedWithItsCure) {
  unsigned limit = 0;
  std::FILE* const file = std::fopen("/proc/sys/vm/max_map_count", "r");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fscanf(file, "%u", &limit), 1);
  std::fclose(file);
  if (limit > 1u << 20) GTEST_SKIP() << "a limit of " << limit << " mappings is too far away to meet";
  const Ending ending = in_a_process([&] {
    Result<Memory> memory = Memory::make(2 * limit);
    // Every other page differs from its neighbours, so none can share a mapping.
    for (std::uint32_t p = 0; p < 2 * limit; p += 2) memory->protect(PageId(p), 1, Access::kRead);
    return 0;
  });
  EXPECT_EQ(ending.exit_status, kFailureStatus) << ending.text;
  EXPECT_THAT(ending.text, HasSubstr("vm.max_map_count = " + std::to_string(limit)));
  EXPECT_THAT(ending.text, HasSubstr("sysctl -w vm.max_map_count="));
}

}  // namespace
}  // namespace braid::dsm
