// PG-29. Pages of every length: the same scenarios with 1 to 64 KiB. Two clusters, cluster 0 is every page's home.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "engine_machine.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::array<std::uint16_t, 2> kBoth = {0, 1};

EngineConfig with_length(std::size_t page_bytes) {
  return {.clusters = 2,
          .compute_nodes = 2,
          .page_length = PageLength(page_bytes),
          .pages = 16,
          .locks = 4,
          .barriers = 1,
          .flush_window = 16,
          .twins = 16,
          .migrate_after = 0,
          .fetch_ahead = 15,
          .run_pages = 16,
          .addresses = 16 * addresses_per_page(PageLength(page_bytes))};
}

struct EveryLength : testing::TestWithParam<std::size_t> {
  EveryLength() : m(with_length(GetParam())) { m.set_home(0, 16, 0); }
  ~EveryLength() override { EXPECT_EQ(m.bad_messages(), 0u); }

  std::size_t at(std::size_t page, std::size_t byte = 0) const { return length.bytes_of(page) + byte; }
  // Both clusters at a barrier, so that all writes are visible.
  void meet() {
    for (const std::uint16_t c : kBoth)
      for (const std::uint16_t node : kBoth) (void)m.engine(c).barrier(node, BarrierId(0));
    m.deliver_all();
    for (const std::uint16_t c : kBoth) ASSERT_TRUE(m.engine(c).done(0) && m.engine(c).done(1));
  }
  void fill(std::uint16_t cluster, std::uint32_t page, std::uint8_t value) {
    m.open(cluster, at(page), Access::kWrite);
    for (std::size_t i = 0; i < length.bytes(); ++i) m.poke(cluster, at(page, i), value);
  }
  // Whether all bytes of the page have the value.
  bool filled(std::uint16_t cluster, std::uint32_t page, std::uint8_t value) {
    m.open(cluster, at(page), Access::kRead);
    for (std::size_t i = 0; i < length.bytes(); ++i)
      if (m.peek(cluster, at(page, i)) != value) return false;
    return true;
  }

  const PageLength length{GetParam()};
  EngineMachine m;
};

TEST_P(EveryLength, ChangesReachTheHomeAndNoOtherPage) {
  fill(1, 2, 7);
  m.write(1, at(4), 8);  // first and last byte of a page
  m.write(1, at(4, length.bytes() - 1), 9);
  m.open(1, at(6), Access::kWrite);
  for (std::size_t i = 0; i < length.bytes(); i += 2) m.poke(1, at(6, i), 3);  // a mask
  meet();
  EXPECT_TRUE(filled(0, 2, 7));
  EXPECT_EQ(m.read(0, at(4)), 8);
  EXPECT_EQ(m.read(0, at(4, 1)), 0);
  EXPECT_EQ(m.read(0, at(5) - 1), 9);
  EXPECT_EQ(m.read(0, at(7) - 2), 3);
  EXPECT_EQ(m.read(0, at(7) - 1), 0);
  for (const std::uint32_t page : {1u, 3u, 5u, 7u}) EXPECT_TRUE(filled(0, page, 0)) << page;
  // A whole page is one run, whatever its length.
  const std::size_t mask = length.mask_bytes() + length.bytes() / 2;
  EXPECT_EQ(m.engine(1).counts().diff_bytes_sent, 4 + length.bytes() + 2 * (4 + 1) + mask);
}

TEST_P(EveryLength, ReadsOfConsecutivePagesSeeWhatWasWritten) {
  for (std::uint32_t page = 0; page < 16; ++page) fill(0, page, static_cast<std::uint8_t>(page + 1));
  for (std::uint32_t page = 0; page < 16; ++page)
    EXPECT_TRUE(filled(1, page, static_cast<std::uint8_t>(page + 1))) << page;
  EXPECT_GT(m.engine(1).counts().fetched_ahead, 0u);
  EXPECT_EQ(m.engine(0).counts().pages_sent, 16u);
}

