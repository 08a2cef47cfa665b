#include "proxy/daemon/lanes.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace braid::proxy {
namespace {

// Three proxies and a client with one endpoint.
class LanesTest : public ::testing::Test {
 protected:
  static constexpr ClientId kClient = 9;

  void SetUp() override {
    control::Attach request{};
    request.endpoints = 1;
    request.send_bytes = 64 << 10;
    request.receive_bytes = 16 << 10;
    memory_ = ClientMemory::create(channel_geometry(request, 3).value(), 3, make_plain_region).value();
  }
  // The commands that wait, in order.
  std::vector<AddressedCommand> commands() {
    std::vector<AddressedCommand> all;
    while (const std::optional<AddressedCommand> told = lanes_.poll_command()) all.push_back(*told);
    return all;
  }
  template <class Command>
  static const Command& as(const AddressedCommand& told) {
    CHECK(std::holds_alternative<Command>(told.command));
    return std::get<Command>(told.command);
  }
  // The only command that waits is this, for that proxy.
  template <class Command>
  Command only(unsigned proxy) {
    const std::vector<AddressedCommand> all = commands();
    CHECK_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].proxy, proxy);
    return as<Command>(all[0]);
  }
  void add() {
    lanes_.add(kClient, *memory_);
    (void)commands();
  }
  // Tells the monitor and the lanes that a proxy is stalled and no other proxy uses it any more.
  Lanes::Channels fence(unsigned p) {
    monitor_.fence(p);
    for (unsigned other = 0; other < 3; ++other) monitor_.forgotten(p, other);
    lanes_.proxies_changed();
    view_ = memory_->isolate(p);
    return lanes_.fence(p);
  }

  ProxyMonitor monitor_{{.proxies = 3}, Instant()};
  std::unique_ptr<ClientMemory> memory_;
  RegionView view_;
  Lanes lanes_{monitor_};
};

TEST_F(LanesTest, EachProxyServesItsOwnLane) {
  for (unsigned lane = 0; lane < 3; ++lane) EXPECT_EQ(lanes_.server_for(lane), lane);
  lanes_.add(kClient, *memory_);
  const std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 6u);
  for (unsigned p = 0; p < 3; ++p) {
    EXPECT_EQ(told[2 * p].proxy, p);
    EXPECT_EQ(as<MapClient>(told[2 * p]).client, kClient);
    EXPECT_EQ(as<MapClient>(told[2 * p]).memory, memory_->view(p));
    const Channel* const channel = as<AttachChannel>(told[2 * p + 1]).channel;
    EXPECT_EQ(channel->lane, p);
    EXPECT_TRUE(channel->sends);
    EXPECT_EQ(channel, lanes_.receiver(kClient, 0, p));
  }
  EXPECT_TRUE(lanes_.serves(kClient));
  EXPECT_FALSE(lanes_.serves(kClient + 1));
}

TEST_F(LanesTest, LanesOfInactiveProxiesGoToActiveOnes) {
  lanes_.set_active(2);
  EXPECT_EQ(lanes_.server_for(0), 0u);
  EXPECT_EQ(lanes_.server_for(1), 1u);
  EXPECT_EQ(lanes_.server_for(2), 0u);
}

TEST_F(LanesTest, LanesOfALaterClientBeginAtTheirServers) {
  lanes_.set_active(1);
  lanes_.add(kClient, *memory_);
  const std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 8u);
  EXPECT_FALSE(as<AttachChannel>(told[3]).channel->sends) << "proxy 1 takes arrivals only";
  for (const unsigned i : {6u, 7u}) {
    EXPECT_EQ(told[i].proxy, 0u);
    EXPECT_EQ(as<AttachChannel>(told[i]).channel->lane, i - 5);
    EXPECT_TRUE(as<AttachChannel>(told[i]).channel->sends);
  }
  EXPECT_EQ(lanes_.rebalance(), 0);
}

TEST_F(LanesTest, LaneMovesWhenItsServerHasReleasedIt) {
  add();
  lanes_.set_active(2);
  EXPECT_TRUE(lanes_.unbalanced());
  EXPECT_EQ(lanes_.rebalance(), 1);
  EXPECT_EQ(lanes_.moving(), 1u);
  Channel* const own = only<ReleaseLane>(2).channel;
  EXPECT_EQ(own, lanes_.receiver(kClient, 0, 2));
  EXPECT_EQ(lanes_.rebalance(), 0) << "it is on its way";

  EXPECT_EQ(lanes_.released(own), 0u);
  EXPECT_EQ(lanes_.moving(), 0u);
  const Channel* const sender = only<AttachChannel>(0).channel;
  EXPECT_NE(sender, own);
  EXPECT_EQ(sender->lane, 2u);
  EXPECT_TRUE(sender->sends);
}

