// The links of a virtual network: which frames share one, what is cut, and what becomes of a frame.
#include "sim/links.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <vector>

namespace braid::sim {
namespace {

using Lost = Passage::Lost;

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

// A frame with 1000 bytes is on a link of 8 Gb/s for 1024 ns.
constexpr std::size_t kFrameBytes = 1000;
constexpr Duration kOnLink = 1024_ns;

LinksConfig config(LinksConfig::Layout layout = LinksConfig::Layout::kOfNi) {
  LinksConfig c;
  c.layout = layout;
  c.clusters = 3;
  c.nis = 2;
  c.link = {.bits_per_second = 8'000'000'000, .propagation = 5_us, .queue_bytes = 4 * 1024};
  return c;
}

struct Fixture {
  explicit Fixture(const LinksConfig& c = config()) : links(c, [] { return 7u; }) { set_type(0x0800); }
  void set_type(std::uint16_t type) { store_be(frame.data() + 12, type); }
  Passage send(Instant now, unsigned from, unsigned to, unsigned ni = 0, unsigned from_proxy = 0,
               unsigned to_proxy = 0) {
    return links.send(now, {{from, from_proxy}, ni}, {{to, to_proxy}, ni}, frame);
  }
  Links links;
  std::vector<std::byte> frame = std::vector<std::byte>(kFrameBytes);
};

TEST(Links, AFrameArrivesAfterItsTurnItsBitsAndThePropagation) {
  Fixture f;
  const Passage first = f.send(at(1_us), 0, 1);
  EXPECT_EQ(first.lost, Lost::kNot);
  EXPECT_EQ(first.copies, 1u);
  EXPECT_EQ(first.begins, at(1_us));
  EXPECT_EQ(first.sent, at(1_us) + kOnLink);
  EXPECT_EQ(first.arrives[0], first.sent + 5_us);
}

TEST(Links, OneLinkOfAnNiServesAllDestinations) {
  Fixture f;
  const Passage first = f.send(at(1_us), 0, 1);
  EXPECT_EQ(f.send(at(1_us), 0, 2).begins, first.sent) << "behind the first";
  EXPECT_EQ(f.send(at(1_us), 0, 1, 1).begins, at(1_us)) << "another NI";
  EXPECT_EQ(f.send(at(1_us), 1, 0).begins, at(1_us)) << "the other direction";
}

TEST(Links, LinksOfPairsAreIndependent) {
  Fixture f(config(LinksConfig::Layout::kOfPair));
  const Passage first = f.send(at(1_us), 0, 1);
  EXPECT_EQ(f.send(at(1_us), 0, 2).begins, at(1_us));
  EXPECT_EQ(f.send(at(1_us), 0, 1).begins, first.sent);
}

TEST(Links, AFullQueueLosesTheFrameBeforeTheLink) {
  Fixture f;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f.send(at(0_us), 0, 1).lost, Lost::kNot);
  const Passage fifth = f.send(at(0_us), 0, 1);
  EXPECT_EQ(fifth.lost, Lost::kQueueFull);
  EXPECT_EQ(fifth.copies, 0u);
  EXPECT_FALSE(fifth.used_link());
}

TEST(Links, ACutPathLosesOneDirectionBetweenTwoProxiesUntilItEnds) {
  Fixture f;
  f.links.cut_path({0, 1}, {1, 2}, at(10_us));
  f.links.cut_path({0, 1}, {1, 2}, at(5_us));  // takes nothing from the longer one
  EXPECT_EQ(f.send(at(9_us), 0, 1, 0, 1, 2).lost, Lost::kPathCut);
  EXPECT_EQ(f.send(at(9_us), 0, 1, 1, 1, 2).lost, Lost::kPathCut) << "over whatever NI";
  EXPECT_EQ(f.send(at(9_us), 0, 1, 0, 1, 1).lost, Lost::kNot) << "another proxy";
  EXPECT_EQ(f.send(at(9_us), 1, 0, 0, 2, 1).lost, Lost::kNot) << "the other direction";
  EXPECT_EQ(f.send(at(10_us), 0, 1, 0, 1, 2).lost, Lost::kNot);
}

TEST(Links, APathIsCutUntilItIsMended) {
  Fixture f;
  f.links.cut_path({0, 0}, {1, 0}, Instant::never());
  f.links.cut_path({0, 0}, {2, 0}, Instant::never());
  EXPECT_EQ(f.send(at(1_s), 0, 1).lost, Lost::kPathCut);
  f.links.mend_path({0, 0}, {1, 0});
  EXPECT_EQ(f.send(at(2_s), 0, 1).lost, Lost::kNot);
  EXPECT_EQ(f.send(at(2_s), 0, 2).lost, Lost::kPathCut);
  f.links.stop_faults();
  EXPECT_EQ(f.send(at(2_s), 0, 2).lost, Lost::kPathCut) << "a path that is cut is no fault of a link";
  f.links.mend_paths();
  EXPECT_EQ(f.send(at(3_s), 0, 2).lost, Lost::kNot);
}

TEST(Links, AnNiThatIsDownNeitherSendsNorReceives) {
  Fixture f;
  f.links.cut_ni(1, 0, at(10_us));
  EXPECT_FALSE(f.links.is_ni_up(at(9_us), 1, 0));
  EXPECT_EQ(f.send(at(9_us), 0, 1).lost, Lost::kNiDown);
  EXPECT_EQ(f.send(at(9_us), 1, 2).lost, Lost::kNiDown);
  EXPECT_EQ(f.send(at(9_us), 0, 2).lost, Lost::kNot);
  EXPECT_EQ(f.send(at(9_us), 0, 1, 1).lost, Lost::kNot) << "its other NI";
  EXPECT_TRUE(f.links.is_ni_up(at(10_us), 1, 0));
  const Passage after = f.send(at(10_us), 1, 2);
  EXPECT_EQ(after.begins, at(10_us)) << "what was cut off did not use the link";
}

TEST(Links, AnNiComesUpWhenItIsMendedOrFaultsStop) {
  Fixture f;
  f.links.cut_ni(0, 0, Instant::never());
  f.links.mend_ni(0, 0);
  EXPECT_EQ(f.send(at(1_us), 0, 1).lost, Lost::kNot);
  f.links.cut_ni(0, 0, Instant::never());
  f.links.stop_faults();
  EXPECT_EQ(f.send(at(1_us), 0, 1).lost, Lost::kNot);
}

TEST(Links, AFrameThatACutLinkLosesHasUsedIt) {
  Fixture f(config(LinksConfig::Layout::kOfPair));
  f.links.cut_link(0, 1, 0, at(10_us));
  const Passage lost = f.send(at(9_us), 0, 1);
  EXPECT_EQ(lost.lost, Lost::kCut);
  EXPECT_TRUE(lost.used_link());
  EXPECT_EQ(f.send(at(9_us), 0, 2).lost, Lost::kNot);
  EXPECT_EQ(f.send(at(10_us), 0, 1).begins, lost.sent);
}

TEST(Links, LossesUseTheLinkAndStopWithTheFaults) {
  LinksConfig c = config();
  c.faults.loss = 1;
  Fixture f(c);
  const Passage lost = f.send(at(0_us), 0, 1);
  EXPECT_EQ(lost.lost, Lost::kByChance);
  EXPECT_EQ(lost.copies, 0u);
  EXPECT_EQ(lost.sent, at(0_us) + kOnLink);
  f.links.stop_faults();
  const Passage carried = f.send(at(0_us), 0, 1);
  EXPECT_EQ(carried.lost, Lost::kNot);
  EXPECT_EQ(carried.begins, lost.sent);
}

TEST(Links, ADuplicateArrivesOnceMoreNotBeforeTheFrame) {
  LinksConfig c = config();
  c.faults.duplicate = 1;
  c.faults.duplicate_within = 50_us;
  Fixture f(c);
  const Passage p = f.send(at(0_us), 0, 1);
  EXPECT_EQ(p.copies, 2u);
  EXPECT_EQ(p.arrives[0], p.sent + 5_us);
  EXPECT_GE(p.arrives[1], p.arrives[0]);
  EXPECT_LE(p.arrives[1], p.arrives[0] + 50_us);
}

TEST(Links, AReorderedFrameIsDelayedOnTopOfTheLink) {
  LinksConfig c = config();
  c.faults.reorder = 1;
  Fixture f(c);
  const Passage p = f.send(at(0_us), 0, 1);
  EXPECT_TRUE(p.is_delayed);
  EXPECT_GT(p.arrives[0], p.sent + 5_us);
}

TEST(Links, CorruptionChangesIpPacketsAndNoArp) {
  LinksConfig c = config();
  c.faults.corrupt = 1;
  Fixture f(c);
  const std::vector<std::byte> original = f.frame;
  EXPECT_TRUE(f.send(at(0_us), 0, 1).is_corrupted);
  EXPECT_NE(f.frame, original);
  f.frame = original;
  f.set_type(0x0806);
  const std::vector<std::byte> arp = f.frame;
  EXPECT_FALSE(f.send(at(2_us), 0, 1).is_corrupted);
  EXPECT_EQ(f.frame, arp);
}

TEST(Links, AFrameOnACloggedLinkWaitsUntilItIsFree) {
  LinksConfig c = config();
  c.faults.clogs = {.every = 1_ns, .length = 1_s};  // practically always
  Fixture f(c);
  (void)f.send(at(0_us), 0, 1);
  const Passage p = f.send(at(100_us), 0, 1);
  EXPECT_TRUE(p.has_waited);
  EXPECT_GT(p.begins, at(100_us));
}

TEST(Links, EachLinkHasASeedOfItsOwn) {
  std::set<std::uint64_t> seeds;
  const auto next = [&, seed = 0u]() mutable {
    seeds.insert(++seed);
    return seed;
  };
  const Links of_nis(config(), next);
  EXPECT_EQ(seeds.size(), 6u);
  seeds.clear();
  const Links of_pairs(config(LinksConfig::Layout::kOfPair), next);
  EXPECT_EQ(seeds.size(), 18u);
}

TEST(Links, EachLossHasAName) {
  std::set<std::string> names;
  for (const Lost lost :
       {Lost::kNot, Lost::kPathCut, Lost::kNiDown, Lost::kQueueFull, Lost::kCut, Lost::kByChance})
    names.insert(to_string(lost));
  EXPECT_EQ(names.size(), 6u);
}

}  // namespace
}  // namespace braid::sim
