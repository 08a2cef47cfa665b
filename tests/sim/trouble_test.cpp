// The planner of trouble: what is asked for is planned, within its time, for nodes that can have it, and the same
// for the same seed.
#include "tests/sim/trouble.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace braid::sim {
namespace {

struct Happening {
  Instant at;
  Trouble what;
};

WorldConfig quiet() {
  WorldConfig w;
  w.clusters = 3;
  w.proxies_0 = w.proxies_1 = w.proxies_2 = 2;
  w.fault_ms = 200;
  return w;
}

struct Fixture {
  explicit Fixture(const WorldConfig& c, std::uint64_t seed = 5)
      : config(c), random(seed), planner(config, random, events) {
    planner.plan(6);
  }
  // Everything that goes wrong, up to a limit.
  std::vector<Happening> all() {
    std::vector<Happening> happened;
    while (!events.empty() && happened.size() < 10'000) {
      const WorldEvent event = events.pop();
      EXPECT_EQ(event.kind, WorldEvent::Kind::kTrouble);
      if (const std::optional<Trouble> what = planner.decide(event, state))
        happened.push_back({events.now(), *what});
      planner.plan_next(event);
    }
    return happened;
  }
  template <class T>
  std::vector<T> all_of_kind() {
    std::vector<T> found;
    for (const Happening& h : all()) {
      EXPECT_TRUE(std::holds_alternative<T>(h.what)) << "another kind: " << h.what.index();
      if (const T* const t = std::get_if<T>(&h.what)) found.push_back(*t);
    }
    return found;
  }

