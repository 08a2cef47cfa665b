#include "stack/acknowledger.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;

PacketHeader data(Seq seq, Instant sent = at(0_us)) {
  PacketHeader h;
  h.seq = seq;
  h.timestamp = timestamp(sent);
  return h;
}

void deliver(Acknowledger& a, Instant now, const PacketHeader& h) {
  EXPECT_EQ(a.arrived(now, h, Duration()), PacketArrival::kNew);
  a.delivered(now, h);
}

TEST(Acknowledger, AcknowledgementWaitsForItsDelay) {  // SW-8
  Acknowledger a(test_config());
  EXPECT_EQ(a.due(), Instant::never());
  deliver(a, at(1_us), data(Seq(0)));
  EXPECT_EQ(a.due(), at(1_us) + test_config().ack_delay);
  deliver(a, at(5_us), data(Seq(1)));
  EXPECT_EQ(a.due(), at(1_us) + test_config().ack_delay);
  a.sent();
  EXPECT_EQ(a.due(), Instant::never());
}

TEST(Acknowledger, ManyPacketsAreAcknowledgedAtOnce) {  // SW-8
  Acknowledger a(test_config());
  for (std::uint32_t i = 0; i + 1 < test_config().ack_every; ++i) deliver(a, at(1_us), data(Seq(i)));
  EXPECT_GT(a.due(), at(1_us));
  deliver(a, at(1_us), data(Seq(test_config().ack_every - 1)));
  EXPECT_EQ(a.due(), at(1_us));
}

TEST(Acknowledger, HoleAndItsEndAreAcknowledgedAtOnce) {  // SW-8
  Acknowledger a(test_config());
  deliver(a, at(1_us), data(Seq(1)));
  EXPECT_EQ(a.due(), at(1_us));
  a.sent();
  deliver(a, at(2_us), data(Seq(0)));
  EXPECT_EQ(a.due(), at(2_us));
}

TEST(Acknowledger, PacketThatRequestsItIsAcknowledgedAtOnce) {  // SW-8
  Acknowledger a(test_config());
  PacketHeader h = data(Seq(0));
  h.ack_at_once = true;
  deliver(a, at(3_us), h);
  EXPECT_EQ(a.due(), at(3_us));
}

TEST(Acknowledger, TailProbeIsAnsweredAtOnceAndEchoed) {  // SW-10
  Acknowledger a(test_config());
  PacketHeader probe;
  probe.timestamp = timestamp(at(5_us));
  probe.ack_at_once = true;
  a.probed(at(6_us), probe, Duration());
  EXPECT_EQ(a.due(), at(6_us));
  PacketHeader answer;
  a.describe(at(6_us), answer);
  EXPECT_EQ(answer.timestamp_echo, timestamp(at(5_us)));
  EXPECT_EQ(answer.ack_held, 0u);
}

TEST(Acknowledger, PacketThatWaitsIsEchoedInsteadOfATailProbe) {  // SW-10, SW-12
  Acknowledger a(test_config());
  deliver(a, at(1_us), data(Seq(0)));
  PacketHeader before;
  a.describe(at(1_us), before);
  PacketHeader probe;
  probe.timestamp = timestamp(at(5_us));
  probe.ack_at_once = true;
  a.probed(at(6_us), probe, Duration());
  EXPECT_EQ(a.due(), at(6_us));
  PacketHeader answer;
  a.describe(at(6_us), answer);
  EXPECT_EQ(answer.timestamp_echo, before.timestamp_echo);
  EXPECT_NE(answer.timestamp_echo, timestamp(at(5_us)));
}

TEST(Acknowledger, OtherProbesAreAnsweredAtOnceWithoutAnEcho) {  // SC-8, SW-9
  Acknowledger a(test_config());
  PacketHeader probe;
  probe.timestamp = timestamp(at(5_us));
  a.probed(at(6_us), probe, Duration());
  EXPECT_EQ(a.due(), at(6_us));
  PacketHeader answer;
  a.describe(at(6_us), answer);
  EXPECT_EQ(answer.timestamp_echo, 0u);
}