TEST_F(LanesTest, LaneReturnsToTheChannelOfItsOwnProxy) {
  lanes_.set_active(2);
  lanes_.add(kClient, *memory_);
  const std::vector<AddressedCommand> told = commands();
  Channel* const lent = as<AttachChannel>(told.back()).channel;
  ASSERT_EQ(told.back().proxy, 0u);
  lanes_.set_active(3);
  EXPECT_EQ(lanes_.rebalance(), 1);
  EXPECT_EQ(only<ReleaseLane>(0).channel, lent);
  EXPECT_EQ(lanes_.released(lent), 2u);
  const std::vector<AddressedCommand> home = commands();
  ASSERT_EQ(home.size(), 2u);
  EXPECT_EQ(as<DetachChannel>(home[0]).channel, lent) << "it lives until its proxy is done with it";
  EXPECT_EQ(home[0].proxy, 0u);
  EXPECT_EQ(as<ServeLane>(home[1]).channel, lanes_.receiver(kClient, 0, 2));
  EXPECT_EQ(home[1].proxy, 2u);
  lanes_.detached(lent);
}

TEST_F(LanesTest, ClientIsDetachedWhenEveryChannelIs) {
  add();
  EXPECT_FALSE(lanes_.detached(kClient));
  lanes_.detach(kClient);
  EXPECT_FALSE(lanes_.serves(kClient));
  std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 3u);
  for (unsigned p = 0; p < 3; ++p) {
    EXPECT_FALSE(lanes_.detached(kClient));
    EXPECT_EQ(told[p].proxy, p);
    lanes_.detached(as<DetachChannel>(told[p]).channel);
  }
  EXPECT_TRUE(lanes_.detached(kClient));
  lanes_.set_active(1);
  EXPECT_EQ(lanes_.rebalance(), 0) << "nothing of it moves any more";
}

TEST_F(LanesTest, LanesOfAFencedProxyWaitUntilItIsSettled) {  // FO-5
  add();
  const Lanes::Channels ends = fence(1);
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0]->lane, 1u);
  EXPECT_EQ(lanes_.receiver(kClient, 0, 1), nullptr);
  EXPECT_EQ(lanes_.rebalance(), 0) << "it is not known yet which messages it has sent";
  EXPECT_TRUE(lanes_.unbalanced());
  EXPECT_TRUE(commands().empty());

  monitor_.mark_settled(1);
  EXPECT_EQ(lanes_.rebalance(), 1);
  const Channel* const sender = only<AttachChannel>(2).channel;
  EXPECT_EQ(sender->lane, 1u);
  EXPECT_EQ(lanes_.moving(), 0u);
}

TEST_F(LanesTest, FenceOfTheServerEndsAMove) {  // FO-5
  add();
  lanes_.set_active(2);
  EXPECT_EQ(lanes_.rebalance(), 1);
  EXPECT_EQ(lanes_.moving(), 1u);
  (void)fence(2);
  EXPECT_EQ(lanes_.moving(), 0u) << "it will never answer";
}

TEST_F(LanesTest, ChannelsOfAFencedProxyAreNotAwaited) {  // FO-5
  add();
  lanes_.detach(kClient);
  const std::vector<AddressedCommand> told = commands();
  lanes_.detached(as<DetachChannel>(told[0]).channel);
  lanes_.detached(as<DetachChannel>(told[2]).channel);
  EXPECT_FALSE(lanes_.detached(kClient));
  EXPECT_EQ(fence(1).size(), 1u);
  EXPECT_TRUE(lanes_.detached(kClient));
}

TEST_F(LanesTest, ReturnedProxyTakesArrivalsAndItsLane) {  // FO-6
  add();
  (void)fence(1);
  monitor_.mark_settled(1);
  EXPECT_EQ(lanes_.rebalance(), 1);
  Channel* const sender = only<AttachChannel>(2).channel;
  monitor_.resumed(1);
  monitor_.take_back(1);
  lanes_.proxies_changed();
  ASSERT_TRUE(memory_->map(1));
  lanes_.take_back(1, kClient);
  const std::vector<AddressedCommand> told = commands();
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(as<MapClient>(told[0]).memory, memory_->view(1));
  EXPECT_FALSE(as<AttachChannel>(told[1]).channel->sends) << "another serves its lane";
  EXPECT_EQ(lanes_.rebalance(), 1);
  EXPECT_EQ(only<ReleaseLane>(2).channel, sender);
}

TEST_F(LanesTest, SettledProxyServesItsFormerLanesAgain) {  // FO-6
  add();
  (void)fence(1);
  monitor_.resumed(1);
  monitor_.take_back(1);
  ASSERT_TRUE(memory_->map(1));
  lanes_.take_back(1, kClient);
  (void)commands();
  EXPECT_EQ(lanes_.rebalance(), 0);
  monitor_.mark_settled(1);
  lanes_.serve_again(1);
  EXPECT_EQ(only<ServeLane>(1).channel, lanes_.receiver(kClient, 0, 1));
}

TEST_F(LanesTest, WithoutAServerEachLaneKeepsItsOwnProxy) {
  for (const unsigned p : {0u, 1u, 2u}) monitor_.fence(p);
  for (unsigned lane = 0; lane < 3; ++lane) EXPECT_EQ(lanes_.server_for(lane), lane);
}

TEST_F(LanesTest, InactiveProxyServesIfNoActiveOneCan) {
  lanes_.set_active(1);
  monitor_.fence(0);
  EXPECT_EQ(lanes_.server_for(0), 1u);
  EXPECT_EQ(lanes_.server_for(1), 1u);
  EXPECT_EQ(lanes_.server_for(2), 1u);
}

}  // namespace
}  // namespace braid::proxy
