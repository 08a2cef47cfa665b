#include "proxy/daemon/routes.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/stack/two_stacks.h"

namespace braid::proxy {
namespace {

using stack::StackConfig;
using stack::SubConnection;

constexpr ClusterId kPeer{1};

// One proxy here, and three of the peer's cluster, all of them connected.
class RoutesTest : public ::testing::Test {
 protected:
  static constexpr std::uint8_t kProxies = 3;

  void SetUp() override {
    StackConfig us = stack::stack_config(0, 2);
    const stack::RemoteStack first = us.remotes[0];
    us.remotes.clear();
    for (std::uint8_t p = 0; p < kProxies; ++p) {
      us.remotes.push_back(first);
      us.remotes.back().id.proxy = ProxyId(p);
      us.remotes.back().udp_port = static_cast<std::uint16_t>(us.udp_port_base + p);
    }
    stack::Stack& stack = *wire_.add(us).stack;
    for (std::uint8_t p = 0; p < kProxies; ++p) {
      StackConfig them = stack::stack_config(1, 2, false, kProxies);
      them.local.proxy = ProxyId(p);
      them.seed += p;
      wire_.add(them);
    }
    wire_.run_for(50_ms);
    for (const auto& sub : stack.sub_connections()) {
      ASSERT_TRUE(sub->established());
      subs_.push_back(sub.get());
    }
  }
  // Those that so many messages would go over.
  std::set<SubConnection*> picked() {
    std::set<SubConnection*> all;
    for (int i = 0; i < 12; ++i) all.insert(routes_.pick(kPeer));
    return all;
  }

  stack::Wire wire_;
  std::vector<SubConnection*> subs_;
  Routes routes_;
};

TEST_F(RoutesTest, UnknownClusterHasNoWay) {
  EXPECT_EQ(routes_.pick(kPeer), nullptr);
  EXPECT_EQ(routes_.only(kPeer), nullptr);
  EXPECT_EQ(routes_.waiting_place(kPeer), nullptr);
}

TEST_F(RoutesTest, PreferredTakeTurnsWhileOneOfThemLives) {
  routes_.set(kPeer, subs_, 2);
  EXPECT_EQ(picked(), (std::set<SubConnection*>{subs_[0], subs_[1]}));
  EXPECT_NE(routes_.pick(kPeer), routes_.pick(kPeer));
  (void)subs_[0]->fence(wire_.now);
  EXPECT_EQ(picked(), std::set<SubConnection*>{subs_[1]});
  (void)subs_[1]->fence(wire_.now);
  EXPECT_EQ(picked(), std::set<SubConnection*>{subs_[2]});
}

TEST_F(RoutesTest, ProxiesThatAreSetAsideComeLast) {  // FO-8
  routes_.set(kPeer, subs_, 3);
  routes_.set_active(kPeer, 1);
  EXPECT_EQ(picked(), std::set<SubConnection*>{subs_[0]});
  (void)subs_[0]->fence(wire_.now);
  const std::set<SubConnection*> last_resort = picked();
  EXPECT_FALSE(last_resort.contains(nullptr));
  EXPECT_FALSE(last_resort.contains(subs_[0]));
  routes_.set_active(kPeer, 2);
  EXPECT_EQ(picked(), std::set<SubConnection*>{subs_[1]});
}

TEST_F(RoutesTest, OnlyWayIsKnownWhereThereIsOne) {
  routes_.set(kPeer, {subs_[0]}, 1);
  EXPECT_EQ(routes_.only(kPeer), subs_[0]);
  (void)subs_[0]->fence(wire_.now);
  EXPECT_EQ(routes_.only(kPeer), nullptr);
  EXPECT_EQ(routes_.pick(kPeer), nullptr);
  routes_.set(kPeer, {subs_[1], subs_[2]}, 1);
  EXPECT_EQ(routes_.only(kPeer), nullptr) << "there is a choice";
}

TEST_F(RoutesTest, MessagesWaitWhereAHandshakeRuns) {
  routes_.set(kPeer, subs_, 3);
  for (SubConnection* const sub : subs_) (void)sub->fence(wire_.now);
  EXPECT_EQ(routes_.waiting_place(kPeer), nullptr);
  subs_[1]->reopen(wire_.now, 0);
  EXPECT_EQ(routes_.pick(kPeer), nullptr);
  EXPECT_EQ(routes_.waiting_place(kPeer), subs_[1]);
}

}  // namespace
}  // namespace braid::proxy
