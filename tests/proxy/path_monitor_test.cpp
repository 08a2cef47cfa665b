#include "proxy/daemon/path_monitor.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "tests/stack/two_stacks.h"

namespace braid::proxy {
namespace {

using convergence::Association;
using convergence::Paths;
using stack::OutMessage;
using stack::Stack;
using stack::StackConfig;
using State = stack::SubConnection::State;

constexpr ClusterId kPeer{1};
constexpr convergence::PathId kPath{ProxyId(0), kPeer, ProxyId(0)};
constexpr Association kAssociation{11, 22};

StackConfig config(std::uint16_t cluster, std::uint64_t incarnation, bool absent = false) {
  StackConfig c = stack::stack_config(cluster, 2);
  c.remotes[0].incarnation = incarnation;
  c.remotes[0].absent = absent;
  return c;
}

// A proxy with one path, to the only proxy of cluster 1, whose stack the test drives.
// With true, it looks only at the paths that have changed.
class PathMonitorTest : public ::testing::TestWithParam<bool> {
 protected:
  void make(bool absent = false) {
    us_.emplace(config(0, kAssociation.own, absent), now_);
    monitor_.emplace(*us_);
  }
  void restart_peer(std::uint64_t incarnation = kAssociation.peer, std::uint64_t seed = 1) {
    StackConfig c = config(1, incarnation);
    c.seed = seed;
    them_.emplace(c, now_);
  }
  void connect() {
    make();
    restart_peer();
    run(20_ms);
    ASSERT_TRUE(sub().established());
    (void)decisions();
  }
  // Frames arrive at once, unless nothing does.
  void run(Duration time) {
    for (const Instant end = now_ + time; now_ < end; now_ = now_ + 1_ms) {
      for (int round = 0; round < 4; ++round) {
        if (us_) transmit(*us_, them_);
        if (them_) transmit(*them_, us_);
      }
      if (monitor_) GetParam() ? monitor_->watch_changed(now_) : monitor_->watch(now_);
    }
  }
  void transmit(Stack& from, std::optional<Stack>& to) {
    for (stack::Bytes frame(from.frame_bytes());;) {
      const std::size_t length = from.poll_transmit(now_, stack::kWire, frame);
      if (length == 0) return;
      if (cut_ || !to) continue;
      const Stack::Received r = to->receive(now_, stack::kWire, ByteView(frame).first(length));
      if (&*to == &*them_) (void)to->sub_connections()[0]->take_lost();
      if (r.what == Stack::Received::What::kRecords) to->delivered(now_, r);
    }
  }
  stack::SubConnection& sub() { return *us_->sub_connections()[0]; }
  OutMessage& send() {
    OutMessage& m = messages_.emplace_back();
    m.data = bytes_.data();
    m.bytes = m.record.message_bytes = static_cast<std::uint32_t>(bytes_.size());
    sub().send(m);
    return m;
  }
  void die() {
    cut_ = true;
    run(1_s);
    ASSERT_TRUE(sub().path_dead());
  }
  std::vector<PathMonitor::Decision> decisions() {
    std::vector<PathMonitor::Decision> all;
    while (const std::optional<PathMonitor::Decision> d = monitor_->poll()) all.push_back(*d);
    return all;
  }
  // The events among them, of that type.
  template <class Event>
  static std::vector<Event> events(const std::vector<PathMonitor::Decision>& decisions) {
    std::vector<Event> found;
    for (const PathMonitor::Decision& d : decisions)
      if (const auto* const event = std::get_if<WorkerEvent>(&d))
        if (const auto* const one = std::get_if<Event>(event)) found.push_back(*one);
    return found;
  }
  template <class Kind>
  static std::vector<Kind> of(const std::vector<PathMonitor::Decision>& decisions) {
    std::vector<Kind> found;
    for (const PathMonitor::Decision& d : decisions)
      if (const auto* const one = std::get_if<Kind>(&d)) found.push_back(*one);
    return found;
  }
  template <class Command>
  void command(const Command& c) {
    monitor_->obey(now_, c);
  }
  static constexpr ClosePath kClose{kPath, std::nullopt};
  static constexpr HandshakePath kHandshake{kPath, kAssociation.own, 0};
  static constexpr ResumePath kResume{kPath, kAssociation.own, 0};

