#include "proxy/nic/faulty_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "tests/nic/frames.h"
#include "tests/nic/scripted_queue.h"

namespace braid::proxy {
namespace {

using Frame = std::vector<std::byte>;
using test::number_of;

using test::numbered;
using test::ScriptedQueue;

struct Fixture {
  explicit Fixture(const Faults& faults) {
    auto scripted = std::make_unique<ScriptedQueue>();
    wire = scripted.get();
    queue = std::make_unique<FaultyQueue>(std::move(scripted), faults);
  }
  // One call; the bytes are compared only after it, when all that it gave out must still be there.
  std::size_t receive(std::size_t burst = kMaxBurst) {
    std::array<MutableBytes, kMaxBurst> frames;
    const std::size_t n = queue->receive(std::span(frames).first(burst));
    for (std::size_t i = 0; i < n; ++i) received.emplace_back(frames[i].begin(), frames[i].end());
    return n;
  }
  // Until nothing waits and nothing is held back.
  void receive_all(std::size_t burst = kMaxBurst) {
    for (unsigned silent_calls = 0; silent_calls <= Faults{}.reorder_calls;) {
      silent_calls = receive(burst) == 0 && wire->waiting() == 0 ? silent_calls + 1 : 0;
    }
  }
  void arrive_numbered(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) wire->arrive(numbered(i));
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (const Frame& frame : received) {
      EXPECT_TRUE(test::is_numbered(frame) && test::pattern_holds(frame));
      all.push_back(number_of(frame));
    }
    return all;
  }
  ScriptedQueue* wire;
  std::unique_ptr<FaultyQueue> queue;
  std::vector<Frame> received;
};

std::vector<std::uint64_t> range(std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  for (std::uint64_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

std::vector<std::size_t> differing_bits(ByteView a, ByteView b) {
  std::vector<std::size_t> bits;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto difference = std::to_integer<unsigned>(a[i] ^ b[i]);
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((difference >> bit) & 1) bits.push_back(i * 8 + bit);
    }
  }
  return bits;
}

TEST(FaultyQueue, DropsEveryFrameAfterTheConfiguredNumber) {
  Fixture w{{.drop_all_after = 5}};
  w.arrive_numbered(50);
  w.receive_all();
  EXPECT_EQ(w.numbers(), range(5));
  EXPECT_EQ(w.queue->counts().lost.get(), 45u);
}

TEST(FaultyQueue, WithoutFaultsPassesEveryFrame) {
  Fixture w{Faults{}};
  w.arrive_numbered(100);
  w.receive_all();
  EXPECT_EQ(w.numbers(), range(100));
  EXPECT_EQ(w.queue->counts().arrived.get(), 100u);

  TxFrame frame;
  ASSERT_EQ(w.queue->reserve({&frame, 1}), 1u);
  EXPECT_EQ(frame.data, w.wire->sent.data()) << "frames to transmit are written into the wire's own buffer";
  frame.length = 60;
  w.queue->commit({&frame, 1});
  EXPECT_EQ(w.wire->sent_bytes, 60u);
  EXPECT_FALSE(w.queue->link_up());
  EXPECT_EQ(w.queue->transmit_drops(), 17u);
  EXPECT_EQ(w.queue->max_frame_bytes(), 9014u);
}

TEST(FaultyQueue, LosesTheConfiguredShareAndCountsIt) {
  Fixture w{{.loss = 0.1, .seed = 3}};
  w.arrive_numbered(10'000);
  w.receive_all();
  const std::vector<std::uint64_t> numbers = w.numbers();
  EXPECT_EQ(numbers.size() + w.queue->counts().lost.get(), 10'000u);
  EXPECT_NEAR(static_cast<double>(w.queue->counts().lost.get()), 1000, 90);  // 3 standard deviations
  EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
}

TEST(FaultyQueue, LosesEveryFrameAtLossOne) {
  Fixture w{{.loss = 1}};
  w.arrive_numbered(1000);
  w.receive_all();
  EXPECT_TRUE(w.received.empty());
  EXPECT_EQ(w.queue->counts().lost.get(), 1000u);
}

TEST(FaultyQueue, DuplicatesEachFrameOnceAndLosesNothing) {
  Fixture w{{.duplicate = 0.05, .seed = 4}};
  w.arrive_numbered(4000);
  w.receive_all();
  std::map<std::uint64_t, int> times;
  for (const std::uint64_t number : w.numbers()) ++times[number];
  std::uint64_t twice = 0;
  for (const auto& [number, n] : times) {
    ASSERT_LE(n, 2) << "frame " << number;
    twice += n == 2;
  }
  EXPECT_EQ(times.size(), 4000u);
  EXPECT_EQ(twice, w.queue->counts().duplicated.get());
  EXPECT_NEAR(static_cast<double>(twice), 200, 42);
}

TEST(FaultyQueue, ReordersWithinTheDistanceAndLosesNothing) {
  for (const std::size_t burst : {std::size_t{1}, std::size_t{7}, kMaxBurst}) {
    SCOPED_TRACE(burst);
    Fixture w{{.reorder = 0.05, .reorder_distance = 5, .seed = 5}};
    w.arrive_numbered(4000);
    w.receive_all(burst);
    std::vector<std::uint64_t> numbers = w.numbers();
    std::uint64_t latest = 0, overtaken = 0, furthest = 0;
    for (const std::uint64_t number : numbers) {
      if (number < latest) {
        ++overtaken;
        furthest = std::max(furthest, latest - number);
      }
      latest = std::max(latest, number);
    }
    EXPECT_NEAR(static_cast<double>(w.queue->counts().reordered.get()), 200, 42);
    EXPECT_GT(overtaken, 150u);
    EXPECT_GE(furthest, 5u);
    // Others held back may be counted in, and a full burst has no room before the next call.
    EXPECT_LE(furthest, 5u + kMaxBurst + 5u);
    std::sort(numbers.begin(), numbers.end());
    EXPECT_EQ(numbers, range(4000));
  }
}

TEST(FaultyQueue, DeliversAHeldFrameWhenNoneFollows) {
  Fixture w{{.reorder = 1, .reorder_calls = 10}};
  w.arrive_numbered(1);
  for (int call = 0; call < 10; ++call) EXPECT_EQ(w.receive(), 0u) << "call " << call;
  EXPECT_EQ(w.receive(), 1u);
  EXPECT_EQ(w.numbers(), range(1));
}

TEST(FaultyQueue, OwnerMustPollWhileAFrameIsHeld) {
  Fixture w{{.reorder = 1}};
  EXPECT_EQ(w.queue->wake_word(), &w.wire->word);
  w.arrive_numbered(1);
  ASSERT_EQ(w.receive(), 0u);
  EXPECT_EQ(w.queue->wake_word(), nullptr);
  w.receive_all();
  EXPECT_EQ(w.queue->wake_word(), &w.wire->word);
}

TEST(FaultyQueue, LosesNothingWhenItsBuffersAreUsedUp) {
  Fixture w{{.reorder = 1, .held_frames = 2}};
  w.arrive_numbered(500);
  w.receive_all();
  std::vector<std::uint64_t> numbers = w.numbers();
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, range(500));
  EXPECT_GT(w.queue->counts().no_buffer.get(), 0u);
  EXPECT_EQ(w.queue->counts().no_buffer.get() + w.queue->counts().reordered.get(), 500u);
}

TEST(FaultyQueue, AllFaultsTogetherCreateNoNewFrames) {
  Fixture w{{.loss = 0.1, .duplicate = 0.3, .reorder = 0.3, .held_frames = 8, .seed = 6}};
  w.arrive_numbered(5000);
  w.receive_all(5);
  std::map<std::uint64_t, int> times;
  for (const std::uint64_t number : w.numbers()) ++times[number];
  EXPECT_EQ(times.size(), 5000u - w.queue->counts().lost.get());
  EXPECT_EQ(w.received.size(), times.size() + w.queue->counts().duplicated.get());
}

TEST(FaultyQueue, SameSeedGivesTheSameFaults) {
  const auto run = [](std::uint64_t seed) {
    Fixture w{{.loss = 0.05, .duplicate = 0.05, .reorder = 0.05, .seed = seed}};
    w.arrive_numbered(2000);
    w.receive_all(9);
    return w.numbers();
  };
  EXPECT_EQ(run(11), run(11));
  EXPECT_NE(run(11), run(12));
}

TEST(FaultyQueue, CorruptsOneBitThatAChecksumDetects) {
  Fixture w{{.corrupt = 1, .seed = 8}};
  std::vector<Frame> sent;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    sent.push_back(test::udp_frame(i, 20 + static_cast<std::uint32_t>(i % 50)));
    w.wire->arrive(sent.back());
  }
  w.receive_all();
  ASSERT_EQ(w.received.size(), sent.size());
  int in_header = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const std::vector<std::size_t> bits = differing_bits(sent[i], w.received[i]);
    ASSERT_EQ(bits.size(), 1u);
    ASSERT_GE(bits[0] / 8, test::kEthernetBytes);
    ASSERT_FALSE(test::ip_checksum_holds(w.received[i]) && test::udp_checksum_holds(w.received[i]));
    in_header += !test::ip_checksum_holds(w.received[i]);
  }
  EXPECT_GT(in_header, 0);
  EXPECT_LT(in_header, 3000);
  EXPECT_EQ(w.queue->counts().corrupted.get(), 3000u);
}

