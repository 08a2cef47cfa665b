#include "proxy/daemon/relays.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/proxy/channel_memory.h"

namespace braid::proxy::test {
namespace {

using Outcome = RelayReturn::Outcome;

constexpr ClusterId kPeer{3};

// Proxies 0 and 1 of a node, of which 1 reaches the peer.
class RelaysTest : public ::testing::Test {
 protected:
  void SetUp() override {
    lender_.connect(1, &to_1_, &to_0_);
    borrower_.connect(0, &to_0_, &to_1_);
    states_[1].reaches[0] = std::uint64_t{1} << kPeer.value();
    borrower_.map(1, memory_.get());
  }
  // A client's message that the lender cannot send.
  Outgoing& message(std::uint32_t index = 0, ClusterId to = kPeer) {
    Outgoing& m = channel_->outgoing[index];
    m.data = channel_->data + 64 * index;
    m.bytes = 64;
    m.to = to;
    m.record.position = Position(index);
    return m;
  }

  ProxyStates states_;
  ChannelMemory memory_;
  std::unique_ptr<Channel> channel_ = memory_.channel();
  std::unique_ptr<Relay> relays_[2] = {std::make_unique<Relay>(), std::make_unique<Relay>()};
  Relay& to_1_ = *relays_[0];  // what proxy 0 lends
  Relay& to_0_ = *relays_[1];
  Relays lender_{states_};
  Relays borrower_{states_};
};

TEST_F(RelaysTest, MessageIsSentByAnotherProxyAndComesBack) {
  Outgoing& m = message();
  ASSERT_TRUE(lender_.lend(m));
  EXPECT_NE(m.lent(), nullptr);
  EXPECT_TRUE(lender_.any_lent(kPeer));
  EXPECT_FALSE(lender_.any_lent(ClusterId(4)));
  EXPECT_EQ(lender_.take_woken(), 1u << 1);

  Outgoing* const borrowed = borrower_.poll_borrowed(0);
  ASSERT_NE(borrowed, nullptr);
  EXPECT_NE(borrowed->borrowed(), nullptr);
  EXPECT_EQ(borrowed->data, m.data);
  EXPECT_EQ(borrowed->bytes, 64u);
  EXPECT_EQ(borrowed->to, kPeer);
  EXPECT_EQ(borrower_.poll_borrowed(0), nullptr);
  borrower_.give_back(*borrowed, Outcome::kDelivered);
  EXPECT_EQ(borrower_.take_woken(), 1u << 0);

  const auto returned = lender_.poll_returned(1);
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->message, &m);
  EXPECT_EQ(returned->outcome, Outcome::kDelivered);
  EXPECT_EQ(m.lent(), nullptr);
  EXPECT_FALSE(lender_.any_lent(kPeer));
  EXPECT_FALSE(lender_.poll_returned(1));
}

TEST_F(RelaysTest, NothingIsLentToAProxyThatDoesNotReachTheCluster) {
  EXPECT_FALSE(lender_.lend(message(0, ClusterId(4))));
  states_[1].fenced = true;
  EXPECT_FALSE(lender_.lend(message()));
  EXPECT_FALSE(lender_.any_lent(kPeer));
}

TEST_F(RelaysTest, ControlMessageGoesByCopy) {
  std::array<std::byte, convergence::kControlBytes> bytes{};
  bytes[0] = std::byte{9};
  Outgoing m;
  m.data = bytes.data();
  m.bytes = convergence::kControlBytes;
  m.to = kPeer;
  ASSERT_TRUE(lender_.lend(m));
  bytes[0] = std::byte{1};
  Outgoing* const borrowed = borrower_.poll_borrowed(0);
  ASSERT_NE(borrowed, nullptr);
  EXPECT_EQ(borrowed->data[0], std::byte{9});
}

TEST_F(RelaysTest, MessageOfAnUnknownClientGoesBackUnsent) {
  borrower_.unmap(1);
  ASSERT_TRUE(lender_.lend(message()));
  EXPECT_EQ(borrower_.poll_borrowed(0), nullptr);
  const auto returned = lender_.poll_returned(1);
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->outcome, Outcome::kNoWay);
}

