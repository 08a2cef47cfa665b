// The decisions of two nodes about the paths between them. Pure: workers and the control channel are lists.
#include "convergence/paths.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <variant>
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
  void exchange() {
    for (bool more = true; more;) {
      more = false;
      while (const auto out = a.poll_control()) b.on_control(kA, out->message), more = true;
      while (const auto out = b.poll_control()) a.on_control(kB, out->message), more = true;
    }
  }

  Paths a{2, aligned(kB, 2), 1};
  Paths b{2, aligned(kA, 2), 2};
};

// All commands that there are, of this kind; others fail the test.
template <class Kind>
std::vector<PathId> take_all(Paths& node) {
  std::vector<PathId> all;
  while (const std::optional<Paths::Command> command = node.poll_command()) {
    const Kind* const of_kind = std::get_if<Kind>(&*command);
    if (of_kind == nullptr)
      ADD_FAILURE() << "another command, number " << command->index();
    else
      all.push_back(of_kind->path);
  }
  return all;
}

// The next command; nullopt if there is none, or another kind.
template <class Kind>
std::optional<Kind> take(Paths& node) {
  const std::optional<Paths::Command> command = node.poll_command();
  if (!command || !std::holds_alternative<Kind>(*command)) return std::nullopt;
  return std::get<Kind>(*command);
}

// ---------------------------------------------------------------- paths at their first use

std::vector<PathId> to_two_clusters(unsigned proxies) {
  std::vector<PathId> all = aligned(ClusterId(1), proxies);
  for (const PathId& id : aligned(ClusterId(2), proxies)) all.push_back(id);
  return all;
}

TEST(PathsAtFirstUse, FirstPathThatComesUpStartsTheOthersToItsCluster) {  // SC-14
  Paths a(3, to_two_clusters(3), 1, true);
  EXPECT_FALSE(a.poll_command().has_value()) << "nothing begins by itself";
  const Association association{a.own_incarnation(kB), 77};
  a.up(path(1, kB, 1), association);
  EXPECT_EQ(take_all<GreetPath>(a), (std::vector{path(0, kB, 0), path(2, kB, 2)}));
  a.up(path(0, kB, 0), association);
  EXPECT_TRUE(take_all<GreetPath>(a).empty()) << "they were told";
}

// The one that has the message may be dead.
TEST(PathsAtFirstUse, AllPathsBeginWithTheFirstMessage) {  // SC-14
  Paths a(3, to_two_clusters(3), 1, true);
  a.begin_use(kB);
  EXPECT_EQ(take_all<GreetPath>(a), (std::vector{path(0, kB, 0), path(1, kB, 1), path(2, kB, 2)}));
  a.up(path(1, kB, 1), {a.own_incarnation(kB), 77});
  (void)take_all<GreetPath>(a);
  a.begin_use(kB);
  EXPECT_TRUE(take_all<GreetPath>(a).empty()) << "one is alive";
}

TEST(PathsAtFirstUse, PathsThatAreMadeAtTheStartAreNotTold) {  // SC-14
  Paths a(3, to_two_clusters(3), 1);
  a.up(path(1, kB, 1), {a.own_incarnation(kB), 77});
  EXPECT_FALSE(a.poll_command().has_value());
}

// Else nobody could tell the peer that the end is closed.
TEST(PathsAtFirstUse, StalledProxyIsFencedAtAPeerThatWasNeverUsed) {  // SC-14, FO-5
  Paths a(3, to_two_clusters(3), 1, true);
  a.stalled(ProxyId(0));
  EXPECT_EQ(take_all<GreetPath>(a), (std::vector{path(1, ClusterId(1), 1), path(2, ClusterId(1), 2),
                                                 path(1, ClusterId(2), 1), path(2, ClusterId(2), 2)}));
  EXPECT_FALSE(a.fenced(ProxyId(0)));
  for (const ClusterId peer : {ClusterId(1), ClusterId(2)}) {
    a.up(path(1, peer, 1), {a.own_incarnation(peer), 77});
    const std::optional<Paths::Outgoing> fence = a.poll_control();
    ASSERT_TRUE(fence.has_value());
    EXPECT_EQ(fence->to, peer);
    ControlMessage answer = fence->message;
    answer.kind = ControlMessage::Kind::kFencedBefore;
    std::swap(answer.proxy, answer.peer_proxy);
    a.on_control(peer, answer);
  }
  EXPECT_TRUE(a.fenced(ProxyId(0)));
}

