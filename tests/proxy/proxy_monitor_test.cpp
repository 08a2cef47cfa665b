#include "proxy/daemon/proxy_monitor.h"

#include <gtest/gtest.h>

#include <array>

namespace braid::proxy {
namespace {

// Three proxies that are looked at every 10 ms, and of which those in `beating` have moved.
class ProxyMonitorTest : public ::testing::Test {
 protected:
  static constexpr ProxyMonitor::Config kConfig{.proxies = 3, .heartbeat_timeout = 100_ms};

  void pass(Duration time, std::vector<unsigned> beating) {
    for (const Instant until = now_ + time; now_ < until;) {
      now_ = now_ + 10_ms;
      for (const unsigned p : beating) ++beats_[p];
      EXPECT_EQ(monitor_.observe(now_, beats_), Duration());
    }
  }
  void fence_and_forget(unsigned p) {
    monitor_.fence(p);
    for (unsigned other = 0; other < 3; ++other)
      if (other != p) monitor_.forgotten(p, other);
  }

  Instant now_ = Instant() + 1_s;
  std::array<std::uint64_t, 3> beats_{};
  ProxyMonitor monitor_{kConfig, now_};
};

TEST_F(ProxyMonitorTest, MovingProxyIsNotStalled) {
  pass(1_s, {0, 1, 2});
  for (unsigned p = 0; p < 3; ++p) {
    EXPECT_FALSE(monitor_.is_stalled(p));
    EXPECT_TRUE(monitor_.serves(p));
  }
}

TEST_F(ProxyMonitorTest, ProxyWithoutAHeartbeatIsStalledAfterTheTimeout) {  // FO-5
  pass(100_ms, {0, 1, 2});
  pass(90_ms, {0, 2});
  EXPECT_FALSE(monitor_.is_stalled(1));
  pass(10_ms, {0, 2});
  EXPECT_TRUE(monitor_.is_stalled(1));
  EXPECT_FALSE(monitor_.is_stalled(0));
}

TEST_F(ProxyMonitorTest, NoProxyIsStalledWhileNoneMoves) {  // FO-5
  pass(1_s, {});
  for (unsigned p = 0; p < 3; ++p) EXPECT_FALSE(monitor_.is_stalled(p));
  pass(10_ms, {0});
  EXPECT_TRUE(monitor_.is_stalled(1));
}

TEST_F(ProxyMonitorTest, LateControlPlaneRestartsTheWait) {  // FO-5
  pass(90_ms, {0, 2});
  now_ = now_ + 60_ms;
  ++beats_[0];
  EXPECT_EQ(monitor_.observe(now_, beats_), 60_ms);
  EXPECT_FALSE(monitor_.is_stalled(1));
  pass(10_ms, {0, 2});
  EXPECT_TRUE(monitor_.is_stalled(1)) << "what it saw before counts";
}

TEST_F(ProxyMonitorTest, PlannedPauseOfTheControlPlaneIsNoGap) {  // FO-5
  pass(10_ms, {0, 1, 2});
  for (int i = 0; i < 10; ++i) {
    monitor_.pauses_until(now_ + 90_ms);
    now_ = now_ + 100_ms;
    ++beats_[0];
    ++beats_[2];
    EXPECT_EQ(monitor_.observe(now_, beats_), Duration());
    EXPECT_TRUE(monitor_.is_stalled(1)) << i;
    EXPECT_FALSE(monitor_.is_stalled(0)) << i;
  }
  monitor_.pauses_until(now_ + 90_ms);
  now_ = now_ + 150_ms;
  EXPECT_EQ(monitor_.observe(now_, beats_), 60_ms) << "late after the pause";
}

TEST_F(ProxyMonitorTest, ProxyIsStalledThoughTheControlPlaneIsLateAgainAndAgain) {  // FO-5
  for (int i = 0; i < 9; ++i) {
    pass(10_ms, {0, 2});
    now_ = now_ + 60_ms;
    ++beats_[0];
    EXPECT_EQ(monitor_.observe(now_, beats_), 60_ms);
    EXPECT_FALSE(monitor_.is_stalled(1)) << i;
  }
  pass(10_ms, {0, 2});
  EXPECT_TRUE(monitor_.is_stalled(1));
}

TEST_F(ProxyMonitorTest, DisabledMonitorReportsNoStalledProxy) {
  ProxyMonitor off({.proxies = 3, .heartbeat_timeout = 100_ms, .enabled = false}, now_);
  for (int i = 0; i < 100; ++i) {
    now_ = now_ + 10_ms;
    ++beats_[0];
    EXPECT_EQ(off.observe(now_, beats_), Duration());
    EXPECT_FALSE(off.is_stalled(1));
  }
}

TEST_F(ProxyMonitorTest, FencedProxySettlesWhenAllOthersHaveForgottenIt) {  // FO-5
  monitor_.fence(1);
  EXPECT_FALSE(monitor_.running(1));
  EXPECT_TRUE(monitor_.unsettled(1));
  EXPECT_TRUE(monitor_.awaits_anybody());
  EXPECT_FALSE(monitor_.may_settle(1));
  monitor_.forgotten(1, 0);
  EXPECT_FALSE(monitor_.may_settle(1));
  monitor_.forgotten(1, 2);
  EXPECT_FALSE(monitor_.awaits_anybody());
  ASSERT_TRUE(monitor_.may_settle(1));
  monitor_.mark_settled(1);
  EXPECT_FALSE(monitor_.unsettled(1));
  EXPECT_FALSE(monitor_.may_settle(1));
  EXPECT_FALSE(monitor_.serves(1)) << "its thread is stalled";
}

TEST_F(ProxyMonitorTest, ReturnedProxyDoesNotServeBeforeItIsSettled) {  // FO-6
  monitor_.fence(1);
  monitor_.resumed(1);
  EXPECT_FALSE(monitor_.may_return(1)) << "others still have something of it";
  monitor_.forgotten(1, 0);
  monitor_.forgotten(1, 2);
  ASSERT_TRUE(monitor_.may_return(1));
  monitor_.take_back(1);
  EXPECT_TRUE(monitor_.running(1));
  EXPECT_FALSE(monitor_.serves(1));
  EXPECT_TRUE(monitor_.may_settle(1));
  monitor_.mark_settled(1);
  EXPECT_TRUE(monitor_.serves(1));
}

TEST_F(ProxyMonitorTest, AnswerOfAStalledProxyIsNotAwaited) {  // FO-5
  monitor_.fence(1);
  monitor_.fence(2);
  monitor_.forgotten(1, 0);
  EXPECT_TRUE(monitor_.may_settle(1));
  EXPECT_FALSE(monitor_.may_settle(2));
  monitor_.forgotten(2, 0);
  EXPECT_TRUE(monitor_.may_settle(2));
}

TEST_F(ProxyMonitorTest, GenerationsCountFences) {
  fence_and_forget(1);
  monitor_.resumed(1);
  monitor_.take_back(1);
  fence_and_forget(1);
  fence_and_forget(2);
  const ProxyGenerations generations = monitor_.generations();
  EXPECT_EQ(generations[0], 0u);
  EXPECT_EQ(generations[1], 2u);
  EXPECT_EQ(generations[2], 1u);
}

TEST_F(ProxyMonitorTest, EachFenceAwaitsAReturn) {  // FO-6
  fence_and_forget(1);
  monitor_.resumed(1);
  monitor_.take_back(1);
  fence_and_forget(1);
  EXPECT_FALSE(monitor_.may_return(1));
}

}  // namespace
}  // namespace braid::proxy