TEST(FaultyQueue, CorruptsOnlyFramesWithAChecksum) {
  Fixture w{{.corrupt = 1}};
  w.arrive_numbered(100);  // not IPv4
  w.receive_all();
  EXPECT_EQ(w.numbers(), range(100));
  EXPECT_EQ(w.queue->counts().corrupted.get(), 0u);
}

TEST(FaultyQueue, FlipsOneBitPastTheChecksumOfEveryNthLongFrame) {
  Fixture w{{.flip_past_checksum_every = 3, .flip_longer_than_bytes = 1000, .seed = 9}};
  std::vector<Frame> sent;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    // Short ones between the long ones, which have even and odd lengths.
    const std::uint32_t payload = i % 2 == 0 ? 100 : 1000 + static_cast<std::uint32_t>(i / 2 % 300);
    sent.push_back(test::udp_frame(i, payload));
    w.wire->arrive(sent.back());
  }
  w.receive_all();
  ASSERT_EQ(w.received.size(), sent.size());
  std::uint64_t long_frames = 0, flipped = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const Frame& frame = w.received[i];
    long_frames += frame.size() > 1000;
    if (frame == sent[i]) continue;
    ++flipped;
    ASSERT_GT(frame.size(), 1000u);
    ASSERT_EQ(long_frames % 3, 0u);
    ASSERT_TRUE(test::ip_checksum_holds(frame));
    ASSERT_TRUE(test::udp_checksum_holds(frame)) << "frame " << i;
    Frame mended = frame;
    std::copy_n(sent[i].begin() + test::kUdpPayloadOffset - 2, 2,
                mended.begin() + test::kUdpPayloadOffset - 2);
    const std::vector<std::size_t> bits = differing_bits(sent[i], mended);
    ASSERT_EQ(bits.size(), 1u);
    ASSERT_GE(bits[0] / 8, test::kUdpPayloadOffset + (frame.size() - test::kUdpPayloadOffset) / 2);
  }
  EXPECT_EQ(flipped, 500u);
  EXPECT_EQ(w.queue->counts().flipped_past_checksum.get(), 500u);
}