TEST(Paths, PathIsGivenUpOnlyWhileAnotherLives) {  // FO-1
  Two t;
  t.a.dead(path(0, kB, 0));
  const auto close = take<ClosePath>(t.a);
  ASSERT_TRUE(close);
  EXPECT_EQ(close->path, path(0, kB, 0));
  EXPECT_FALSE(close->peer_end);
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

TEST(Paths, UnacknowledgedMessagesWaitUntilThePeerHasClosedItsEnd) {  // FO-2, FO-3, FO-4
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
  const auto close = take<ClosePath>(t.b);
  ASSERT_TRUE(close);
  ASSERT_TRUE(close->peer_end);
  EXPECT_EQ(close->peer_end->epoch, 10u);
  t.b.closed(path(0, kA, 0), true, 20, 10);
  // B may resume at once: A had closed its end before it reported that.
  const auto resume_b = take<ResumePath>(t.b);
  ASSERT_TRUE(resume_b);
  t.exchange();
  const auto resume_a = take<ResumePath>(t.a);
  ASSERT_TRUE(resume_a);
  EXPECT_EQ(resume_a->incarnation, t.a.own_incarnation(kB));
  EXPECT_EQ(t.a.stats().fenced, 1u);
  EXPECT_EQ(t.a.stats().resumed, 1u);
}

TEST(Paths, BothEndsMayGiveUpAPathAtOnce) {  // FO-3
  Two t;
  t.a.dead(path(0, kB, 0));
  t.b.dead(path(0, kA, 0));
  (void)t.a.poll_command();
  (void)t.b.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.exchange();
  for (Paths* node : {&t.a, &t.b}) {
    const auto resume = take<ResumePath>(*node);
    ASSERT_TRUE(resume);
    EXPECT_FALSE(node->poll_command()) << "once";
  }
}

// Each gives up the path that the other keeps.
TEST(Paths, LastPathThatWasGivenUpStartsANewHandshake) {  // FO-10
  Two t;
  t.a.dead(path(0, kB, 0));
  ASSERT_TRUE(take<ClosePath>(t.a));
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.a.up(path(0, kB, 0), t.a.association(kB));
  EXPECT_FALSE(t.a.poll_command()) << "as long as the other lives it waits for the peer's word";
  t.a.dead(path(1, kB, 1));
  const auto handshake = take<HandshakePath>(t.a);
  ASSERT_TRUE(handshake);
  EXPECT_EQ(handshake->path, path(0, kB, 0));
  EXPECT_EQ(handshake->incarnation, t.a.own_incarnation(kB)) << "it is no other one";
  t.a.dead(path(1, kB, 1));
  EXPECT_FALSE(t.a.poll_command()) << "once";

  t.a.up(path(0, kB, 0), t.a.association(kB));
  const auto resume = take<ResumePath>(t.a);
  ASSERT_TRUE(resume);
  EXPECT_TRUE(t.a.reachable(kB));
  // Now there is a path to give up the other for.
  const auto close = take<ClosePath>(t.a);
  ASSERT_TRUE(close);
  EXPECT_EQ(close->path, path(1, kB, 1));
}

TEST(Paths, FenceDuringAHandshakeClosesTheNewEnd) {  // FO-3, FO-10
  Two t;
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.a.dead(path(1, kB, 1));
  ASSERT_TRUE(take<HandshakePath>(t.a));
  ControlMessage fence;
  fence.kind = ControlMessage::Kind::kFence;
  fence.epoch = 21;
  t.a.on_control(kB, fence);
  const auto close = take<ClosePath>(t.a);
  ASSERT_TRUE(close);
  ASSERT_TRUE(close->peer_end);
  EXPECT_EQ(close->peer_end->epoch, 21u);
  EXPECT_FALSE(t.a.poll_command()) << "whether it was what the peer had closed is not known";
  // It was another: the handshake goes on.
  Two u = t;
  u.a.closed(path(0, kB, 0), false, 12, 0);
  EXPECT_FALSE(u.a.poll_command());
  u.a.up(path(0, kB, 0), u.a.association(kB));
  EXPECT_TRUE(take<ResumePath>(u.a));
  // The two had been in that conversation, so the one before is over as well.
  t.a.closed(path(0, kB, 0), true, 12, 21);
  EXPECT_TRUE(take<ResumePath>(t.a));
}

TEST(Paths, OldFenceDoesNotEndALaterConnection) {  // FO-3
  Two t;
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  ControlMessage late;
  late.kind = ControlMessage::Kind::kFence;
  late.epoch = 19;
  t.a.on_control(kB, late);
  EXPECT_FALSE(t.a.poll_command());
  late.epoch = 20;
  t.a.on_control(kB, late);
  EXPECT_TRUE(take<ResumePath>(t.a));
}

// A stalled proxy may have sent in the conversation of its handshake, so that has to be closed
// too, and the answer about the one before says nothing of it.
TEST(Paths, StalledProxyInAHandshakeIsFencedWhateverItsEpoch) {  // FO-5, FO-10
  Two t;
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  ASSERT_EQ(t.a.poll_control()->message.epoch, 10u);
  t.a.dead(path(1, kB, 1));
  ASSERT_TRUE(take<HandshakePath>(t.a));
  t.a.stalled(ProxyId(0));
  ControlMessage fenced;
  fenced.kind = ControlMessage::Kind::kFenced;
  fenced.epoch = 10;
  t.a.on_control(kB, fenced);
  t.a.up(path(0, kB, 0), t.a.association(kB));  // reported before the proxy stalled
  EXPECT_FALSE(t.a.fenced(ProxyId(0)));
  t.a.up(path(1, kB, 1), t.a.association(kB));
  const auto fence = t.a.poll_control();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->message.kind, ControlMessage::Kind::kFenceBefore);
}