TEST_F(RelaysTest, BorrowerHasABoundedNumber) {
  std::vector<std::unique_ptr<Outgoing>> messages;
  std::vector<Outgoing*> borrowed;
  for (bool lent = true; lent;) {
    messages.push_back(std::make_unique<Outgoing>(message()));
    lent = lender_.lend(*messages.back());
    if (Outgoing* const m = borrower_.poll_borrowed(0)) borrowed.push_back(m);
  }
  EXPECT_EQ(borrowed.size(), Relays::kMaxBorrowed);
  // All of them come back, and what waited in the ring is next.
  for (Outgoing* const m : borrowed) borrower_.give_back(*m, Outcome::kDelivered);
  std::size_t returned = 0;
  while (lender_.poll_returned(1)) ++returned;
  EXPECT_EQ(returned, Relays::kMaxBorrowed);
  EXPECT_NE(borrower_.poll_borrowed(0), nullptr);
}

TEST_F(RelaysTest, MessagesOfAFencedBorrowerAreReclaimedAsMaybeDuplicates) {  // FO-5
  Outgoing& m = message();
  ASSERT_TRUE(lender_.lend(m));
  Outgoing* const borrowed = borrower_.poll_borrowed(0);
  ASSERT_NE(borrowed, nullptr);
  EXPECT_TRUE(lender_.reclaim(1).empty()) << "it was not fenced";
  lender_.forget(1);
  EXPECT_TRUE(lender_.poll_forgotten(1));
  EXPECT_FALSE(lender_.poll_forgotten(1)) << "once";
  EXPECT_TRUE(lender_.any_lent(kPeer)) << "it may still arrive";
  borrower_.give_back(*borrowed, Outcome::kDelivered);
  EXPECT_FALSE(lender_.poll_returned(1)) << "of a former generation";

  EXPECT_EQ(lender_.reclaim(1), std::vector<Outgoing*>{&m});
  EXPECT_TRUE(m.record.maybe_duplicate);
  EXPECT_EQ(m.lent(), nullptr);
  EXPECT_FALSE(lender_.any_lent(kPeer));
}

TEST_F(RelaysTest, BorrowerForgetsAFencedLenderWhenNothingOfItIsInFlight) {
  ASSERT_TRUE(lender_.lend(message()));
  Outgoing* const borrowed = borrower_.poll_borrowed(0);
  ASSERT_NE(borrowed, nullptr);
  borrower_.forget(0);
  EXPECT_FALSE(borrower_.poll_forgotten(0));
  borrower_.give_back(*borrowed, Outcome::kFailed);
  EXPECT_TRUE(borrower_.poll_forgotten(0));
  EXPECT_FALSE(lender_.poll_returned(1)) << "it is not returned";
}

TEST_F(RelaysTest, BorrowerTakesNothingThatALenderLentBeforeItWasFenced) {
  ASSERT_TRUE(lender_.lend(message()));
  borrower_.forget(0);
  EXPECT_EQ(borrower_.poll_borrowed(0), nullptr);
}

TEST_F(RelaysTest, RestartedProxyLendsAndBorrowsAfresh) {
  ASSERT_TRUE(lender_.lend(message()));
  lender_.restart();
  EXPECT_FALSE(lender_.any_lent(kPeer));
  borrower_.forget(0);
  EXPECT_EQ(borrower_.poll_borrowed(0), nullptr) << "of before";

  Outgoing& m = message(1);
  ASSERT_TRUE(lender_.lend(m));
  Outgoing* const borrowed = borrower_.poll_borrowed(0);
  ASSERT_NE(borrowed, nullptr);
  borrower_.give_back(*borrowed, Outcome::kFailed);
  const auto returned = lender_.poll_returned(1);
  ASSERT_TRUE(returned);
  EXPECT_EQ(returned->message, &m);
  EXPECT_EQ(returned->outcome, Outcome::kFailed);
}

TEST_F(RelaysTest, RestartedBorrowerIsSentToWhenItsGenerationIsKnown) {
  borrower_.restart();
  borrower_.map(1, memory_.get());
  ASSERT_TRUE(lender_.lend(message()));
  EXPECT_EQ(borrower_.poll_borrowed(0), nullptr) << "meant for the one before";
  ProxyGenerations generations{};
  generations[1] = 1;
  lender_.set_generations(generations);
  ASSERT_TRUE(lender_.lend(message(1)));
  EXPECT_NE(borrower_.poll_borrowed(0), nullptr);
}

}  // namespace
}  // namespace braid::proxy::test
