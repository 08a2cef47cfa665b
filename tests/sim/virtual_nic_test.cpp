// A virtual NI's queue keeps its frames' buffers: what is sent goes to the wire, what has arrived is received
// once and in order, and every buffer returns to the pool.
#include "sim/virtual_nic.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sim/frame_pool.h"

namespace braid::sim {
namespace {

class Wire final : public VirtualNic::Wire {
 public:
  explicit Wire(FramePool& pool) : pool_(pool) {}
  void transmit(const VirtualNic& from, std::span<const FrameRef> frames) override {
    last_from = {from.cluster(), from.proxy(), from.ni()};
    for (const FrameRef& frame : frames) {
      sent.push_back(std::to_integer<int>(*pool_.data(frame.buffer)));
      lengths.push_back(frame.length);
      pool_.give(frame.buffer);
    }
  }
  void on_receive(const VirtualNic&, std::span<const MutableBytes> frames) override { seen += frames.size(); }
  bool link_up(const VirtualNic&) const override { return is_up; }
  void on_detach(const VirtualNic&) override { ++detached; }

  std::array<unsigned, 3> last_from{};
  std::vector<int> sent;  // the first byte of each frame
  std::vector<std::uint32_t> lengths;
  std::size_t seen = 0;
  bool is_up = true;
  int detached = 0;

 private:
  FramePool& pool_;
};

struct Fixture {
  FramePool pool{1000};
  Wire wire{pool};

  FrameRef frame(int first_byte, std::uint32_t length = 60) {
    const FrameRef made{pool.take(), length};
    *pool.data(made.buffer) = static_cast<std::byte>(first_byte);
    return made;
  }
  // The first bytes of what receive() returns.
  std::vector<int> receive(VirtualNic& nic, std::size_t most = proxy::kMaxBurst) {
    std::array<MutableBytes, proxy::kMaxBurst> frames;
    const std::size_t n = nic.receive(std::span(frames).first(most));
    std::vector<int> first_bytes;
    for (const MutableBytes& bytes : std::span(frames).first(n))
      first_bytes.push_back(std::to_integer<int>(bytes[0]));
    return first_bytes;
  }
};

// Each with its number as the first byte.
void fill(std::span<proxy::TxFrame> frames, std::uint32_t length) {
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].capacity, 1000u);
    *frames[i].data = static_cast<std::byte>(10 + i);
    frames[i].length = length + static_cast<std::uint32_t>(i);
  }
}

TEST(VirtualNic, SendsReservedFramesInOrderAndKeepsTheRest) {
  Fixture f;
  {
    VirtualNic nic(f.wire, f.pool, {.cluster = 3, .proxy = 2, .ni = 1, .tx_frames = 4});
    std::array<proxy::TxFrame, 8> frames;
    ASSERT_EQ(nic.reserve(frames), 4u) << "no more than it was told to offer";
    fill(std::span(frames).first(3), 600);
    const std::byte* const third = frames[2].data;
    nic.commit(std::span(frames).first(2));
    EXPECT_EQ(f.wire.sent, (std::vector{10, 11}));
    EXPECT_EQ(f.wire.lengths, (std::vector<std::uint32_t>{600, 601}));
    EXPECT_EQ(f.wire.last_from, (std::array{3u, 2u, 1u}));
    ASSERT_EQ(nic.reserve(std::span(frames).first(1)), 1u);
    EXPECT_EQ(frames[0].data, third) << "the buffer that was not sent is offered once more";
  }
  EXPECT_EQ(f.pool.in_use(), 0u);
}

TEST(VirtualNic, ShortFramesLeaveTheirBuffersForTheNext) {
  Fixture f;
  {
    VirtualNic nic(f.wire, f.pool, {.tx_frames = 4});
    std::array<proxy::TxFrame, 4> frames, again;
    ASSERT_EQ(nic.reserve(frames), 4u);
    fill(std::span(frames).first(3), FramePool::kShortBytes - 1);  // the third is longer
    nic.commit(std::span(frames).first(3));
    EXPECT_EQ(f.wire.sent, (std::vector{10, 11, 12}));
    EXPECT_EQ(f.wire.lengths, (std::vector<std::uint32_t>{255, 256, 257}));
    ASSERT_EQ(nic.reserve(std::span(again).first(3)), 3u);
    EXPECT_EQ(again[0].data, frames[0].data);
    EXPECT_EQ(again[1].data, frames[1].data);
    EXPECT_EQ(again[2].data, frames[3].data);
  }
  EXPECT_EQ(f.pool.in_use(), 0u);
}

TEST(VirtualNic, ReceivesEachFrameOnceAndInOrder) {
  Fixture f;
  VirtualNic nic(f.wire, f.pool, {.rx_frames = 8});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(nic.arrive(f.frame(i)));
  EXPECT_EQ(f.receive(nic, 2), (std::vector{0, 1}));
  EXPECT_EQ(f.receive(nic), (std::vector{2, 3, 4}));
  EXPECT_EQ(f.wire.seen, 5u);
  EXPECT_TRUE(f.receive(nic).empty());
  EXPECT_EQ(f.pool.in_use(), 0u) << "a buffer is lent until the next receive()";
}

TEST(VirtualNic, AFullRingRefusesAFrameAndTakesOneAfterReceive) {
  Fixture f;
  VirtualNic nic(f.wire, f.pool, {.rx_frames = 3});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(nic.arrive(f.frame(i))) << "rounded up to 4";
  const FrameRef fifth = f.frame(4);
  EXPECT_FALSE(nic.arrive(fifth));
  EXPECT_EQ(f.receive(nic, 1), (std::vector{0}));
  EXPECT_TRUE(nic.arrive(fifth));
  EXPECT_EQ(f.receive(nic), (std::vector{1, 2, 3, 4}));
}

TEST(VirtualNic, WithoutARingArrivalsAreNotItsOwn) {
  Fixture f;
  VirtualNic nic(f.wire, f.pool, {.rx_frames = 0});
  const FrameRef frame = f.frame(1);
  EXPECT_FALSE(nic.arrive(frame));
  EXPECT_TRUE(f.receive(nic).empty());
  f.pool.give(frame.buffer);
}

TEST(VirtualNic, ReturnsEveryBufferWhenItIsDestroyed) {
  Fixture f;
  {
    VirtualNic nic(f.wire, f.pool, {});
    std::array<proxy::TxFrame, 3> reserved;
    ASSERT_EQ(nic.reserve(reserved), 3u);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(nic.arrive(f.frame(i)));
    ASSERT_EQ(f.receive(nic, 2).size(), 2u);
    EXPECT_EQ(f.pool.in_use(), 6u);
    EXPECT_EQ(f.wire.detached, 0);
  }
  EXPECT_EQ(f.pool.in_use(), 0u);
  EXPECT_EQ(f.wire.detached, 1);
}

TEST(VirtualNic, TheWireTellsWhetherTheLinkIsUp) {
  Fixture f;
  const VirtualNic nic(f.wire, f.pool, {});
  EXPECT_TRUE(nic.link_up());
  f.wire.is_up = false;
  EXPECT_FALSE(nic.link_up());
  EXPECT_EQ(nic.max_frame_bytes(), 1000u);
}

}  // namespace
}  // namespace braid::sim
