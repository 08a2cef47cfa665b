// What two nodes decide about the paths between them: pure, with workers and a control channel that are
// lists.
#include "convergence/paths.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/prng.h"

namespace braid::convergence {
namespace {

constexpr ClusterId kA{0}, kB{1};

PathId path(unsigned local, ClusterId to, unsigned remote) {
  return {ProxyId(static_cast<std::uint8_t>(local)), to, ProxyId(static_cast<std::uint8_t>(remote))};
}

std::vector<PathId> aligned(ClusterId to, unsigned proxies) {
  std::vector<PathId> all;
  for (unsigned p = 0; p < proxies; ++p) all.push_back(path(p, to, p));
  return all;
}

// Two nodes of two proxies each; sub-connections have epochs 10 + proxy at A and 20 + proxy at B.
struct Two {
  Two() { establish(); }

  void establish() {
    for (unsigned p = 0; p < 2; ++p) {
      a.up(path(p, kB, p), {a.own_incarnation(kB), b.own_incarnation(kA)});
      b.up(path(p, kA, p), {b.own_incarnation(kA), a.own_incarnation(kB)});
    }
  }
  // Carries everything that the nodes say to each other.
  void talk() {
    for (bool more = true; more;) {
      more = false;
      while (const auto out = a.poll_control()) b.on_control(kA, out->message), more = true;
      while (const auto out = b.poll_control()) a.on_control(kB, out->message), more = true;
    }
  }

  Paths a{2, aligned(kB, 2), 1};
  Paths b{2, aligned(kA, 2), 2};
};

TEST(Paths, APathIsGivenUpOnlyForAnotherOne) {  // FO-1
  Two t;
  t.a.dead(path(0, kB, 0));
  const auto close = t.a.poll_command();
  ASSERT_TRUE(close);
  EXPECT_EQ(close->kind, Paths::Command::Kind::kClose);
  EXPECT_EQ(close->path, path(0, kB, 0));
  EXPECT_FALSE(close->by_peer);
  EXPECT_FALSE(t.a.poll_command());

  // With the other one dead too there is nothing to give it up for.
  Two u;
  u.a.dead(path(0, kB, 0));
  (void)u.a.poll_command();
  u.a.dead(path(1, kB, 1));
  EXPECT_FALSE(u.a.poll_command());
  EXPECT_FALSE(u.a.reachable(kB));
  u.a.up(path(1, kB, 1), u.a.association(kB));
  EXPECT_TRUE(u.a.reachable(kB));
}

TEST(Paths, WhatItOwedWaitsUntilThePeerHasClosedItsEnd) {  // FO-2, FO-3, FO-4
  Two t;
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  EXPECT_FALSE(t.a.poll_command()) << "not before the peer's word";
  const auto fence = t.a.poll_control();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->message.kind, ControlMessage::Kind::kFence);
  EXPECT_EQ(fence->message.epoch, 10u);

  t.b.on_control(kA, fence->message);
  EXPECT_FALSE(t.b.poll_control()) << "not before its proxy has closed it";
  const auto close = t.b.poll_command();
  ASSERT_TRUE(close);
  EXPECT_TRUE(close->by_peer);
  EXPECT_EQ(close->epoch, 10u);
  t.b.closed(path(0, kA, 0), true, 20, 10);
  // B may go on at once: A has closed its end before it said so.
  const auto resume_b = t.b.poll_command();
  ASSERT_TRUE(resume_b);
  EXPECT_EQ(resume_b->kind, Paths::Command::Kind::kResume);
  t.talk();
  const auto resume_a = t.a.poll_command();
  ASSERT_TRUE(resume_a);
  EXPECT_EQ(resume_a->kind, Paths::Command::Kind::kResume);
  EXPECT_EQ(resume_a->own, t.a.own_incarnation(kB));
  EXPECT_EQ(t.a.stats().fenced, 1u);
  EXPECT_EQ(t.a.stats().resumed, 1u);
}

TEST(Paths, BothMayGiveItUpAtOnce) {  // FO-3
  Two t;
  t.a.dead(path(0, kB, 0));
  t.b.dead(path(0, kA, 0));
  (void)t.a.poll_command();
  (void)t.b.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.talk();
  for (Paths* node : {&t.a, &t.b}) {
    const auto resume = node->poll_command();
    ASSERT_TRUE(resume);
    EXPECT_EQ(resume->kind, Paths::Command::Kind::kResume);
    EXPECT_FALSE(node->poll_command()) << "once";
  }
}

TEST(Paths, AFenceOfAnIncarnationThatIsGoneIsAnsweredAndDoesNothing) {  // FO-3
  Two t;
  ControlMessage late;
  late.kind = ControlMessage::Kind::kFence;
  late.epoch = 9;
  t.b.on_control(kA, late);
  const auto close = t.b.poll_command();
  ASSERT_TRUE(close);
  t.b.closed(path(0, kA, 0), false, 20, 10);  // its proxy sees that it is another
  const auto answer = t.b.poll_control();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message.kind, ControlMessage::Kind::kFenced);
  EXPECT_EQ(answer->message.epoch, 9u);
  EXPECT_FALSE(t.b.poll_command());
  EXPECT_TRUE(t.b.reachable(kA));
}

