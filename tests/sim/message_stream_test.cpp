// The oracle of one direction of a connection: every kind of wrong arrival is called wrong, and what is right is
// not.
#include "tests/sim/message_stream.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace braid::sim {
namespace {

constexpr Instant at(Duration since_start) {
  return Instant() + since_start;
}

struct Fixture {
  explicit Fixture(bool ordered = true) : stream(contents, 7, ordered, 10) {}
  // Sends a message, and returns what must arrive.
  std::vector<std::byte> send(std::uint32_t bytes, std::uint32_t granules = 1, Instant now = Instant()) {
    const ByteView view = stream.offer(now, bytes, granules);
    const std::vector<std::byte> copy(view.begin(), view.end());
    stream.confirm();
    return copy;
  }
  std::string deliver(const std::vector<std::byte>& message) {
    return stream.deliver(at(1_ms), message).wrong;
  }

  MessageContents contents{1};
  MessageStream stream;
};

TEST(MessageContents, FollowFromStreamNumberAndLength) {
  MessageContents one(1), same(1), other(2);
  const auto bytes = [](MessageContents& of, std::uint64_t stream, std::uint32_t number) {
    const ByteView view = of.of(stream, number, 100);
    return std::vector<std::byte>(view.begin(), view.end());
  };
  EXPECT_EQ(bytes(one, 3, 4), bytes(same, 3, 4));
  EXPECT_NE(bytes(one, 3, 4), bytes(other, 3, 4)) << "another seed";
  EXPECT_NE(bytes(one, 3, 4), bytes(one, 2, 4)) << "another stream";
  EXPECT_NE(bytes(one, 3, 4), bytes(one, 3, 5)) << "another number";
  EXPECT_EQ(load<std::uint32_t>(one.of(3, 4, 100).data()), 4u);
  EXPECT_EQ(one.of(3, 4, MessageContents::kLongestMessage).size(), MessageContents::kLongestMessage);
  EXPECT_EQ(one.of(3, 4, 0).size(), 0u);
}

TEST(MessageStream, EveryMessageArrivesOnce) {
  Fixture f;
  const auto first = f.send(100), second = f.send(3);
  EXPECT_TRUE(f.stream.is_missing_any());
  const MessageStream::Delivery delivery = f.stream.deliver(at(1_ms), first);
  EXPECT_EQ(delivery.wrong, "");
  EXPECT_EQ(delivery.number, 0u);
  EXPECT_EQ(delivery.took, 1_ms);
  EXPECT_EQ(f.deliver(second), "");
  EXPECT_FALSE(f.stream.is_missing_any());
  EXPECT_EQ(f.stream.sent(), 2u);
  EXPECT_EQ(f.stream.delivered(), 2u);
}

TEST(MessageStream, AnArrivalThatNobodySentIsWrong) {
  Fixture f;
  const auto first = f.send(100);
  EXPECT_EQ(f.deliver(first), "");
  EXPECT_NE(f.deliver(first).find("none is missing"), std::string::npos);
}

TEST(MessageStream, AChangedByteIsWrong) {
  Fixture f;
  auto first = f.send(100);
  first[99] ^= std::byte{1};
  EXPECT_NE(f.deliver(first).find("is not what was sent"), std::string::npos);
}

TEST(MessageStream, AnotherLengthIsWrong) {
  Fixture f;
  auto first = f.send(100);
  first.pop_back();
  EXPECT_NE(f.deliver(first), "");
}

TEST(MessageStream, AnOrderedStreamRefusesAMessageBeforeItsTurn) {
  Fixture f;
  (void)f.send(100);
  const auto second = f.send(100);
  EXPECT_NE(f.deliver(second).find("where 0 of 100 bytes is next"), std::string::npos);
}

TEST(MessageStream, AnUnorderedStreamTakesAnyMissingMessageOnce) {
  Fixture f(false);
  const auto first = f.send(100), second = f.send(200), third = f.send(300);
  EXPECT_EQ(f.deliver(third), "");
  EXPECT_EQ(f.deliver(first), "");
  EXPECT_NE(f.deliver(third).find("is not missing"), std::string::npos);
  EXPECT_NE(f.deliver(first).find("is not missing"), std::string::npos);
  EXPECT_EQ(f.deliver(second), "");
  EXPECT_FALSE(f.stream.is_missing_any());
}

TEST(MessageStream, ShortUnorderedMessagesAreToldApartByTheirBytes) {
  Fixture f(false);
  const auto first = f.send(3), second = f.send(3);
  ASSERT_NE(first, second);
  EXPECT_EQ(f.deliver(second), "");
  EXPECT_NE(f.deliver(second).find("none like it is missing"), std::string::npos);
  EXPECT_EQ(f.deliver(first), "");
}

TEST(MessageStream, GranulesAreInFlightUntilDelivery) {
  Fixture f(false);
  const auto first = f.send(100, 2), second = f.send(1000, 16);
  EXPECT_EQ(f.stream.granules_in_flight(), 18u);
  EXPECT_EQ(f.deliver(second), "");
  EXPECT_EQ(f.stream.granules_in_flight(), 2u);
  EXPECT_EQ(f.deliver(first), "");
  EXPECT_EQ(f.stream.granules_in_flight(), 0u);
  EXPECT_FALSE(f.stream.has_long());
  (void)f.send(50'000, 0);
  EXPECT_TRUE(f.stream.has_long());
}

TEST(MessageStream, AWithdrawnMessageIsNotMissing) {
  Fixture f;
  (void)f.stream.offer(Instant(), 100, 2);
  f.stream.withdraw();
  EXPECT_FALSE(f.stream.is_missing_any());
  EXPECT_EQ(f.stream.granules_in_flight(), 0u);
  EXPECT_EQ(f.stream.sent(), 0u);
  EXPECT_EQ(f.deliver(f.send(100)), "") << "the next has its number";
}

TEST(MessageStream, IsCompleteWhenAllThatWerePlannedAreSent) {
  Fixture f;
  for (int i = 0; i < 9; ++i) (void)f.send(10);
  EXPECT_FALSE(f.stream.all_sent());
  (void)f.send(10);
  EXPECT_TRUE(f.stream.all_sent());
}

}  // namespace
}  // namespace braid::sim