TEST(FaultyQueue, FlipsOnlyWholeUdpDatagrams) {
  Fixture w{{.flip_past_checksum_every = 1, .flip_longer_than_bytes = 1000}};
  const Frame honest = test::udp_frame(1, 2000);
  const auto with = [&](std::size_t offset, unsigned value) {
    Frame frame = honest;
    frame[test::kEthernetBytes + offset] = static_cast<std::byte>(value);
    return frame;
  };
  const std::vector<Frame> left_alone{with(6, 0x20),  // more fragments follow
                                      with(7, 0x10),  // a later fragment
                                      with(9, 6),     // TCP
                                      with(0, 0x41),  // a header that is too short
                                      with(2, 0xff),  // longer than the frame
                                      with(24, 0),    // UDP disagrees with IP on the length
                                      numbered(0, 2000)};
  for (const Frame& frame : left_alone) w.wire->arrive(frame);
  w.receive_all();
  EXPECT_EQ(w.received, left_alone);
  EXPECT_EQ(w.queue->counts().flipped_past_checksum.get(), 0u);

  Frame without_checksum = honest;
  without_checksum[test::kUdpPayloadOffset - 2] = without_checksum[test::kUdpPayloadOffset - 1] =
      std::byte{0};
  w.received.clear();
  w.wire->arrive(without_checksum);
  w.receive_all();
  ASSERT_EQ(w.received.size(), 1u);
  const std::vector<std::size_t> bits = differing_bits(w.received[0], without_checksum);
  ASSERT_EQ(bits.size(), 1u) << "where there was no checksum none appears";
  EXPECT_GE(bits[0] / 8, test::kUdpPayloadOffset);
}

TEST(Faults, RefusesImpossibleValues) {
  EXPECT_EQ(Faults{.loss = 1.5}.validate().error().text,
            "faults: loss is 1.5; it is a probability from 0 to 1");
  EXPECT_EQ(Faults{.corrupt = -0.1}.validate().error().text,
            "faults: corrupt is -0.1; it is a probability from 0 to 1");
  EXPECT_FALSE(Faults{.duplicate = std::numeric_limits<double>::quiet_NaN()}.validate().ok());
  EXPECT_EQ((Faults{.reorder = 0.1, .held_frames = 0}).validate().error().text,
            "faults: reorder and duplicate need buffers: set held_frames to at least 1");
  EXPECT_EQ((Faults{.reorder_distance = 0}).validate().error().text,
            "faults: reorder_distance (0) and reorder_calls (32) must be at least 1");
  EXPECT_TRUE(Faults{}.validate().ok());
  EXPECT_FALSE(Faults{}.any());
  EXPECT_TRUE((Faults{.flip_past_checksum_every = 5}).any());
}

}  // namespace
}  // namespace braid::proxy
