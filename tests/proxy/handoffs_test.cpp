#include "proxy/daemon/handoffs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace braid::proxy {
namespace {

constexpr LinkId kLink(3);
constexpr std::uint32_t kFrameBytes = 64;

std::vector<std::byte> frame(int value, std::size_t bytes = kFrameBytes) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

// Proxy 0, with rings to proxies 1 and 2 and from proxy 1.
class HandoffsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    handoffs_.connect(1, &to_1_);
    handoffs_.connect(2, &to_2_);
    handoffs_.add_source(&from_1_);
  }
  static int first_byte(Handoff& ring) {
    int value = -1;
    ring.drain([&](LinkId link, ByteView f) {
      EXPECT_EQ(link, kLink);
      value = std::to_integer<int>(f[0]);
    });
    return value;
  }

  Handoff to_1_{kFrameBytes}, to_2_{kFrameBytes}, from_1_{kFrameBytes};
  Handoffs handoffs_;
};

TEST_F(HandoffsTest, FrameGoesToItsProxyWhichIsToBeWoken) {  // UDP-2
  EXPECT_TRUE(handoffs_.push(2, kLink, frame(7)));
  EXPECT_EQ(handoffs_.take_woken(), 0b100u);
  EXPECT_EQ(handoffs_.take_woken(), 0u);
  EXPECT_EQ(first_byte(to_2_), 7);
  EXPECT_EQ(first_byte(to_1_), -1);
}

TEST_F(HandoffsTest, FrameWithoutARingOrRoomIsRefused) {
  EXPECT_FALSE(handoffs_.push(5, kLink, frame(7)));
  EXPECT_EQ(handoffs_.take_woken(), 0u);
  for (std::size_t i = 0; i < Handoff::kFrames; ++i) EXPECT_TRUE(handoffs_.push(1, kLink, frame(7)));
  EXPECT_FALSE(handoffs_.push(1, kLink, frame(7)));
  EXPECT_FALSE(handoffs_.push(2, kLink, frame(7, kFrameBytes + 1))) << "longer than a frame of the node";
}

TEST_F(HandoffsTest, FrameForAllReachesEachConnectedProxyOnce) {
  EXPECT_EQ(handoffs_.push_to_all(kLink, frame(9)), 0u);
  EXPECT_EQ(handoffs_.take_woken(), 0b110u);
  EXPECT_EQ(first_byte(to_1_), 9);
  EXPECT_EQ(first_byte(to_2_), 9);
  for (std::size_t i = 0; i < Handoff::kFrames; ++i) EXPECT_TRUE(handoffs_.push(1, kLink, frame(7)));
  EXPECT_EQ(handoffs_.push_to_all(kLink, frame(9)), 1u);
  EXPECT_EQ(first_byte(to_2_), 9) << "a full ring does not keep the frame from others";
}

TEST_F(HandoffsTest, FramesForThisProxyAreDrained) {
  EXPECT_TRUE(from_1_.push(kLink, frame(1)));
  EXPECT_TRUE(from_1_.push(kLink, frame(2)));
  std::vector<int> received;
  int frames = 5;  // of the turn so far
  handoffs_.drain(frames, [&](LinkId, ByteView f) { received.push_back(std::to_integer<int>(f[0])); });
  EXPECT_EQ(frames, 7);
  EXPECT_EQ(received, (std::vector<int>{1, 2}));
  handoffs_.drain(frames, [](LinkId, ByteView) { FAIL(); });
  EXPECT_EQ(frames, 7);
}

}  // namespace
}  // namespace braid::proxy