  const WorldConfig config;
  Prng random;
  WorldEvents events;
  TroublePlanner planner;
  TroublePlanner::NodeState state;
};

TEST(Trouble, NoneUnlessAsked) {
  Fixture f(quiet());
  EXPECT_TRUE(f.events.empty());
  EXPECT_EQ(f.planner.quiet_from(), f.planner.faults_end());
}

TEST(Trouble, RecursAsOftenAsAskedUntilFaultsEnd) {
  WorldConfig w = quiet();
  w.fault_ms = 10'000;
  w.partition_every_ms = 10;
  Fixture f(w);
  const std::vector<Happening> happened = f.all();
  EXPECT_NEAR(static_cast<double>(happened.size()), 1000, 150);
  for (const Happening& h : happened) {
    EXPECT_LT(h.at, f.planner.faults_end());
    const auto& p = std::get<Partition>(h.what);
    EXPECT_NE(p.node, p.other);
    EXPECT_LT(p.other, 3u);
    EXPECT_GT(p.until, h.at);
    EXPECT_LE(p.until, f.planner.faults_end());
  }
}

TEST(Trouble, ALinkThatGoesDownComesUp) {
  WorldConfig w = quiet();
  w.link_down_every_ms = 20;
  Fixture f(w);
  int down = 0;
  for (const LinkChange& change : f.all_of_kind<LinkChange>()) down += change.up ? -1 : 1;
  EXPECT_EQ(down, 0);
}

TEST(Trouble, ALinkThatIsDownDoesNotGoDown) {
  WorldConfig w = quiet();
  w.link_down_every_ms = 20;
  Fixture f(w);
  f.state.is_link_up = false;
  EXPECT_TRUE(f.all().empty());
}

TEST(Trouble, ANodeThatIsDownHasNoProxiesToStall) {
  WorldConfig w = quiet();
  w.stall_every_ms = w.resize_every_ms = 10;
  w.dead_proxies = 2;
  w.restarts = 2;
  Fixture f(w);
  f.state.is_running = false;
  EXPECT_TRUE(f.all().empty());
}

TEST(Trouble, ANodeThatDiesStartsLater) {
  WorldConfig w = quiet();
  w.restarts = 2;
  Fixture f(w);
  int deaths = 0, starts = 0;
  for (const Happening& h : f.all()) {
    deaths += std::holds_alternative<NodeDeath>(h.what);
    starts += std::holds_alternative<NodeStart>(h.what);
    EXPECT_LE(starts, deaths);
  }
  EXPECT_EQ(deaths, 2);
  EXPECT_EQ(starts, 2);
}

TEST(Trouble, TheWorldIsQuietWhenTheLastDeadProxyAndPathReturn) {
  WorldConfig w = quiet();
  w.dead_proxies = 3;
  w.death_ms = 1000;
  w.path_cut_every_ms = 50;
  w.path_cut_ms = 1000;
  Fixture f(w);
  Instant last = f.planner.faults_end();
  for (const Happening& h : f.all()) {
    if (const auto* const death = std::get_if<ProxyDeath>(&h.what)) last = std::max(last, death->until);
    if (const auto* const cut = std::get_if<PathCut>(&h.what)) last = std::max(last, cut->until);
  }
  EXPECT_GT(last, f.planner.faults_end());
  EXPECT_EQ(f.planner.quiet_from(), last);
}

TEST(Trouble, APathThatDiesIsOneOfSeveralAndStaysDead) {
  WorldConfig w = quiet();
  w.dead_paths = 3;
  Fixture f(w);
  const std::vector<PathCut> cuts = f.all_of_kind<PathCut>();
  EXPECT_FALSE(cuts.empty());
  for (const PathCut& cut : cuts) {
    EXPECT_EQ(cut.until, Instant::never());
    EXPECT_EQ(cut.peer.cluster, (cut.proxy.cluster + 1) % 3);
    EXPECT_LT(cut.proxy.proxy, 2u);
    EXPECT_LT(cut.peer.proxy, 2u);
  }
  EXPECT_EQ(f.planner.quiet_from(), f.planner.faults_end()) << "others carry what it did";
}

TEST(Trouble, TheOnlyPathOfTwoNodesDoesNotDie) {
  WorldConfig w = quiet();
  w.proxies_0 = w.proxies_1 = w.proxies_2 = 1;
  w.dead_paths = 3;
  Fixture f(w);
  EXPECT_TRUE(f.events.empty());
}

TEST(Trouble, ActiveProxiesAreAtLeastOneAndOnlyOfNodesWithSeveral) {
  WorldConfig w = quiet();
  w.fault_ms = 2000;
  w.resize_every_ms = 5;
  w.proxies_1 = 1;
  w.proxies_2 = 4;
  Fixture f(w);
  const std::vector<ProxyResize> resizes = f.all_of_kind<ProxyResize>();
  EXPECT_GT(resizes.size(), 100u);
  for (const ProxyResize& resize : resizes) {
    EXPECT_NE(resize.node, 1u);
    EXPECT_GE(resize.active, 1u);
    EXPECT_LE(resize.active, w.proxies_0 == 2 && resize.node == 0 ? 2u : 4u);
  }
}

TEST(Trouble, ClientsStopAndDieAsOftenAsAsked) {
  WorldConfig w = quiet();
  w.kills = 3;
  w.stops = 4;
  Fixture f(w);
  int kills = 0, stops = 0;
  for (const Happening& h : f.all()) {
    if (const auto* const death = std::get_if<ClientDeath>(&h.what)) {
      ++kills;
      EXPECT_LT(death->client, 6u);
    }
    if (const auto* const stop = std::get_if<ClientStop>(&h.what)) {
      ++stops;
      EXPECT_LE(stop->until, f.planner.faults_end());
    }
  }
  EXPECT_EQ(kills, 3);
  EXPECT_EQ(stops, 4);
}

TEST(Trouble, PausesFollowEachOther) {
  WorldConfig w = quiet();
  w.fault_ms = 2000;
  w.pauses = 2;
  w.pause_ms = 700;
  Fixture f(w);
  std::vector<Instant> begins, ends;
  for (const Happening& h : f.all()) {
    const auto* const pause = std::get_if<Pause>(&h.what);
    if (pause == nullptr) continue;
    begins.push_back(h.at);
    ends.push_back(pause->until);
  }
  ASSERT_EQ(begins.size(), 2u);
  EXPECT_LT(begins[0], Instant() + 20_ms);
  EXPECT_EQ(ends[0] - begins[0], 700_ms);
  EXPECT_GE(begins[1], ends[0]);
  EXPECT_EQ(ends[1] - begins[1], 700_ms);
}

TEST(Trouble, AClockJumpsForwardByABoundedTime) {
  WorldConfig w = quiet();
  w.fault_ms = 5000;
  w.jump_every_ms = 10;
  w.jump_ms = 2000;
  Fixture f(w);
  const std::vector<ClockJump> jumps = f.all_of_kind<ClockJump>();
  EXPECT_GT(jumps.size(), 300u);
  for (const ClockJump& jump : jumps) {
    EXPECT_GT(jump.by, Duration());
    EXPECT_LE(jump.by, 4_s);
  }
}

TEST(Trouble, ABusyHostHoldsANodeForLongerThanASchedulingGap) {
  WorldConfig w = quiet();
  w.fault_ms = 20'000;
  w.gap_every_ms = 50;
  w.gap_ms = 80;
  Fixture f(w);
  const std::vector<Happening> happened = f.all();
  EXPECT_NEAR(static_cast<double>(happened.size()), 400, 100);
  Duration sum;
  for (const Happening& h : happened) {
    const auto& hold = std::get<NodeHold>(h.what);
    EXPECT_LE(hold.until, f.planner.faults_end());
    EXPECT_TRUE(hold.until == f.planner.faults_end() || hold.until - h.at >= 50_ms);
    sum += hold.until - h.at;
  }
  EXPECT_NEAR(sum.ms() / static_cast<double>(happened.size()), 80, 10) << "the mean that was asked for";
}

TEST(Trouble, AStoppedNodeGoesOnWhenFaultsEnd) {
  WorldConfig w = quiet();
  w.stopped_ms = 150;
  Fixture f(w);
  const std::vector<Happening> happened = f.all();
  ASSERT_EQ(happened.size(), 2u);
  const auto& stop = std::get<NodeStop>(happened[0].what);
  EXPECT_EQ(happened[0].at, Instant() + 50_ms);
  EXPECT_EQ(stop.until, f.planner.faults_end());
  EXPECT_EQ(happened[1].at, f.planner.faults_end());
  EXPECT_EQ(std::get<NodeContinue>(happened[1].what).node, stop.node);
}

TEST(Trouble, ANodeThatIsDownIsNotStopped) {
  WorldConfig w = quiet();
  w.stopped_ms = 150;
  Fixture f(w);
  f.state.is_running = false;
  EXPECT_TRUE(f.all().empty());
}

TEST(Trouble, ForgedPacketsNameOneNodeToAnother) {
  WorldConfig w = quiet();
  w.fault_ms = 2000;
  w.forge_every_ms = 5;
  Fixture f(w);
  const std::vector<ForgedArp> forged = f.all_of_kind<ForgedArp>();
  EXPECT_NEAR(static_cast<double>(forged.size()), 400, 100);
  std::size_t requests = 0;
  for (const ForgedArp& packet : forged) {
    EXPECT_NE(packet.node, packet.receiver);
    EXPECT_LT(packet.receiver, 3u);
    EXPECT_LT(packet.station, 3u);
    requests += packet.is_request;
  }
  EXPECT_GT(requests, forged.size() / 4);
  EXPECT_LT(requests, forged.size() * 3 / 4);
}

TEST(Trouble, TheSameSeedPlansTheSame) {
  WorldConfig w = quiet();
  w.stall_every_ms = w.control_stall_every_ms = 10;
  const auto times = [&](std::uint64_t seed) {
    std::vector<Instant> at;
    for (const Happening& h : Fixture(w, seed).all()) at.push_back(h.at);
    return at;
  };
  EXPECT_EQ(times(1), times(1));
  EXPECT_NE(times(1), times(2));
}

}  // namespace
}  // namespace braid::sim
