// Diffs of pages: one end stores exactly the bytes that the other has written.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "dsm/engine/diff.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

using PageBytes = std::vector<std::byte>;

PageBytes empty_page(std::size_t bytes = kPageBytes) {
  return PageBytes(bytes);
}

PageBytes random_page(Prng& random, std::size_t bytes = kPageBytes) {
  PageBytes page(bytes);
  for (auto& b : page) b = static_cast<std::byte>(random.next());
  return page;
}

struct Encoded {
  EncodedDiff diff;
  std::vector<std::byte> room;
  ByteView bytes() const { return ByteView(room).first(diff.bytes); }
};

Encoded encode(const PageBytes& page, const PageBytes& twin) {
  Encoded e;
  const PageLength length(page.size());
  e.room.resize(max_diff_bytes(length));
  e.diff = encode_diff(length, page.data(), twin.data(), e.room);
  return e;
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> v;
  for (const int i : values) v.push_back(static_cast<std::byte>(i));
  return v;
}

TEST(Diff, DiffOfEqualPagesIsEmpty) {
  Prng random(1);
  const PageBytes page = random_page(random);
  EXPECT_EQ(encode(page, page).diff.bytes, 0u);
}

TEST(Diff, DiffOfOneByteIsARunOfFiveBytes) {
  PageBytes twin = empty_page(), page = empty_page();
  page[4095] = std::byte{7};
  const Encoded e = encode(page, twin);
  EXPECT_EQ(e.diff.format, DiffFormat::kRuns);
  EXPECT_EQ(std::vector(e.bytes().begin(), e.bytes().end()), bytes({0xff, 0x0f, 1, 0, 7}));
}

TEST(Diff, DiffOfAllBytesIsOneRun) {
  const PageBytes twin = empty_page(), page(kPageBytes, std::byte{1});
  const Encoded e = encode(page, twin);
  EXPECT_EQ(e.diff.format, DiffFormat::kRuns);
  EXPECT_EQ(e.diff.bytes, kPageBytes + 4);
}

TEST(Diff, DiffOfAllBytesOfTheLongestPageIsOneRunOfLengthZero) {  // PG-29
  constexpr std::size_t kBytes = PageLength::kMostBytes;
  const Encoded e = encode(PageBytes(kBytes, std::byte{1}), empty_page(kBytes));
  EXPECT_EQ(e.diff.bytes, kBytes + 4);
  EXPECT_EQ(load<std::uint16_t>(&e.room[2]), 0u);
  PageBytes home = empty_page(kBytes);
  EXPECT_TRUE(apply_diff(PageLength(kBytes), e.diff.format, e.bytes(), home.data()));
  EXPECT_EQ(home, PageBytes(kBytes, std::byte{1}));
  EXPECT_FALSE(apply_diff(PageLength(kBytes / 2), e.diff.format, e.bytes(), home.data()));
}

TEST(Diff, DiffOfEverySecondByteIsAMask) {
  PageBytes twin = empty_page(), page = empty_page();
  for (std::size_t i = 0; i < kPageBytes; i += 2) page[i] = std::byte{9};
  const Encoded e = encode(page, twin);
  EXPECT_EQ(e.diff.format, DiffFormat::kMask);
  EXPECT_EQ(e.diff.bytes, PageLength().mask_bytes() + kPageBytes / 2);
}

TEST(Diff, ChoosesTheShorterFormat) {
  PageBytes twin = empty_page(), page = empty_page();
  for (std::size_t i = 0; i < 128; ++i) page[i * 3] = std::byte{1};
  EXPECT_EQ(encode(page, twin).diff.format, DiffFormat::kRuns);
  page[128 * 3] = std::byte{1};
  EXPECT_EQ(encode(page, twin).diff.format, DiffFormat::kMask);
}