TEST(Paths, MessageThatArrivesWhileAPathClosesIsKept) {  // FO-1, FO-3
  Two t;
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.up(path(0, kB, 0), t.a.association(kB));
  t.a.closed(path(0, kB, 0), false, 10, 20);  // packets arrived again
  t.a.dead(path(1, kB, 1));
  EXPECT_TRUE(t.a.reachable(kB));
  EXPECT_EQ(t.a.control_proxy(kB), ProxyId(0));
  // And a death: the peer's word was about another incarnation, but this one is dead now.
  Two u;
  ControlMessage late;
  late.kind = ControlMessage::Kind::kFence;
  late.epoch = 9;
  u.b.on_control(kA, late);
  (void)u.b.poll_command();
  u.b.dead(path(0, kA, 0));
  u.b.closed(path(0, kA, 0), false, 20, 10);
  const auto close = take<ClosePath>(u.b);
  ASSERT_TRUE(close);
  EXPECT_FALSE(close->peer_end);
}

TEST(Paths, FenceOfAPastIncarnationIsAnsweredAndChangesNothing) {  // FO-3
  Two t;
  ControlMessage late;
  late.kind = ControlMessage::Kind::kFence;
  late.epoch = 9;
  t.b.on_control(kA, late);
  const auto close = take<ClosePath>(t.b);
  ASSERT_TRUE(close);
  t.b.closed(path(0, kA, 0), false, 20, 10);  // its proxy sees that it is another
  const auto answer = t.b.poll_control();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message.kind, ControlMessage::Kind::kFenced);
  EXPECT_EQ(answer->message.epoch, 9u);
  EXPECT_FALSE(t.b.poll_command());
  EXPECT_TRUE(t.b.reachable(kA));
}

TEST(Paths, FenceOfAStalledProxyCoversAnyEpoch) {  // FO-5, FO-6
  Two t;
  t.a.stalled(ProxyId(0));
  EXPECT_FALSE(t.a.fenced(ProxyId(0)));
  const auto fence = t.a.poll_control();
  ASSERT_TRUE(fence);
  EXPECT_EQ(fence->message.kind, ControlMessage::Kind::kFenceBefore);
  t.b.on_control(kA, fence->message);
  const auto close = take<ClosePath>(t.b);
  ASSERT_TRUE(close);
  ASSERT_TRUE(close->peer_end && close->peer_end->before);
  EXPECT_EQ(close->peer_end->epoch, fence->message.epoch);
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.exchange();
  EXPECT_TRUE(t.a.fenced(ProxyId(0)));
  EXPECT_FALSE(t.a.poll_command()) << "there is nobody to obey";
  t.a.back(ProxyId(0));
  const auto resume = take<ResumePath>(t.a);
  ASSERT_TRUE(resume);
  EXPECT_EQ(resume->epoch, fence->message.epoch)
      << "should the fence come late, it is known not to mean this one";
}

