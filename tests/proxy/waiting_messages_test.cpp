#include "proxy/daemon/waiting_messages.h"

#include <gtest/gtest.h>

#include <array>

namespace braid::proxy {
namespace {

class WaitingMessagesTest : public ::testing::Test {
 protected:
  auto collect() {
    taken_.clear();
    return [this](Outgoing& m) { taken_.push_back(&m); };
  }
  std::array<Outgoing, 3> m_;
  std::vector<Outgoing*> taken_;
  WaitingMessages waiting_;
};

TEST_F(WaitingMessagesTest, RetriedOnceInOrder) {
  for (Outgoing& m : m_) waiting_.strand(m);
  waiting_.retry_stranded(collect());
  EXPECT_EQ(taken_, (std::vector<Outgoing*>{&m_[0], &m_[1], &m_[2]}));
  EXPECT_FALSE(waiting_.any_stranded());
}

TEST_F(WaitingMessagesTest, UnsentMessagesWaitAgain) {
  for (Outgoing& m : m_) waiting_.strand(m);
  waiting_.retry_stranded([&](Outgoing& m) {
    if (&m == &m_[1]) waiting_.strand(m);
  });
  EXPECT_TRUE(waiting_.any_stranded());
  waiting_.retry_stranded(collect());
  EXPECT_EQ(taken_, std::vector<Outgoing*>{&m_[1]});
}

TEST_F(WaitingMessagesTest, DeferredCreditsWaitApart) {
  waiting_.strand(m_[0]);
  waiting_.defer(m_[1]);
  EXPECT_TRUE(waiting_.any_deferred());
  waiting_.retry_deferred(collect());
  EXPECT_EQ(taken_, std::vector<Outgoing*>{&m_[1]});
  EXPECT_TRUE(waiting_.any_stranded());
}

TEST_F(WaitingMessagesTest, RemovesWhatWaitsForACluster) {
  m_[1].to = ClusterId(2);
  m_[2].to = ClusterId(2);
  waiting_.strand(m_[0]);
  waiting_.strand(m_[1]);
  waiting_.defer(m_[2]);
  waiting_.remove(ClusterId(2), collect());
  EXPECT_EQ(taken_, (std::vector<Outgoing*>{&m_[1], &m_[2]}));
  EXPECT_FALSE(waiting_.any_deferred());
  waiting_.retry_stranded(collect());
  EXPECT_EQ(taken_, std::vector<Outgoing*>{&m_[0]});
}

// That a message has failed may make room for another one, which has no way either.
TEST_F(WaitingMessagesTest, MoreMayBeStrandedWhileSomeAreRemoved) {
  waiting_.strand(m_[0]);
  waiting_.strand(m_[1]);
  waiting_.remove(ClusterId(), [&](Outgoing& m) {
    if (&m == &m_[0]) waiting_.strand(m_[2]);
  });
  waiting_.retry_stranded(collect());
  EXPECT_EQ(taken_, std::vector<Outgoing*>{&m_[2]});
}

TEST_F(WaitingMessagesTest, ClearForgetsAll) {
  waiting_.strand(m_[0]);
  waiting_.defer(m_[1]);
  waiting_.clear();
  EXPECT_FALSE(waiting_.any_stranded());
  EXPECT_FALSE(waiting_.any_deferred());
}

}  // namespace
}  // namespace braid::proxy
