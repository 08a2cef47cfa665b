#include "convergence/peer_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::convergence {
namespace {

TEST(Aligned, EveryProxyHasAPartnerWhateverTheNumbers) {
  for (unsigned mine = 1; mine <= 5; ++mine) {
    for (unsigned theirs = 1; theirs <= 5; ++theirs) {
      for (unsigned i = 0; i < mine; ++i) {
        unsigned partners = 0;
        for (unsigned j = 0; j < theirs; ++j) {
          partners += are_aligned(i, mine, j, theirs) ? 1u : 0u;
          EXPECT_EQ(are_aligned(i, mine, j, theirs), are_aligned(j, theirs, i, mine))
              << "the two sides agree";
        }
        EXPECT_GE(partners, 1u) << mine << " against " << theirs;
      }
    }
  }
}

TEST(Aligned, AShiftTurnsTheWholeAssignment) {
  EXPECT_TRUE(are_aligned(0, 3, 1, 3, 1));
  EXPECT_TRUE(are_aligned(2, 3, 0, 3, 1));
  EXPECT_FALSE(are_aligned(0, 3, 0, 3, 1));
}

TEST(PeerTurns, PreferredPeersTakeTurnsBeforeAllOthers) {
  PeerTurns turns;
  std::vector<Way> ways(5, Way::kGood);
  const auto next = [&] { return turns.next(2, 5, [&](std::uint32_t i) { return ways[i]; }); };
  const std::uint32_t first = *next();
  EXPECT_LT(first, 2u);
  EXPECT_EQ(*next(), 1 - first);
  EXPECT_EQ(*next(), first);
  ways[0] = ways[1] = Way::kNone;
  std::vector<bool> seen(5);
  for (int i = 0; i < 3; ++i) seen[*next()] = true;
  EXPECT_EQ(seen, (std::vector<bool>{false, false, true, true, true}));
}

TEST(PeerTurns, LastResortIsUsedOnlyWithoutAGoodPeer) {
  PeerTurns turns;
  std::vector<Way> ways = {Way::kLastResort, Way::kNone, Way::kGood};
  const auto next = [&] { return turns.next(2, 3, [&](std::uint32_t i) { return ways[i]; }); };
  EXPECT_EQ(next(), 2u);
  ways[2] = Way::kNone;
  EXPECT_EQ(next(), 0u);
  ways[0] = Way::kNone;
  EXPECT_EQ(next(), std::nullopt);
}

}  // namespace
}  // namespace braid::convergence