TEST(Paths, ReturningProxyWaitsUntilItsOldEndIsClosed) {  // FO-6
  Two t;
  t.a.stalled(ProxyId(0));
  const auto fence = t.a.poll_control();
  t.a.back(ProxyId(0));
  EXPECT_FALSE(t.a.poll_command());
  t.b.on_control(kA, fence->message);
  (void)t.b.poll_command();
  t.b.closed(path(0, kA, 0), true, 20, 10);
  t.exchange();
  ASSERT_TRUE(t.a.poll_command());
}

TEST(Paths, PeerIsLostOnceHoweverManyPathsReportIt) {  // FO-7
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
    const auto forget = take<ForgetPeer>(t.a);
    ASSERT_TRUE(forget);
    EXPECT_EQ(forget->proxy.value(), p);
    EXPECT_EQ(forget->association, old);
  }
  // A message from before, still in flight, is ignored.
  EXPECT_FALSE(t.a.received(kB, old));
  EXPECT_TRUE(t.a.received(kB, {t.a.own_incarnation(kB), old.peer}));
}

TEST(Paths, NewPeerIncarnationEndsTheOldOneOnly) {  // FO-7
  Two t;
  const Association old = t.a.association(kB);
  const Association next{old.own, old.peer + 2};
  t.a.up(path(0, kB, 0), next);
  ASSERT_TRUE(t.a.poll_lost());
  EXPECT_EQ(t.a.association(kB), next);
  // The other sub-connection hears of it later.
  t.a.lost(kB, old, false);
  EXPECT_FALSE(t.a.received(kB, old));
  EXPECT_FALSE(t.a.poll_lost());
  EXPECT_EQ(t.a.association(kB), next);
}

TEST(Paths, PeerThatNoPathReachesIsGivenUpByTheNode) {  // FO-7
  Two t;
  EXPECT_FALSE(t.a.all_closed(kB));
  t.a.dead(path(0, kB, 0));
  (void)t.a.poll_command();
  t.a.closed(path(0, kB, 0), true, 10, 20);
  t.a.stalled(ProxyId(1));
  EXPECT_TRUE(t.a.all_closed(kB));
  t.a.give_up(kB);
  EXPECT_FALSE(t.a.all_closed(kB));
  EXPECT_TRUE(t.a.poll_lost());
}