  Instant now_ = Instant::from_ns(1'000'000'000);
  bool cut_ = false;
  std::optional<Stack> us_;
  std::optional<Stack> them_;
  std::optional<PathMonitor> monitor_;
  std::deque<OutMessage> messages_;
  std::array<std::byte, 64> bytes_{};
};

TEST_P(PathMonitorTest, EstablishedPathIsUpOnce) {
  make();
  restart_peer();
  run(50_ms);
  const auto up = events<PathUp>(decisions());
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].path, kPath);
  EXPECT_EQ(up[0].association, kAssociation);
  EXPECT_TRUE(monitor_->reached().contains(kPeer));
  EXPECT_EQ(monitor_->routes().pick(kPeer), &sub());
  EXPECT_FALSE(monitor_->refused_peer());
}

// SE-2: with another secret, and then without one.
TEST_P(PathMonitorTest, PeerWithAnotherSecretIsReportedOnceForEachReason) {
  const auto secret = [](int first) {
    return std::make_shared<const stack::Secret>(stack::KeyBytes{static_cast<std::byte>(first)});
  };
  StackConfig ours = config(0, kAssociation.own), theirs = config(1, kAssociation.peer);
  ours.sub_connection.security.secret = secret(1);
  theirs.sub_connection.security.secret = secret(2);
  us_.emplace(ours, now_);
  monitor_.emplace(*us_);
  them_.emplace(theirs, now_);
  run(2_s);
  const auto refused = events<PeerRefused>(decisions());
  ASSERT_EQ(refused.size(), 1u) << "though it says hello again and again";
  EXPECT_EQ(refused[0].cluster, kPeer);
  EXPECT_EQ(refused[0].why, stack::Refusal::kOtherSecret);
  EXPECT_FALSE(sub().established());
  restart_peer();
  run(2_s);
  const auto plain = events<PeerRefused>(decisions());
  ASSERT_EQ(plain.size(), 1u);
  EXPECT_EQ(plain[0].why, stack::Refusal::kNoSecret);
  // With the right one it is let in.
  theirs.sub_connection.security.secret = secret(1);
  theirs.seed = 7;
  them_.emplace(theirs, now_);
  run(2_s);
  EXPECT_TRUE(sub().established());
  EXPECT_TRUE(events<PeerRefused>(decisions()).empty());
}

TEST_P(PathMonitorTest, SilentPathIsDeadUntilAPacketArrives) {
  connect();
  die();
  EXPECT_EQ(events<PathDead>(decisions()).size(), 1u);
  EXPECT_TRUE(monitor_->reached().empty());
  EXPECT_EQ(monitor_->routes().pick(kPeer), nullptr);
  cut_ = false;
  run(1_s);
  EXPECT_EQ(events<PathUp>(decisions()).size(), 1u);
  EXPECT_TRUE(monitor_->reached().contains(kPeer));
}

TEST_P(PathMonitorTest, PathThatLivesIsNotClosedForBeingDead) {
  connect();
  command(kClose);
  const auto closed = events<PathClosed>(decisions());
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_FALSE(closed[0].closed);
  EXPECT_TRUE(sub().established());
}

TEST_P(PathMonitorTest, ClosedPathKeepsItsMessagesUntilItIsResumed) {  // FO-4
  connect();
  die();
  OutMessage& unacknowledged = send();
  (void)decisions();
  command(kClose);
  std::vector<PathMonitor::Decision> decided = decisions();
  const auto closed = events<PathClosed>(decided);
  ASSERT_EQ(closed.size(), 1u);
  EXPECT_TRUE(closed[0].closed);
  EXPECT_TRUE(of<PathMonitor::SendAgain>(decided).empty());
  EXPECT_EQ(sub().state(), State::kFenced);

  command(kResume);
  decided = decisions();
  const auto again = of<PathMonitor::SendAgain>(decided);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].messages, &unacknowledged);
  EXPECT_TRUE(again[0].maybe_duplicates);
  EXPECT_EQ(sub().state(), State::kHandshake);
  command(kResume);
  EXPECT_TRUE(decisions().empty()) << "it was resumed already";
}

TEST_P(PathMonitorTest, NewHandshakeIsUpOnlyWhenThePeerHasAnsweredInIt) {  // FO-10
  connect();
  die();
  (void)send();
  command(kClose);
  (void)decisions();
  command(kHandshake);
  EXPECT_EQ(sub().state(), State::kHandshake);
  run(20_ms);
  EXPECT_TRUE(decisions().empty()) << "no packet has arrived, and its messages still wait";
  cut_ = false;
  run(100_ms);
  const std::vector<PathMonitor::Decision> decided = decisions();
  EXPECT_EQ(events<PathUp>(decided).size(), 1u);
  EXPECT_TRUE(of<PathMonitor::SendAgain>(decided).empty());
}

TEST_P(PathMonitorTest, SilentPeerIsLostAndItsPathWaits) {
  connect();
  cut_ = true;
  run(11_s);
  const std::vector<PathMonitor::Decision> decided = decisions();
  const auto lost = events<PeerLost>(decided);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].association, kAssociation);
  EXPECT_TRUE(lost[0].silent);
  EXPECT_FALSE(lost[0].closed);
  const auto ended = of<PathMonitor::EndIncarnation>(decided);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].peer, kPeer);
  EXPECT_EQ(ended[0].incarnation, kAssociation.peer);
  EXPECT_EQ(sub().state(), State::kFenced);
}

TEST_P(PathMonitorTest, NewIncarnationReplacesThePeer) {  // FO-7
  connect();
  restart_peer(33, 2);
  run(100_ms);
  const std::vector<PathMonitor::Decision> decided = decisions();
  const auto lost = events<PeerLost>(decided);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_FALSE(lost[0].silent);
  const auto up = events<PathUp>(decided);
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].association.peer, 33u);
  EXPECT_TRUE(sub().established());
}