// Every density of changes, in both forms, over a home that another cluster has written meanwhile.
TEST(Diff, StoresChangedBytesAndNoOthers) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Prng random(seed);
    const std::size_t bytes = seed % 8 != 0 ? kPageBytes : PageLength::kLeastBytes << random.below(7);
    const PageBytes twin = random_page(random, bytes);
    PageBytes page = twin;
    const double density = random.uniform() * random.uniform();
    const std::size_t length = 1 + random.below(24);
    std::vector<bool> changed(bytes);
    for (std::size_t i = 0; i < bytes; i += 1 + random.below(length)) {
      if (!random.chance(density)) continue;
      for (std::size_t k = i; k < std::min(i + length, bytes); ++k) {
        page[k] = ~twin[k];
        changed[k] = true;
      }
    }
    const Encoded e = encode(page, twin);
    ASSERT_LE(e.diff.bytes, max_diff_bytes(PageLength(bytes)));
    PageBytes home = random_page(random, bytes);
    const PageBytes before = home;
    ASSERT_TRUE(apply_diff(PageLength(bytes), e.diff.format, e.bytes(), home.data())) << "seed " << seed;
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(home[i], changed[i] ? page[i] : before[i]) << "seed " << seed << " byte " << i;
  }
}

TEST(Diff, RefusesInvalidRunsAndStoresNothing) {
  const std::vector<std::vector<std::byte>> wrong = {
      bytes({1}),                                     // cut in the header
      bytes({1, 0, 2, 0, 5}),                         // cut in the bytes
      bytes({1, 0, 0, 0}),                            // a run of nothing
      bytes({0xff, 0x0f, 2, 0, 5, 5}),                // over the end of the page
      bytes({0x00, 0x10, 1, 0, 5}),                   // behind it
      bytes({9, 0, 1, 0, 5, 9, 0, 1, 0, 6}),          // the same byte twice
      bytes({9, 0, 1, 0, 5, 3, 0, 1, 0, 6}),          // backwards
      bytes({9, 0, 1, 0, 5, 0xff, 0xff, 0xff, 0xff})  // good, then nonsense
  };
  for (const auto& diff : wrong) {
    PageBytes home = empty_page();
    EXPECT_FALSE(apply_diff(PageLength(), DiffFormat::kRuns, diff, home.data()));
    EXPECT_EQ(home, empty_page());
  }
}

TEST(Diff, RefusesAMaskWithTooFewOrTooManyBytes) {
  PageBytes home = empty_page();
  std::vector<std::byte> diff(PageLength().mask_bytes() + 3, std::byte{0});
  diff[0] = std::byte{0b1010'0001};
  EXPECT_TRUE(apply_diff(PageLength(), DiffFormat::kMask, diff, home.data()));
  home = empty_page();
  diff.push_back(std::byte{1});
  EXPECT_FALSE(apply_diff(PageLength(), DiffFormat::kMask, diff, home.data()));
  EXPECT_FALSE(apply_diff(PageLength(), DiffFormat::kMask,
                          ByteView(diff).first(PageLength().mask_bytes() + 2), home.data()));
  EXPECT_FALSE(apply_diff(PageLength(), DiffFormat::kMask,
                          ByteView(diff).first(PageLength().mask_bytes() - 1), home.data()));
  EXPECT_EQ(home, empty_page());
}

TEST(Diff, ApplyingRandomBytesIsSafe) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Prng random(seed);
    std::vector<std::byte> diff(random.below(700));
    for (auto& b : diff) b = static_cast<std::byte>(random.next() & random.next());
    PageBytes home = empty_page();
    const auto format = random.chance(0.5) ? DiffFormat::kRuns : DiffFormat::kMask;
    const bool stored = apply_diff(PageLength(), format, diff, home.data());
    EXPECT_TRUE(stored || home == empty_page()) << "seed " << seed;
  }
}

TEST(Diff, DiffLongerThanTheRoomIsOnlyMeasured) {
  Prng random(5);
  for (const std::uint64_t changed_in : {900u, 3u}) {  // runs, and a mask
    const PageBytes twin = random_page(random);
    PageBytes page = twin;
    for (auto& b : page)
      if (random.below(changed_in) == 0) b ^= std::byte{1};
    const Encoded whole = encode(page, twin);
    std::vector<std::byte> room(whole.diff.bytes);
    EXPECT_EQ(encode_diff(PageLength(), page.data(), twin.data(), room).bytes, whole.diff.bytes);
    EXPECT_TRUE(std::equal(room.begin(), room.end(), whole.bytes().begin()));
    const std::vector<std::byte> marked(room.size() - 1, std::byte{0x5a});
    std::vector<std::byte> less = marked;
    EXPECT_EQ(encode_diff(PageLength(), page.data(), twin.data(), less).bytes, whole.diff.bytes);
    EXPECT_EQ(less, marked);
  }
}

}  // namespace
}  // namespace braid::dsm