TEST(Paths, TheFenceOfAProxyThatStandsStillIsOfWhateverItHad) {  // FO-5, FO-6
  Two t;
  t.a.stalled(ProxyId(0));
  EXPECT_FALSE(t.a.fenced(ProxyId(0)));
  const auto fence = t.a.poll_control();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->message.epoch, 0u);
  t.b.on_control(kA, fence->message);
  (void)t.b.poll_command();
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.talk();
  EXPECT_TRUE(t.a.fenced(ProxyId(0)));
  EXPECT_FALSE(t.a.poll_command()) << "there is nobody to obey";
  t.a.back(ProxyId(0));
  const auto resume = t.a.poll_command();
  ASSERT_TRUE(resume);
  EXPECT_EQ(resume->kind, Paths::Command::Kind::kResume);
}

TEST(Paths, AProxyThatComesBackGreetsNobodyWhoHasNotClosedItsOldEnd) {  // FO-6
  Two t;
  t.a.stalled(ProxyId(0));
  const auto fence = t.a.poll_control();
  t.a.back(ProxyId(0));
  EXPECT_FALSE(t.a.poll_command());
  t.b.on_control(kA, fence->message);
  (void)t.b.poll_command();
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.talk();
  ASSERT_TRUE(t.a.poll_command());
}

TEST(Paths, APeerIsLostOnceHoweverManyNoticeIt) {  // FO-7
  Two t;
  const Association old = t.a.association(kB);
  t.a.lost(kB, old, true);
  t.a.lost(kB, old, true);
  const auto lost = t.a.poll_lost();
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->second, old);
  EXPECT_FALSE(t.a.poll_lost());
  EXPECT_NE(t.a.own_incarnation(kB), old.own) << "so that the peer, which may live, starts anew too";
  for (unsigned p = 0; p < 2; ++p) {
    const auto forget = t.a.poll_command();
    ASSERT_TRUE(forget);
    EXPECT_EQ(forget->kind, Paths::Command::Kind::kForgetPeer);
    EXPECT_EQ(forget->path.local.value(), p);
    EXPECT_EQ(forget->association, old);
  }
  // A word of before, still under way, is not heard.
  EXPECT_FALSE(t.a.heard(kB, old));
  EXPECT_TRUE(t.a.heard(kB, {t.a.own_incarnation(kB), old.peer}));
}

TEST(Paths, ANewIncarnationOfThePeerEndsTheOldOneAndIsNotMistakenForIt) {  // FO-7
  Two t;
  const Association old = t.a.association(kB);
  const Association next{old.own, old.peer + 2};
  t.a.up(path(0, kB, 0), next);
  ASSERT_TRUE(t.a.poll_lost());
  EXPECT_EQ(t.a.association(kB), next);
  // The other sub-connection hears of it later.
  t.a.lost(kB, old, false);
  EXPECT_FALSE(t.a.heard(kB, old));
  EXPECT_FALSE(t.a.poll_lost());
  EXPECT_EQ(t.a.association(kB), next);
}

TEST(Paths, APeerThatNobodyCanHearAnyMoreIsGivenUpByTheNode) {  // FO-7
  Two t;
  EXPECT_FALSE(t.a.deaf(kB));
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.a.stalled(ProxyId(1));
  EXPECT_TRUE(t.a.deaf(kB));
  t.a.give_up(kB);
  EXPECT_FALSE(t.a.deaf(kB));
  EXPECT_TRUE(t.a.poll_lost());
}