TEST_P(PathMonitorTest, ForgottenPeersMessagesFailAndANewHandshakeBegins) {
  connect();
  die();
  OutMessage& held = send();
  command(kClose);
  (void)decisions();
  command(ForgetPeer{kPath.local, kPath.cluster, kAssociation, 12});
  const std::vector<PathMonitor::Decision> decided = decisions();
  ASSERT_EQ(of<PathMonitor::EndIncarnation>(decided).size(), 1u);
  const auto failed = of<PathMonitor::Fail>(decided);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].messages, &held);
  const auto waiting = of<PathMonitor::FailWaiting>(decided);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].to, kPeer);
  EXPECT_EQ(sub().state(), State::kHandshake);
  EXPECT_EQ(sub().config().incarnation, 12u);
}

TEST_P(PathMonitorTest, MessagesForAPeerThatNeverCameTakeAnotherPath) {
  make();
  OutMessage& waiting = send();
  monitor_->watch_changed(now_);
  monitor_->recall_waiting([](std::size_t) { return ~(std::uint64_t{1} << kPeer.value()); });
  EXPECT_TRUE(decisions().empty());
  monitor_->recall_waiting([](std::size_t) { return std::uint64_t{1} << kPeer.value(); });
  const auto again = of<PathMonitor::SendAgain>(decisions());
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].messages, &waiting);
  EXPECT_FALSE(again[0].maybe_duplicates) << "no peer has received it";
}

TEST_P(PathMonitorTest, DrainedClusterEndsWhenThePeerKnowsAndNothingIsLent) {
  connect();
  monitor_->obey(now_, DrainCluster{kPeer});
  EXPECT_EQ(monitor_->routes().waiting_place(kPeer), nullptr);
  EXPECT_TRUE(monitor_->draining());
  EXPECT_EQ(monitor_->next_deadline(), now_ + 200_ms);
  run(20_ms);
  EXPECT_EQ(sub().state(), State::kClosed);
  (void)decisions();
  monitor_->end_drains(now_, [](ClusterId) { return true; });
  std::vector<PathMonitor::Decision> decided = decisions();
  EXPECT_EQ(of<PathMonitor::FailWaiting>(decided).size(), 1u);
  EXPECT_TRUE(events<ClusterDrained>(decided).empty());
  monitor_->end_drains(now_, [](ClusterId) { return false; });
  EXPECT_EQ(events<ClusterDrained>(decisions()).size(), 1u);
  EXPECT_FALSE(monitor_->draining());
  EXPECT_EQ(monitor_->next_deadline(), Instant::never());
  run(20_ms);
  EXPECT_TRUE(events<PeerLost>(decisions()).empty()) << "nothing is told of it any more";
}

TEST_P(PathMonitorTest, DrainedClusterThatDoesNotAnswerEndsAfterAWhile) {
  connect();
  cut_ = true;
  OutMessage& unsent = send();
  monitor_->obey(now_, DrainCluster{kPeer});
  run(100_ms);
  monitor_->end_drains(now_, [](ClusterId) { return false; });
  EXPECT_TRUE(events<ClusterDrained>(decisions()).empty());
  run(101_ms);
  monitor_->end_drains(now_, [](ClusterId) { return false; });
  const std::vector<PathMonitor::Decision> decided = decisions();
  EXPECT_EQ(events<ClusterDrained>(decided).size(), 1u);
  const auto failed = of<PathMonitor::Fail>(decided);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].messages, &unsent);
}

TEST_P(PathMonitorTest, AbsentPathIsUsedOnceItIsConnected) {
  make(true);
  restart_peer();
  run(50_ms);
  EXPECT_TRUE(decisions().empty());
  EXPECT_EQ(monitor_->routes().waiting_place(kPeer), nullptr);
  ConnectPath connect;
  connect.path = kPath;
  connect.remote = config(0, kAssociation.own).remotes[0];
  connect.opens = true;
  monitor_->obey(now_, connect);
  EXPECT_EQ(monitor_->routes().waiting_place(kPeer), &sub());
  run(50_ms);
  EXPECT_EQ(events<PathUp>(decisions()).size(), 1u);
}

TEST_P(PathMonitorTest, RestartedProxyHasClosedPathsAndNoMessages) {  // FO-6
  connect();
  die();
  (void)send();
  command(kClose);
  monitor_->restart(now_);
  EXPECT_TRUE(decisions().empty()) << "what was decided before is of no use";
  EXPECT_EQ(sub().state(), State::kFenced);
  command(kResume);
  EXPECT_TRUE(decisions().empty());
  EXPECT_EQ(sub().state(), State::kHandshake);
}

INSTANTIATE_TEST_SUITE_P(Looks, PathMonitorTest, ::testing::Bool(),
                         [](const auto& changed) { return changed.param ? "AtChanged" : "AtAll"; });

}  // namespace
}  // namespace braid::proxy