// Random deaths, stalls and returns of two nodes whose control messages travel only over paths that are open at
// both. In the end no path waits for a message that will never arrive, and nothing is sent again before the
// peer's end of its former path is closed. A peer is given up only if proxies at both nodes stalled again during
// their handshake.
TEST(Paths, NoOrderOfEventsLeavesAPathWaitingForever) {  // FO-1 to FO-6, FO-10
  int crossed = 0;
  int given_up = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Two t;
    std::array<Paths*, 2> nodes{&t.a, &t.b};
    const std::array<ClusterId, 2> peer{kB, kA};
    std::uint64_t last_epoch = 100;
    const auto association_of = [&](unsigned n) {
      return Association{nodes[n]->own_incarnation(peer[n]), nodes[1 - n]->own_incarnation(peer[1 - n])};
    };
    // A sub-connection's end: in which epoch it is, with which of the peer's, and since when something of an
    // earlier conversation waits.
    struct End {
      enum { kOpen, kFenced, kHandshake } state = kOpen;
      std::uint64_t epoch = 0;
      std::uint64_t peer_epoch = 0;
      std::set<std::uint64_t> connected;  // epochs of the peer that it was connected to
      std::uint64_t former_peer = 0;      // the peer's epoch that must be over first; 0: nothing waits
      bool dead = false;
    };
    std::array<std::array<End, 2>, 2> ends;
    for (unsigned p = 0; p < 2; ++p) {
      ends[0][p] = {End::kOpen, 10 + p, 20 + p, {20 + p}, 0, false};
      ends[1][p] = {End::kOpen, 20 + p, 10 + p, {10 + p}, 0, false};
    }
    std::array<std::set<unsigned>, 2> stalled;
    std::array<bool, 2> cut{};  // by path: nothing gets through
    const auto fence = [&](End& end) {
      if (end.former_peer == 0) end.former_peer = end.peer_epoch;
      end.state = End::kFenced;
      end.dead = false;
    };
    const auto reopen = [&](End& end, std::uint64_t epoch) {
      if (end.state == End::kFenced)
        end = {End::kHandshake, epoch != 0 ? epoch : ++last_epoch, 0, end.connected, end.former_peer, false};
    };
    const auto obey = [&](unsigned n) {
      while (const auto command = nodes[n]->poll_command()) {
        const unsigned p = proxy_of(*command).value();
        if (stalled[n].count(p) != 0) continue;  // no proxy executes it
        End& end = ends[n][p];
        const End& other = ends[1 - n][p];
        if (const auto* const c = std::get_if<ClosePath>(&*command)) {
          const bool close =
              end.state != End::kFenced &&
              (!c->peer_end          ? end.state == End::kOpen && end.dead
               : c->peer_end->before ? end.connected.count(c->peer_end->epoch) == 0
                                     : end.state != End::kOpen || c->peer_end->epoch == end.peer_epoch);
          const End was = end;
          if (close) fence(end);
          nodes[n]->closed(c->path, close, was.epoch, was.state == End::kOpen ? was.peer_epoch : 0);
        } else if (const auto* const handshake = std::get_if<HandshakePath>(&*command)) {
          reopen(end, handshake->epoch);
        } else if (const auto* const resume = std::get_if<ResumePath>(&*command)) {
          EXPECT_TRUE(end.former_peer == 0 || other.epoch != end.former_peer || other.state == End::kFenced)
              << "it may still arrive where it was sent";
          reopen(end, resume->epoch);
          end.former_peer = 0;
        } else {
          for (End& e : ends[n]) e = {End::kHandshake, ++last_epoch, 0, e.connected, 0, false};
        }
      }
    };
    // A handshake that arrives, and the answer to it.
    const auto handshake = [&] {
      for (unsigned p = 0; p < 2; ++p)
        for (unsigned n = 0; n < 2 && !cut[p]; ++n) {
          End& from = ends[n][p];
          End& to = ends[1 - n][p];
          const bool runs = stalled[n].count(p) + stalled[1 - n].count(p) == 0;
          if (!runs || from.state != End::kHandshake || to.state == End::kFenced) continue;
          if (to.state == End::kOpen) to.epoch = ++last_epoch;
          to.state = from.state = End::kOpen;
          to.dead = from.dead = false;
          to.peer_epoch = from.epoch;
          from.peer_epoch = to.epoch;
          to.connected.insert(from.epoch);
          from.connected.insert(to.epoch);
          nodes[n]->up(path(p, peer[n], p), association_of(n));
          nodes[1 - n]->up(path(p, peer[1 - n], p), association_of(1 - n));
        }
    };
    const auto is_open = [&](unsigned n, unsigned p) {
      const End& end = ends[n][p];
      return !cut[p] && end.state == End::kOpen && ends[1 - n][p].state == End::kOpen &&
             end.peer_epoch == ends[1 - n][p].epoch && ends[1 - n][p].peer_epoch == end.epoch;
    };
    // Each end judges whether it hears the other.
    const auto judge = [&] {
      for (unsigned n = 0; n < 2; ++n)
        for (unsigned p = 0; p < 2; ++p) {
          End& end = ends[n][p];
          if (end.state != End::kOpen || stalled[n].count(p) != 0) continue;
          const bool open = is_open(n, p) && stalled[1 - n].count(p) == 0;
          if (!open && !std::exchange(end.dead, true)) nodes[n]->dead(path(p, peer[n], p));
          if (open && std::exchange(end.dead, false)) nodes[n]->up(path(p, peer[n], p), association_of(n));
        }
    };
    // Control messages travel over any path that is open at both ends; until there is one they wait.
    std::array<std::deque<ControlMessage>, 2> waiting;
    std::uint32_t serial = 0;
    bool deliver_all = false;  // otherwise some messages stay in flight for long
    const auto exchange = [&] {
      for (bool more = true; more;) {
        more = false;
        for (unsigned n = 0; n < 2; ++n) {
          while (auto out = nodes[n]->poll_control()) {
            out->message.serial = ++serial;
            waiting[n].push_back(out->message);
          }
          bool way = false;
          for (unsigned p = 0; p < 2; ++p)
            way = way || (is_open(n, p) && stalled[0].count(p) + stalled[1].count(p) == 0);
          for (; way && !waiting[n].empty() && (deliver_all || prng.chance(0.8)); more = true) {
            const auto next = waiting[n].begin() + static_cast<std::ptrdiff_t>(prng.below(waiting[n].size()));
            const ControlMessage message = *next;
            waiting[n].erase(next);
            nodes[1 - n]->on_control(peer[1 - n], message);
          }
        }
      }
    };
    // The proxies return without their former state: their ends are closed, and other proxies carry their
    // unacknowledged messages once they are fenced.
    const auto back = [&](unsigned n) {
      for (const unsigned p : std::exchange(stalled[n], {}))
        nodes[n]->back(ProxyId(static_cast<std::uint8_t>(p)));
    };
    for (int step = 0; step < 100; ++step) {
      const auto n = static_cast<unsigned>(prng.below(2));
      const auto p = static_cast<unsigned>(prng.below(2));
      switch (prng.below(7)) {
        case 6:
          back(n);
          break;
        case 0:
          cut[p] = !cut[p];
          break;
        case 1:  // one end alone
          if (ends[n][p].state == End::kOpen && stalled[n].count(p) == 0 &&
              !std::exchange(ends[n][p].dead, true))
            nodes[n]->dead(path(p, peer[n], p));
          break;
        case 2:
          if (stalled[n].empty() && prng.chance(0.3)) {
            nodes[n]->stalled(ProxyId(static_cast<std::uint8_t>(p)));
            stalled[n].insert(p);
            fence(ends[n][p]);
          }
          break;
        case 3:
          handshake();
          break;
        case 4:
          exchange();
          break;
        case 5:
          judge();
          break;
      }
      if (prng.chance(0.7)) obey(n);
      for (unsigned who = 0; who < 2; ++who)
        for (const unsigned s : stalled[who])
          EXPECT_TRUE(!nodes[who]->fenced(ProxyId(static_cast<std::uint8_t>(s))) ||
                      ends[1 - who][s].state != End::kOpen ||
                      ends[1 - who][s].peer_epoch != ends[who][s].epoch)
              << "what it sent may still arrive";
    }
    cut = {};
    deliver_all = true;
    crossed += !t.a.reachable(kB) && !t.b.reachable(kA) ? 1 : 0;
    const auto settle = [&] {
      for (int round = 0; round < 20; ++round) {
        obey(0);
        obey(1);
        exchange();
        handshake();
        judge();
        back(0);
        back(1);
      }
    };
    settle();
    EXPECT_FALSE(t.a.poll_lost() || t.b.poll_lost());
    if (!t.a.reachable(kB) && !t.b.reachable(kA)) {
      ++given_up;
      waiting = {};
      for (unsigned n = 0; n < 2; ++n) nodes[n]->give_up(peer[n]);
      settle();
    }
    for (unsigned n = 0; n < 2; ++n) {
      for (unsigned p = 0; p < 2; ++p) {
        EXPECT_TRUE(nodes[n]->fenced(ProxyId(static_cast<std::uint8_t>(p))))
            << "node " << n << ", proxy " << p;
        EXPECT_TRUE(is_open(n, p)) << "node " << n << ", proxy " << p;
        EXPECT_EQ(ends[n][p].former_peer, 0u);
      }
      EXPECT_TRUE(waiting[n].empty());
      EXPECT_FALSE(nodes[n]->all_closed(peer[n]));
      EXPECT_TRUE(nodes[n]->reachable(peer[n]));
    }
  }
  EXPECT_LE(given_up, 4);
  EXPECT_GT(crossed, 20) << "that neither hears the other has to happen";
}

}  // namespace
}  // namespace braid::convergence