// Random deaths, stalls, returns and losses of messages that come over paths that die: whatever happens, in
// the end no path waits for a word that will never come.
TEST(Paths, NoOrderOfEventsLeavesAPathWaitingForEver) {  // FO-1 to FO-6
  int crossed = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Two t;
    std::array<Paths*, 2> nodes{&t.a, &t.b};
    const std::array<ClusterId, 2> peer{kB, kA};
    std::uint64_t epoch = 100;
    struct Sub {
      bool closed = false;
      std::uint64_t epoch = 0;
      bool up = true;  // established: only then can it be found dead
    };
    std::array<std::array<Sub, 2>, 2> subs{{{{{false, 10}, {false, 11}}}, {{{false, 20}, {false, 21}}}}};
    std::array<std::set<unsigned>, 2> stalled;
    const auto obey = [&](unsigned n) {
      while (const auto c = nodes[n]->poll_command()) {
        Sub& sub = subs[n][c->path.local.value()];
        const Sub& other = subs[1 - n][c->path.local.value()];
        if (c->kind == Paths::Command::Kind::kClose) {
          const bool close = !sub.closed && (!c->by_peer || c->epoch == 0 || c->epoch == other.epoch);
          const std::uint64_t was = sub.epoch;
          if (close) sub = {true, ++epoch, false};
          nodes[n]->closed(c->path, close, was, other.epoch);
        } else if (c->kind == Paths::Command::Kind::kResume) {
          sub.closed = false;
        } else {
          sub = {false, ++epoch, false};
        }
      }
    };
    const auto report_up = [&] {
      for (unsigned n = 0; n < 2; ++n)
        for (unsigned p = 0; p < 2; ++p)
          if (!subs[0][p].closed && !subs[1][p].closed) {
            subs[n][p].up = true;
            nodes[n]->up(path(p, peer[n], p),
                         {nodes[n]->own_incarnation(peer[n]), nodes[1 - n]->own_incarnation(peer[1 - n])});
          }
    };
    for (int step = 0; step < 60; ++step) {
      const auto n = static_cast<unsigned>(prng.below(2));
      const auto p = static_cast<unsigned>(prng.below(2));
      switch (prng.below(5)) {
        case 0:
          if (std::exchange(subs[n][p].up, false)) nodes[n]->dead(path(p, peer[n], p));
          break;
        case 1:
          if (stalled[n].empty() && prng.chance(0.3)) {
            nodes[n]->stalled(ProxyId(static_cast<std::uint8_t>(p)));
            subs[n][p] = {true, ++epoch, false};
            stalled[n].insert(p);
          }
          break;
        case 2:
          for (const unsigned s : stalled[n]) nodes[n]->back(ProxyId(static_cast<std::uint8_t>(s)));
          stalled[n].clear();
          break;
        case 3:
          report_up();
          break;
        case 4:
          t.talk();
          break;
      }
      obey(0);
      obey(1);
    }
    for (unsigned n = 0; n < 2; ++n) {
      for (const unsigned s : stalled[n]) nodes[n]->back(ProxyId(static_cast<std::uint8_t>(s)));
      stalled[n].clear();
    }
    const auto settle = [&] {
      for (int round = 0; round < 10; ++round) {
        for (unsigned n = 0; n < 2; ++n)
          for (unsigned p = 0; p < 2; ++p)
            if (std::exchange(subs[n][p].up, subs[n][p].up && !subs[1 - n][p].closed) && !subs[n][p].up)
              nodes[n]->dead(path(p, peer[n], p));
        t.talk();
        obey(0);
        obey(1);
        report_up();
      }
    };
    settle();
    // Each may have given up the path that the other still has: then nobody is heard any more, and both judge
    // so.
    if (!t.a.reachable(kB) && !t.b.reachable(kA)) {
      ++crossed;
      for (unsigned n = 0; n < 2; ++n) nodes[n]->give_up(peer[n]);
      settle();
    }
    for (unsigned n = 0; n < 2; ++n) {
      for (unsigned p = 0; p < 2; ++p) {
        EXPECT_TRUE(nodes[n]->fenced(ProxyId(static_cast<std::uint8_t>(p))));
        EXPECT_FALSE(subs[n][p].closed) << "node " << n << ", proxy " << p;
      }
      EXPECT_FALSE(nodes[n]->deaf(peer[n]));
      EXPECT_TRUE(nodes[n]->reachable(peer[n]));
    }
  }
  EXPECT_LT(crossed, 250) << "it is the exception";
}

}  // namespace
}  // namespace braid::convergence
