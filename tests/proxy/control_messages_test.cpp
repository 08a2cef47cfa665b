#include "proxy/daemon/control_messages.h"

#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

constexpr ClusterId kA{1}, kB{2};
constexpr ProxyId kFirst{0}, kSecond{1};

convergence::ControlMessage close_of(std::uint32_t port) {
  convergence::ControlMessage m;
  m.kind = convergence::ControlMessage::Kind::kClose;
  m.destination = PortId(port);
  return m;
}

TEST(ControlMessages, EachHasASerialOfItsOwn) {  // CN-11
  ControlMessages messages(2, 3);
  EXPECT_EQ(messages.number(kFirst, kA, close_of(7)).message.serial, 1u);
  EXPECT_EQ(messages.number(kSecond, kB, close_of(8)).message.serial, 2u);
  const SendControl third = messages.number(kFirst, kA, close_of(9));
  EXPECT_EQ(third.message.serial, 3u);
  EXPECT_EQ(third.to, kA);
  EXPECT_EQ(third.message.destination, PortId(9));
}

TEST(ControlMessages, DuplicateIsReceivedOnce) {  // CN-11
  ControlMessages messages(1, 3);
  EXPECT_TRUE(messages.receive(kA, 5));
  EXPECT_FALSE(messages.receive(kA, 5));
  EXPECT_TRUE(messages.receive(kB, 5)) << "another's serial";
  messages.peer_lost(kA);
  EXPECT_TRUE(messages.receive(kA, 5)) << "its successor's";
  EXPECT_FALSE(messages.receive(kB, 5));
}

TEST(ControlMessages, MessagesOfAFencedProxyAreSentAgainInOrderWithTheSameSerials) {  // CN-11
  ControlMessages messages(2, 3);
  for (std::uint32_t port = 1; port <= 3; ++port) (void)messages.number(kFirst, kA, close_of(port));
  (void)messages.number(kSecond, kA, close_of(4));
  const std::vector<SendControl> again = messages.take(kFirst);
  ASSERT_EQ(again.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(again[i].message.serial, i + 1);
  EXPECT_TRUE(messages.take(kFirst).empty());

  messages.hand_over(kSecond, again[1]);
  const std::vector<SendControl> second = messages.take(kSecond);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].message.serial, 4u);
  EXPECT_EQ(second[1].message.serial, 2u) << "of that proxy now";
}

TEST(ControlMessages, NothingIsSentAgainToALostPeer) {  // CN-11
  ControlMessages messages(1, 3);
  (void)messages.number(kFirst, kA, close_of(1));
  (void)messages.number(kFirst, kB, close_of(2));
  messages.peer_lost(kA);
  const std::vector<SendControl> again = messages.take(kFirst);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].to, kB);
}

TEST(ControlMessages, OnlyMessagesThatPeersRememberAreSentAgain) {  // CN-11
  ControlMessages messages(2, 3);
  (void)messages.number(kFirst, kA, close_of(1));
  for (std::size_t i = 0; i < 2 * ControlMessages::kRepeatable; ++i)
    (void)messages.number(kSecond, kA, close_of(2));
  EXPECT_TRUE(messages.take(kFirst).empty()) << "a peer may have forgotten it";
  EXPECT_EQ(messages.take(kSecond).size(), ControlMessages::kRepeatable) << "its memory is bounded";
}

}  // namespace
}  // namespace braid::proxy
