#include "proxy/daemon/served_channels.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/proxy/channel_memory.h"

namespace braid::proxy::test {
namespace {

constexpr PortId kPort{5};

class ServedChannelsTest : public ::testing::Test {
 protected:
  std::vector<WorkerEvent> answers() {
    std::vector<WorkerEvent> events;
    served_.answer([&](const WorkerEvent& event) { events.push_back(event); });
    return events;
  }
  template <class Event>
  static bool only(const std::vector<WorkerEvent>& events) {
    return events.size() == 1 && std::holds_alternative<Event>(events[0]);
  }
  Outgoing& take() {
    CHECK_GT(channel_->send.readable(), 0u);
    SendDescriptor d;
    return channel_->take(&d);
  }

  ChannelMemory memory_;
  SendProducer client_ = memory_.sender();
  std::unique_ptr<Channel> channel_ = memory_.channel();
  ServedChannels served_;
};

TEST_F(ServedChannelsTest, DetachedWhenNothingOfItIsInFlight) {
  served_.attach(*channel_);
  hand_over(client_, 2);
  Outgoing& message = take();
  served_.detach(*channel_);
  EXPECT_FALSE(channel_->takes_descriptors());
  EXPECT_TRUE(served_.awaited());
  EXPECT_TRUE(answers().empty());
  served_.finish(message);
  EXPECT_TRUE(only<ChannelDetached>(answers()));
  EXPECT_FALSE(served_.awaited());
  EXPECT_TRUE(served_.all().empty());
}

TEST_F(ServedChannelsTest, LaneIsReleasedWhenWhatWasTakenIsFinished) {
  served_.attach(*channel_);
  hand_over(client_, 2);
  Outgoing& message = take();
  served_.release_lane(*channel_);
  EXPECT_FALSE(channel_->takes_descriptors());
  EXPECT_TRUE(answers().empty());
  served_.finish(message);
  EXPECT_TRUE(only<LaneReleased>(answers()));
  EXPECT_EQ(served_.all().size(), 1u) << "arrivals still come by it";
  EXPECT_FALSE(channel_->sends);

  served_.serve_lane(*channel_);
  EXPECT_TRUE(channel_->takes_descriptors());
  EXPECT_EQ(channel_->send.readable(), 1u) << "what was left in it";
}

TEST_F(ServedChannelsTest, PortIsDrainedWhenWhatWasHandedOverBeforeIsFinished) {
  served_.attach(*channel_);
  hand_over(client_, 2);
  served_.drain(kPort, channel_.get());
  hand_over(client_, 1);
  Outgoing& first = take();
  Outgoing& second = take();
  served_.finish(first);
  EXPECT_TRUE(answers().empty());
  served_.finish(second);
  const std::vector<WorkerEvent> drained = answers();
  ASSERT_TRUE(only<PortDrained>(drained)) << "the third came later";
  EXPECT_EQ(std::get<PortDrained>(drained[0]).port, kPort);
}

TEST_F(ServedChannelsTest, PortWithoutChannelIsDrainedAtOnce) {
  served_.drain(kPort, nullptr);
  EXPECT_TRUE(only<PortDrained>(answers()));
}

TEST_F(ServedChannelsTest, PortWaitsForAllChannelsOfItsEndpointThatSend) {
  const auto second = memory_.channel(1);
  SendProducer second_client = memory_.sender(1);
  const auto other_client = memory_.channel(0, false, 2);
  for (Channel* channel : {channel_.get(), second.get(), other_client.get()}) served_.attach(*channel);
  hand_over(client_, 1);
  hand_over(second_client, 1);
  served_.drain(kPort, channel_.get());
  served_.finish(take());
  EXPECT_TRUE(answers().empty()) << "the other lane's is not sent";
  SendDescriptor d;
  served_.finish(second->take(&d));
  EXPECT_TRUE(only<PortDrained>(answers()));
}

TEST_F(ServedChannelsTest, ClosedChannelAwaitsOnlyTakenMessages) {
  served_.attach(*channel_);
  hand_over(client_, 2);
  served_.drain(kPort, channel_.get());
  Outgoing& message = take();
  channel_->closed = true;
  EXPECT_TRUE(answers().empty());
  served_.finish(message);
  EXPECT_TRUE(only<PortDrained>(answers()));
}

TEST_F(ServedChannelsTest, PortIsDrainedWhenTheLaneIsReleased) {
  served_.attach(*channel_);
  hand_over(client_, 2);
  served_.release_lane(*channel_);
  served_.drain(kPort, channel_.get());
  const std::vector<WorkerEvent> events = answers();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<LaneReleased>(events[0]));
  EXPECT_TRUE(std::holds_alternative<PortDrained>(events[1])) << "the rest is the next server's";
}

TEST_F(ServedChannelsTest, ReleasesFinishedMessagesAndReportsItOnce) {
  served_.attach(*channel_);
  hand_over(client_, 1);
  EXPECT_FALSE(served_.release_due());
  served_.finish(take());
  EXPECT_TRUE(served_.release_due());
  EXPECT_FALSE(served_.take_released());
  served_.release();
  EXPECT_FALSE(served_.release_due());
  EXPECT_TRUE(served_.take_released());
  EXPECT_FALSE(served_.take_released());
  served_.release();
  EXPECT_FALSE(served_.take_released()) << "there was nothing";
}

TEST_F(ServedChannelsTest, InheritedOnceForEachChannelThatComes) {
  EXPECT_FALSE(served_.take_inherited());
  served_.attach(*channel_);
  EXPECT_TRUE(served_.take_inherited());
  EXPECT_FALSE(served_.take_inherited());
  served_.serve_lane(*channel_);
  EXPECT_TRUE(served_.take_inherited());
}

TEST_F(ServedChannelsTest, NothingIsAnsweredAfterClear) {
  served_.attach(*channel_);
  served_.detach(*channel_);
  served_.clear();
  EXPECT_FALSE(served_.awaited());
  EXPECT_TRUE(answers().empty());
  EXPECT_TRUE(served_.all().empty());
}

}  // namespace
}  // namespace braid::proxy::test