TEST_P(EveryLength, OneMessageHasAsManyPagesAsFit) {
  m.write(0, 0, 1);
  m.engine(1).prefetch(PageId(0), 15);
  ASSERT_TRUE(m.transmit(1, 0));
  m.deliver(std::size_t{0});
  ASSERT_TRUE(m.transmit(0, 1));
  const Message reply = parse(length, m.wire[0].bytes).value();
  EXPECT_LE(m.wire[0].bytes.size(), max_message_bytes(length));
  EXPECT_EQ(RunOfPages(length, reply.header.number, reply.payload).pages(),
            std::min<std::size_t>(15, max_reply_pages(length)));
  m.deliver_all();
  EXPECT_EQ(m.peek(1, 0), 1);
}

// The message behind a page of 64 KiB would begin further away than a length can say.
TEST_P(EveryLength, ShortMessageFollowsAPageInItsMessageOrTheNext) {
  m.write(0, 0, 1);
  EXPECT_FALSE(m.engine(1).fault(0, PageId(0), Access::kRead));
  EXPECT_FALSE(m.engine(1).lock(1, LockId(0)));
  m.transmit_all();
  m.deliver(std::size_t{0});
  m.transmit_all();
  const bool fits = length.bytes() < 64 * kKiB;
  EXPECT_EQ(m.wire.size(), fits ? 1u : 2u);
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0) && m.engine(1).done(1));
  EXPECT_EQ(m.peek(1, 0), 1);
}

TEST_P(EveryLength, ReplyOfHalfAPageIsRefused) {
  EXPECT_FALSE(m.engine(1).fault(0, PageId(0), Access::kRead));
  m.transmit_all();
  std::vector<std::byte> half(kHeaderBytes + length.bytes() / 2);
  write_header(half, {.kind = Kind::kPageReply, .id = 0, .number = 1});
  EXPECT_FALSE(parse(length, half));
  std::vector<std::byte> two(kHeaderBytes + 2 * length.bytes());  // without the second one's version
  write_header(two, {.kind = Kind::kPageReply, .id = 0, .number = 1});
  EXPECT_FALSE(parse(length, two));
  m.deliver_all();
  EXPECT_TRUE(m.engine(1).done(0));
}

// Locks at the addresses of one page have one manager.
TEST_P(EveryLength, ObjectsOfOnePageHaveOneManager) {
  const std::uint32_t second = 4 + addresses_per_page(length);  // at the first address of page 1
  EXPECT_TRUE(m.engine(0).lock(0, LockId(second - 1)));
  m.engine(0).unlock(0, LockId(second - 1));
  EXPECT_FALSE(m.engine(0).lock(0, LockId(second)));
  m.deliver_all();
  EXPECT_TRUE(m.engine(0).done(0));
}

INSTANTIATE_TEST_SUITE_P(KiB, EveryLength,
                         testing::Values(kKiB, 2 * kKiB, 4 * kKiB, 8 * kKiB, 16 * kKiB, 32 * kKiB, 64 * kKiB),
                         [](const auto& value) { return std::to_string(value.param / kKiB); });

TEST(PageLength, IsAPowerOfTwoWithinItsBounds) {
  for (const std::size_t bytes : {0u, 1u, 512u, 3000u, 4097u, 131072u})
    EXPECT_FALSE(PageLength::valid(bytes));
  for (const std::size_t bytes : {1024u, 4096u, 65536u}) {
    ASSERT_TRUE(PageLength::valid(bytes));
    EXPECT_EQ(PageLength(bytes).bytes(), bytes);
  }
  EXPECT_EQ(PageLength().bytes(), 4096u);
}

TEST(PageLength, ConvertsBetweenPlacesAndPages) {
  const PageLength length(8192);
  EXPECT_EQ(length.bytes_of(3), 3u * 8192);
  EXPECT_EQ(length.pages_in(3 * 8192 - 1), 2u);
  EXPECT_EQ(length.offset_in_page(3 * 8192 + 5), 5u);
  EXPECT_EQ(length.round_up(8193), 16384u);
  EXPECT_EQ(length.round_up(8192), 8192u);
  EXPECT_EQ(length.round_down(8191), 0u);
}

}  // namespace
}  // namespace braid::dsm
