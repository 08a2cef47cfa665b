// The network of a simulated ICCS: a frame that leaves a proxy comes to its destination's queue as often as its
// link delivers it, or its buffer is free; figures count what links carried while somebody measured.
#include "sim/iccs_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/sim/round_costs.h"

namespace braid::sim {
namespace {

constexpr std::uint32_t kFrameBytes = 1000;  // 1024 ns at 8 Gb/s

IccsNetworkConfig config() {
  IccsNetworkConfig c;
  c.clusters = 3;
  c.proxies = 2;
  c.nis = 2;
  c.link = {.bits_per_second = 8'000'000'000, .propagation = 5_us};
  return c;
}

struct Fixture {
  explicit Fixture(const IccsNetworkConfig& c = config())
      : events(c.clusters),
        shared(events, StageCosts(round_costs(100e6), 1, true), 1_us, 1514, MessageLog(3, 2, 1024)),
        network(c, shared) {}
  // A frame of cluster 0's proxy 1.
  std::uint32_t send(ClusterId to, unsigned ni = 0) {
    const std::uint32_t number = shared.frames.take();
    std::fill_n(shared.frames.data(number), kFrameBytes, std::byte{0});
    Frame& frame = shared.frames[number];
    frame = {};
    frame.length = kFrameBytes;
    frame.to = to;
    frame.to_proxy = 1;
    frame.from_ni = frame.to_ni = static_cast<std::uint8_t>(ni);
    network.send(ClusterId(0), 1, number);
    return number;
  }
  Events events;
  IccsShared shared;
  IccsNetwork network;
};

TEST(IccsNetwork, AFrameComesToTheQueueOfItsProxy) {
  Fixture f;
  const std::uint32_t number = f.send(ClusterId(2));
  ASSERT_FALSE(f.events.empty());
  const Event arrival = f.events.pop();
  EXPECT_EQ(arrival.kind, EventKind::kFrameArrives);
  EXPECT_EQ(arrival.cluster, 2);
  EXPECT_EQ(arrival.index, 1);
  EXPECT_EQ(arrival.item, number);
  EXPECT_EQ(f.events.now(), Instant() + 1024_ns + 5_us);
  EXPECT_TRUE(f.events.empty());
}

TEST(IccsNetwork, ADuplicateIsAFrameOfItsOwn) {
  IccsNetworkConfig c = config();
  c.faults.duplicate = 1;
  Fixture f(c);
  const std::uint32_t number = f.send(ClusterId(1));
  const Event first = f.events.pop();
  const Event second = f.events.pop();
  EXPECT_TRUE(f.events.empty());
  EXPECT_NE(first.item, second.item);
  EXPECT_TRUE(first.item == number || second.item == number);
  EXPECT_EQ(f.shared.frames[first.item].length, f.shared.frames[second.item].length);
  EXPECT_EQ(f.shared.frames.pool().in_use(), 2u);
}

TEST(IccsNetwork, ALostFrameIsCountedAndItsBufferFree) {
  IccsNetworkConfig c = config();
  c.faults.loss = 1;
  Fixture f(c);
  f.send(ClusterId(1));
  EXPECT_TRUE(f.events.empty());
  EXPECT_EQ(f.network.frames_lost(), 1u);
  EXPECT_EQ(f.shared.frames.pool().in_use(), 0u);
}

TEST(IccsNetwork, AFailedNiLosesFramesToItAndFromIt) {
  Fixture f;
  f.network.fail_ni(ClusterId(1), 0, Instant() + 1_ms);
  f.send(ClusterId(1));
  EXPECT_EQ(f.network.frames_lost(), 1u);
  f.send(ClusterId(1), 1);
  EXPECT_EQ(f.network.frames_lost(), 1u) << "its other NI";
  f.network.fail_ni(ClusterId(0), 1, Instant::never());
  f.send(ClusterId(2), 1);
  EXPECT_EQ(f.network.frames_lost(), 2u);
}

TEST(IccsNetwork, AFrameForNobodyIsLost) {
  Fixture f;
  f.send(ClusterId(3));
  EXPECT_EQ(f.network.frames_lost(), 1u);
  EXPECT_EQ(f.shared.frames.pool().in_use(), 0u);
}

TEST(IccsNetwork, FiguresCountWhatALinkCarriedWhileSomebodyMeasured) {
  Fixture f;
  f.send(ClusterId(1));
  f.shared.measuring = true;
  f.send(ClusterId(1));
  f.send(ClusterId(2));
  f.shared.measuring = false;
  f.send(ClusterId(2));
  const LinkFigures& figures = f.network.figures(ClusterId(0), 0);
  EXPECT_EQ(figures.frames, 2u);
  EXPECT_EQ(figures.bytes, 2u * kFrameBytes);
  EXPECT_EQ(figures.busy, 2048_ns);
  EXPECT_EQ(figures.waited, 1024_ns + 2048_ns) << "one behind the first, one behind two";
  EXPECT_EQ(f.network.figures(ClusterId(0), 1).frames, 0u);
}

}  // namespace
}  // namespace braid::sim
