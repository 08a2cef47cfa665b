#include "tools/braid/study/sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

namespace braid::cli {
namespace {

using convergence::Dispatch;
using ::testing::Contains;
using ::testing::UnorderedElementsAreArray;

constexpr Sizing kOne{};

// The search on a machine whose times are known: `time(sizing, seed)`.
SizingSearch searched(const std::function<double(const Sizing&, unsigned seed)>& time, double worth = 0.03,
                      unsigned max_proxies = 16, unsigned max_nis = 4, unsigned seeds = 5) {
  SizingSearch search(max_proxies, max_nis, worth);
  do {
    for (std::vector<Sizing> next; !(next = search.next()).empty();) {
      EXPECT_THAT(next, UnorderedElementsAreArray(std::set<Sizing>(next.begin(), next.end()))) << "each once";
      for (const Sizing& sizing : next) {
        std::vector<double> times;
        for (unsigned seed = 0; seed < seeds; ++seed) times.push_back(time(sizing, seed));
        search.look_at(sizing, times);
      }
    }
  } while (search.step());
  return search;
}

TEST(SizingSearch, NothingMoreThanOneProxyWhereItIsOfNoUse) {
  const SizingSearch search = searched([](const Sizing&, unsigned) { return 100.0; });
  EXPECT_EQ(search.choice(), kOne);
  EXPECT_THAT(search.neighbours(), Contains(Sizing{.proxies = 2}));
  EXPECT_EQ(search.change_of({.proxies = 2}).median, 0);
}

TEST(SizingSearch, ProxiesAreAddedWhileEachGainsEnough) {
  const auto time = [](const Sizing& s, unsigned) { return 100 + 80.0 / s.proxies; };
  // 180, 140, 126.7, 120, 116, 113.3: the step from 4 to 5 gains 3.3 %, the one from 5 to 6 2.3 %.
  EXPECT_EQ(searched(time, 0.03).choice(), (Sizing{.proxies = 5}));
  // From 2 to 3 they gain 9.5 %, from 3 to 4 5.3 %.
  EXPECT_EQ(searched(time, 0.06).choice(), (Sizing{.proxies = 3}));
  EXPECT_EQ(searched(time, 0.03, 4).choice(), (Sizing{.proxies = 4})) << "a cluster has no more";
  const Spread less = searched(time, 0.06).change_of({.proxies = 2});
  EXPECT_NEAR(less.median, 140.0 / (100 + 80.0 / 3) - 1, 1e-9);
}

TEST(SizingSearch, OneMoreMayBeOfNoUseWhereTwiceAsManyAre) {
  const auto time = [](const Sizing& s, unsigned) { return s.proxies < 4 ? 100.0 : 50.0; };
  EXPECT_EQ(searched(time).choice(), kOne)
      << "neither one more nor twice as many gains anything from one proxy";
  const auto from_two = [](const Sizing& s, unsigned) {
    return s.proxies == 1 ? 200.0 : s.proxies < 4 ? 100.0 : 50.0;
  };
  EXPECT_EQ(searched(from_two).choice(), (Sizing{.proxies = 4}));
}

TEST(SizingSearch, GainThatIsNoGainWithEverySeedIsNone) {
  const auto noisy = [](const Sizing& s, unsigned seed) {
    return s.proxies == 1 ? 100.0 : 85 + 5.0 * seed;  // 85 to 105, 95 in the middle
  };
  EXPECT_EQ(searched(noisy).choice(), kOne);
  // What a seed does to all machines is no difference.
  const auto paired = [](const Sizing& s, unsigned seed) {
    return (s.proxies == 1 ? 100 : 95) * (1.0 + seed);
  };
  EXPECT_EQ(searched(paired).choice(), (Sizing{.proxies = 2}));
}

TEST(SizingSearch, NisAndDispatchAreChosenToo) {
  const auto time = [](const Sizing& s, unsigned) {
    return 100.0 + 100.0 / std::min(s.proxies, 4u) + 60.0 / s.nis +
           (s.dispatch == Dispatch::kLeastLoaded ? 0 : 20);
  };
  const Sizing choice = searched(time).choice();
  EXPECT_EQ(choice.proxies, 4u);
  EXPECT_EQ(choice.dispatch, Dispatch::kLeastLoaded);
  EXPECT_GE(choice.nis, 2u);
  EXPECT_LE(choice.nis, choice.proxies);
}

TEST(SizingSearch, NeverAsksForMoreNisThanProxiesOrMoreThanThereCanBe) {
  unsigned asked = 0;
  (void)searched(
      [&](const Sizing& s, unsigned) {
        ++asked;
        EXPECT_LE(s.nis, s.proxies);
        EXPECT_LE(s.proxies, 6u);
        EXPECT_LE(s.nis, 2u);
        return 1000.0 / (s.proxies + s.nis);
      },
      0.03, 6, 2);
  EXPECT_GT(asked, 0u);
}

TEST(SizingSearch, EndsOnAnyTimes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const auto time = [&](const Sizing& s, unsigned run) {
      const unsigned mixed = (s.proxies * 2654435761u) ^ (s.nis * 40503u) ^
                             (static_cast<unsigned>(s.dispatch) * 97u) ^ (seed * 7919u) ^ run;
      return 100.0 + (mixed * 2246822519u >> 16) % 100;
    };
    const SizingSearch search = searched(time, 0.001);
    for (const Sizing& neighbour : search.neighbours()) (void)search.change_of(neighbour);  // all are known
  }
}

// Each dispatch is faster than the one before it with two seeds of three, and the first is faster than the last.
TEST(SizingSearch, EndsWhereThreeBeatEachOtherInTurn) {
  const auto time = [](const Sizing& s, unsigned seed) {
    constexpr double kTimes[] = {100, 150, 200};
    return s.proxies == 1 ? 1000.0 : kTimes[(static_cast<unsigned>(s.dispatch) + seed) % 3];
  };
  EXPECT_EQ(searched(time, 0.03, 2, 1, 99).choice().proxies, 2u);
}

TEST(Sizing, IsNamedInWords) {
  EXPECT_EQ(kOne.text(), "1 proxy, 1 NI, rr");
  EXPECT_EQ((Sizing{.proxies = 4, .nis = 2, .dispatch = Dispatch::kLeastLoaded}.text()),
            "4 proxies, 2 NIs, least-loaded");
}

}  // namespace
}  // namespace braid::cli
