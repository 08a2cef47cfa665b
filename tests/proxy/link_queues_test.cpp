#include "proxy/daemon/link_queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace braid::proxy {
namespace {

constexpr std::uint32_t kFrameBytes = 64;

// Frames are their first byte.
struct FakeWire {
  std::deque<int> arrivals;
  std::vector<int> left;
  std::vector<std::size_t> commits;  // frames of each
  std::size_t room = 1000;           // for frames that leave
  std::uint64_t drops = 0;
};

class FakeQueue final : public NicQueue {
 public:
  explicit FakeQueue(FakeWire& wire) : wire_(wire) {}
  std::size_t receive(std::span<MutableBytes> frames) override {
    const std::size_t n = std::min({frames.size(), kMaxBurst, wire_.arrivals.size()});
    for (std::size_t i = 0; i < n; ++i) {
      buffers_[i][0] = static_cast<std::byte>(wire_.arrivals.front());
      wire_.arrivals.pop_front();
      frames[i] = buffers_[i];
    }
    return n;
  }
  std::size_t reserve(std::span<TxFrame> frames) override {
    const std::size_t n = std::min({frames.size(), kMaxBurst, wire_.room});
    for (std::size_t i = 0; i < n; ++i) frames[i] = {buffers_[i].data(), kFrameBytes, 0};
    return n;
  }
  void commit(std::span<const TxFrame> frames) override {
    EXPECT_FALSE(frames.empty());
    EXPECT_LE(frames.size(), wire_.room);
    wire_.room -= frames.size();
    wire_.commits.push_back(frames.size());
    for (const TxFrame& f : frames) {
      EXPECT_EQ(f.length, kFrameBytes);
      wire_.left.push_back(std::to_integer<int>(f.data[0]));
    }
  }
  std::uint32_t max_frame_bytes() const override { return kFrameBytes; }
  std::uint64_t transmit_drops() const override { return wire_.drops; }
  std::uint64_t receive_drops() const override { return 100 * wire_.drops; }
  std::uint64_t icmp_errors() const override { return 10 * wire_.drops; }
  std::uint64_t address_changes() const override { return 100 * wire_.drops; }

 private:
  FakeWire& wire_;
  std::array<std::array<std::byte, kFrameBytes>, kMaxBurst> buffers_{};
};

// Two queues on link 0, none on link 1, one on link 2.
class LinkQueuesTest : public ::testing::Test {
 protected:
  std::vector<LinkQueue> queues() {
    std::vector<LinkQueue> all;
    all.push_back({LinkId(0), std::make_unique<FakeQueue>(first_)});
    all.push_back({LinkId(2), std::make_unique<FakeQueue>(other_link_)});
    all.push_back({LinkId(0), std::make_unique<FakeQueue>(second_)});
    return all;
  }
  std::vector<std::pair<int, int>> receive() {
    std::vector<std::pair<int, int>> frames;
    int n = 3;  // of the turn so far
    queues_.receive(n, [&](LinkId link, ByteView frame) {
      EXPECT_EQ(frame.size(), kFrameBytes);
      frames.emplace_back(link.value(), std::to_integer<int>(frame[0]));
    });
    EXPECT_EQ(static_cast<std::size_t>(n), 3 + frames.size());
    return frames;
  }
  // As many frames as `ready_` says leave by each link, numbered.
  int transmit() {
    return queues_.transmit([&](LinkId link, MutableBytes room) -> std::size_t {
      EXPECT_EQ(room.size(), kFrameBytes);
      if (ready_[link.value()] == 0) return 0;
      --ready_[link.value()];
      room[0] = static_cast<std::byte>(written_++);
      return kFrameBytes;
    });
  }

  FakeWire first_, second_, other_link_;
  std::array<int, 3> ready_{};
  int written_ = 0;
  LinkQueues queues_{queues(), 3, kFrameBytes};
};

TEST_F(LinkQueuesTest, FramesOfAllQueuesArriveWithTheirLink) {
  first_.arrivals = {1, 2};
  second_.arrivals = {3};
  other_link_.arrivals = {4};
  EXPECT_EQ(receive(), (std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {2, 4}, {0, 3}}));
  EXPECT_TRUE(receive().empty());
}

TEST_F(LinkQueuesTest, BusyQueueDeliversOneBurstACall) {
  for (int i = 0; i < 40; ++i) first_.arrivals.push_back(i);
  second_.arrivals = {100};
  EXPECT_EQ(receive().size(), kMaxBurst + 1);
  EXPECT_EQ(receive().size(), 40 - kMaxBurst);
}

TEST_F(LinkQueuesTest, FramesLeaveByTheFirstQueueOfTheirLink) {
  ready_ = {3, 5, 2};
  EXPECT_EQ(transmit(), 5);
  EXPECT_EQ(first_.left, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(second_.left.empty());
  EXPECT_EQ(other_link_.left, (std::vector<int>{3, 4}));
  EXPECT_EQ(ready_[1], 5) << "a link without a queue";
  EXPECT_EQ(transmit(), 0);
  EXPECT_EQ(first_.commits, (std::vector<std::size_t>{2, 1})) << "nothing to send is no burst";
}

TEST_F(LinkQueuesTest, BusyLinkSendsABoundedNumberOfBurstsACall) {
  ready_ = {1000, 0, 1};
  const std::vector<std::size_t> bursts = {LinkQueues::kFirstBurst, kMaxBurst, kMaxBurst, kMaxBurst};
  ASSERT_EQ(bursts.size(), LinkQueues::kBurstsPerTurn);
  EXPECT_EQ(transmit(), static_cast<int>(std::accumulate(bursts.begin(), bursts.end(), std::size_t{1})));
  EXPECT_EQ(first_.commits, bursts);
  EXPECT_EQ(other_link_.left.size(), 1u);
}

TEST_F(LinkQueuesTest, FullQueueTakesNoMoreThanItsRoomAndOtherLinksGoOn) {
  first_.room = kMaxBurst + 5;
  ready_ = {1000, 0, 1};
  EXPECT_EQ(transmit(), static_cast<int>(kMaxBurst) + 5 + 1);
  EXPECT_EQ(ready_[0], 1000 - static_cast<int>(kMaxBurst) - 5) << "nothing was written that cannot leave";
  EXPECT_EQ(transmit(), 0);
}

TEST_F(LinkQueuesTest, DropsOfAllLinksAreCounted) {
  first_.drops = 3;
  other_link_.drops = 4;
  EXPECT_EQ(queues_.transmit_drops(), 7u);
  second_.drops = 1;
  EXPECT_EQ(queues_.receive_drops(), 800u) << "also of queues that nothing leaves by";
  EXPECT_EQ(queues_.icmp_errors(), 70u);
  EXPECT_EQ(queues_.address_changes(), 700u);
}

using LinkQueuesDeathTest = LinkQueuesTest;

TEST_F(LinkQueuesDeathTest, QueueWithoutRoomForAFrameIsRefused) {
  EXPECT_DEATH(LinkQueues(queues(), 3, kFrameBytes + 1), "max_frame_bytes");
  EXPECT_DEATH(LinkQueues(queues(), 2, kFrameBytes), "link");
}

}  // namespace
}  // namespace braid::proxy
