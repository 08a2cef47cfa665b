// The Internet checksum against its definition: every short length, every alignment, long runs, extreme
// words.
#include "stack/wire/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "wire_bytes.h"

namespace braid::stack {
namespace {

// In the order of the wire, as the RFCs print it.
std::uint16_t checksum_of(ByteView message) {
  return swapped(checksum_field(checksum_add(0, message)));
}

// Every test runs with each way to sum long runs that this processor has.
class Checksum : public testing::TestWithParam<ChecksumRuns> {
 protected:
  Checksum() : before_(use_checksum_runs(GetParam())) {}
  ~Checksum() override { use_checksum_runs(before_); }

 private:
  ChecksumRuns before_;
};
class CopyAndSum : public Checksum {};

std::string instructions(const testing::TestParamInfo<ChecksumRuns>& info) {
  std::string name = info.param.instructions;
  std::erase(name, '.');
  return name;
}
const auto kRuns = testing::ValuesIn(checksum_runs().begin(), checksum_runs().end());
INSTANTIATE_TEST_SUITE_P(, Checksum, kRuns, instructions);
INSTANTIATE_TEST_SUITE_P(, CopyAndSum, kRuns, instructions);

TEST_P(Checksum, ExampleOfRfc1071IsRight) {
  const Bytes example = bytes({0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7});
  EXPECT_EQ(swapped(checksum_fold(checksum_add(0, example))), 0xddf2);
  EXPECT_EQ(checksum_of(example), 0x220d);
}

TEST_P(Checksum, OfNothingIsTheComplementOfZero) {
  EXPECT_EQ(checksum_add(0, {}), 0u);
  EXPECT_EQ(checksum_of({}), 0xffff);
}

TEST_P(Checksum, CountsAnOddLastByteAsIfAZeroFollowed) {
  EXPECT_EQ(checksum_of(bytes({0x12})), checksum_of(bytes({0x12, 0x00})));
  EXPECT_EQ(checksum_of(bytes({0x12})), static_cast<std::uint16_t>(~0x1200));
}

TEST_P(Checksum, AgreesWithTheDefinitionAtEveryLengthAndAlignment) {
  constexpr std::uint64_t kSeed = 1071;
  Prng prng(kSeed);
  const Bytes random = random_bytes(prng, 700);
  for (std::size_t n = 0; n <= 600; ++n) {
    for (std::size_t offset = 0; offset < 16; ++offset) {
      const ByteView message = ByteView(random).subspan(offset, n);
      ASSERT_EQ(checksum_of(message), plain_checksum(message))
          << n << " bytes at " << offset << ", seed " << kSeed;
    }
  }
}

TEST_P(Checksum, AgreesWithTheDefinitionOnLongMessages) {
  constexpr std::uint64_t kSeed = 9000;
  Prng prng(kSeed);
  for (const std::size_t n : {1472u, 1500u, 4096u, 8999u, 9000u, 65535u, 131072u, 131073u, 400'001u}) {
    const Bytes message = random_bytes(prng, n);
    ASSERT_EQ(checksum_of(message), plain_checksum(message)) << n << " bytes, seed " << kSeed;
  }
}

TEST_P(Checksum, CarriesEveryOverflowRoundOfTheLargestAndSmallestWords) {
  for (const int octet : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
    for (const std::size_t n : {2u, 63u, 64u, 65u, 128u, 191u, 192u, 1500u, 300'000u, 1u << 20}) {
      const Bytes message(n, static_cast<std::byte>(octet));
      ASSERT_EQ(checksum_of(message), plain_checksum(message)) << n << " bytes of " << octet;
    }
  }
}

TEST_P(Checksum, StartsFromTheLargestSumWithoutLosingItsCarry) {
  const Bytes ones(64, std::byte{0xff});
  const std::uint64_t largest = ~std::uint64_t{0};
  EXPECT_EQ(checksum_fold(checksum_add(largest, ones)), 0xffff);
  EXPECT_EQ(checksum_fold(checksum_add(largest, bytes({1}))), 1);
  EXPECT_EQ(checksum_combine(largest, 1), 1u);
  EXPECT_EQ(checksum_combine(largest, largest), largest);
}

TEST_P(Checksum, CombinesPartsThatBeginAtEvenOffsets) {
  constexpr std::uint64_t kSeed = 7;
  Prng prng(kSeed);
  for (int round = 0; round < 500; ++round) {
    const Bytes message = random_bytes(prng, prng.below(2000));
    const std::size_t cut = prng.below(message.size() / 2 + 1) * 2;
    const ByteView head = ByteView(message).first(cut);
    const ByteView tail = ByteView(message).subspan(cut);
    const std::uint16_t whole = checksum_fold(checksum_add(0, message));
    ASSERT_EQ(checksum_fold(checksum_add(checksum_add(0, head), tail)), whole) << "seed " << kSeed;
    ASSERT_EQ(checksum_fold(checksum_combine(checksum_add(0, tail), checksum_add(0, head))), whole)
        << "seed " << kSeed;
  }
}

TEST_P(Checksum, OfAMessageThatHoldsItsOwnIsRight) {
  constexpr std::uint64_t kSeed = 3;
  Prng prng(kSeed);
  for (int round = 0; round < 200; ++round) {
    Bytes message = random_bytes(prng, 2 + prng.below(300));
    store(message.data(), std::uint16_t{0});
    store(message.data(), checksum_field(checksum_add(0, message)));
    ASSERT_TRUE(checksum_is_right(checksum_add(0, message))) << "seed " << kSeed;
    const Bytes damaged = flipped(message, prng.below(message.size() * 8));
    ASSERT_FALSE(checksum_is_right(checksum_add(0, damaged))) << "seed " << kSeed;
  }
}

TEST_P(CopyAndSum, CopiesExactlyAndSumsTheCopiedBytes) {
  constexpr std::uint64_t kSeed = 64;
  Prng prng(kSeed);
  const Bytes source = random_bytes(prng, 700);
  for (std::size_t n = 0; n <= 600; ++n) {
    const std::size_t from = prng.below(16);
    const std::size_t to = 1 + prng.below(16);
    Bytes destination(n + 32, std::byte{0x5a});
    const ByteView part = ByteView(source).subspan(from, n);
    const std::uint64_t sum = copy_and_sum(destination.data() + to, part.data(), n);
    ASSERT_EQ(swapped(checksum_field(sum)), plain_checksum(part)) << n << " bytes, seed " << kSeed;
    ASSERT_TRUE(same(ByteView(destination).subspan(to, n), part)) << n << " bytes, seed " << kSeed;
    std::ranges::fill(MutableBytes(destination).subspan(to, n), std::byte{0x5a});
    ASSERT_EQ(destination, Bytes(n + 32, std::byte{0x5a})) << "wrote outside, " << n << " bytes";
  }
}

TEST_P(CopyAndSum, ContinuesFromAnEarlierSum) {
  constexpr std::uint64_t kSeed = 65;
  Prng prng(kSeed);
  const Bytes message = random_bytes(prng, 9000);
  Bytes copy(message.size());
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < message.size(); at += 448) {
    sum = copy_and_sum(copy.data() + at, message.data() + at, std::min<std::size_t>(448, message.size() - at),
                       sum);
  }
  EXPECT_TRUE(same(copy, message));
  EXPECT_EQ(swapped(checksum_field(sum)), plain_checksum(message)) << "seed " << kSeed;
}

TEST_P(Checksum, ReadsNothingPastTheEndOfItsView) {
  const GuardedPage page;
  const GuardedPage destination;
  constexpr std::uint64_t kSeed = 11;
  Prng prng(kSeed);
  for (std::size_t n = 0; n <= 300; ++n) {
    const ByteView message = page.hold(random_bytes(prng, n));
    ASSERT_EQ(checksum_of(message), plain_checksum(message)) << n;
    const std::uint64_t sum = copy_and_sum(destination.last(n).data(), message.data(), n);
    ASSERT_EQ(swapped(checksum_field(sum)), plain_checksum(message)) << n;
  }
}

}  // namespace
}  // namespace braid::stack