TEST(Acknowledger, DuplicateIsAcknowledgedAtOnceAndEchoed) {
  Acknowledger a(test_config());
  deliver(a, at(1_us), data(Seq(0)));
  a.sent();
  EXPECT_EQ(a.arrived(at(9_us), data(Seq(0), at(7_us)), Duration()), PacketArrival::kDuplicate);
  EXPECT_EQ(a.due(), at(9_us));
  PacketHeader h;
  a.describe(at(9_us), h);
  EXPECT_EQ(h.timestamp_echo, timestamp(at(7_us)));
}

TEST(Acknowledger, PacketBeyondTheWindowChangesNothing) {  // SW-1
  Acknowledger a(test_config());
  EXPECT_EQ(a.arrived(at(1_us), data(Seq(ReceiveWindow::kWindow)), Duration()), PacketArrival::kBeyondWindow);
  EXPECT_EQ(a.due(), Instant::never());
  PacketHeader h;
  a.describe(at(1_us), h);
  EXPECT_EQ(h.timestamp_echo, 0u);
  EXPECT_EQ(h.ack, Seq(0));
}

TEST(Acknowledger, EchoesTheFirstPacketAndItsDelay) {  // SW-6
  Acknowledger a(test_config());
  const PacketHeader first = data(Seq(0), at(0_us));
  EXPECT_EQ(a.arrived(at(10_us), first, 3_us), PacketArrival::kNew);  // it may have come at 7 us
  a.delivered(at(10_us), first);
  deliver(a, at(12_us), data(Seq(1), at(2_us)));
  PacketHeader h;
  a.describe(at(15_us), h);
  EXPECT_EQ(h.ack, Seq(2));
  EXPECT_EQ(h.timestamp_echo, timestamp(at(0_us)));
  EXPECT_EQ(h.ack_held, held_ticks(8_us));
  a.sent();
  PacketHeader next;
  a.describe(at(20_us), next);
  EXPECT_EQ(next.timestamp_echo, 0u);
}

TEST(Acknowledger, DescribesWhatArrivedBehindAHole) {  // SW-2
  Acknowledger a(test_config());
  deliver(a, at(0_us), data(Seq(0)));
  deliver(a, at(0_us), data(Seq(2)));
  PacketHeader h;
  a.describe(at(0_us), h);
  EXPECT_EQ(h.ack, Seq(1));
  ASSERT_EQ(h.sack_words, 1);
  EXPECT_EQ(h.sack[0], 1u);
}

TEST(Acknowledger, WindowIsAnnouncedInUnitsAndGrowsOnlyIfEitherDoes) {  // SW-9
  Acknowledger a(test_config());
  EXPECT_FALSE(a.set_window(10, 1024));
  PacketHeader h;
  a.describe(at(0_us), h);
  EXPECT_EQ(h.window_packets, 10);
  EXPECT_EQ(h.window_units, 1024 / kWindowUnitBytes);
  EXPECT_TRUE(a.set_window(11, 0));
  EXPECT_TRUE(a.set_window(0, 1024));
  EXPECT_FALSE(a.set_window(0, 1024));
  EXPECT_TRUE(a.set_window(0xffff'ffff, 0xffff'ffff));
  a.describe(at(0_us), h);
  EXPECT_EQ(h.window_packets, ReceiveWindow::kWindow);
  EXPECT_EQ(h.window_units, 0xffff);
}

TEST(Acknowledger, RestartForgetsPacketsAndKeepsTheWindow) {
  Acknowledger a(test_config());
  a.set_window(3, 256);
  deliver(a, at(0_us), data(Seq(0)));
  a.restart(Seq(0));
  EXPECT_EQ(a.due(), Instant::never());
  EXPECT_EQ(a.arrived(at(1_us), data(Seq(0)), Duration()), PacketArrival::kNew);
  PacketHeader h;
  a.describe(at(1_us), h);
  EXPECT_EQ(h.window_packets, 3);
}

}  // namespace
}  // namespace braid::stack
