#include "base/zeroed_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace braid {
namespace {

struct Entry {
  std::uint64_t a = 0;
  std::uint32_t b = 0;
};

TEST(ZeroedTable, EveryEntryBeginsAsZeroAndKeepsWhatIsWritten) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{1} << 20}) {
    ZeroedTable<Entry> table(size);
    EXPECT_EQ(table.size(), size);
    EXPECT_TRUE(std::all_of(table.begin(), table.end(), [](const Entry& e) { return e.a == 0 && e.b == 0; }));
    table[0].b = 7;
    table[size - 1].a = 8;
    EXPECT_EQ(table[size - 1].a, 8u);
    ZeroedTable<Entry> moved(std::move(table));
    EXPECT_EQ(moved[size - 1].a, 8u);
    table = std::move(moved);
    EXPECT_EQ(table.size(), size);
    EXPECT_EQ(table[size - 1].a, 8u);
  }
}

TEST(ZeroedTable, NoEntriesAreATable) {
  const ZeroedTable<Entry> table;
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.begin(), table.end());
}

TEST(ZeroedTable, AVeryLargeTableTakesTheMemoryOfUsedEntries) {
  constexpr std::size_t kSize = std::size_t{1} << 28, kPage = 4096;
  ZeroedTable<Entry> table(kSize);
  for (std::size_t i = 0; i < kSize; i += kSize / 16) table[i].a = i + 1;
  const auto resident = [&](std::size_t i) {
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(&table[i]) / kPage * kPage;
    unsigned char is = 0;
    EXPECT_EQ(::mincore(reinterpret_cast<void*>(page), kPage, &is), 0);  // NOLINT
    return (is & 1) != 0;
  };
  EXPECT_TRUE(resident(0));
  EXPECT_TRUE(resident(kSize / 16));
  EXPECT_FALSE(resident(kSize / 32)) << "between two that are used";
}

}  // namespace
}  // namespace braid
