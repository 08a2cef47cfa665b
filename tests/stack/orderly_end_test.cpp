#include "stack/orderly_end.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;

TEST(OrderlyEnd, FirstCloseIsDueAtOnceAndTheNextATimeoutLater) {  // SC-11
  OrderlyEnd end;
  EXPECT_FALSE(end.closing());
  end.close(at(3_us));
  EXPECT_TRUE(end.closing());
  EXPECT_EQ(end.close_due(), at(3_us));
  EXPECT_FALSE(end.close_sent(at(7_us), 500_us)) << "it left later than it was due";
  EXPECT_EQ(end.close_due(), at(507_us));
}

TEST(OrderlyEnd, IsOverAfterTheLastClose) {  // SC-11
  OrderlyEnd end;
  end.close(at(0_us));
  for (unsigned i = 1; i < OrderlyEnd::kMaxCloses; ++i) EXPECT_FALSE(end.close_sent(at(0_us), 500_us)) << i;
  EXPECT_TRUE(end.close_sent(at(0_us), 500_us));
}

TEST(OrderlyEnd, NewHandshakeOfThePeerEndsItOnlyAfterAClose) {  // SC-11
  OrderlyEnd end;
  EXPECT_FALSE(end.over_at_new_handshake());
  end.close(at(0_us));
  EXPECT_FALSE(end.over_at_new_handshake()) << "messages may be unacknowledged";
  (void)end.close_sent(at(0_us), 500_us);
  EXPECT_TRUE(end.over_at_new_handshake());
}

TEST(OrderlyEnd, ReopenedEndClosesAnewWithAllItsCloses) {  // SC-11
  OrderlyEnd end;
  end.close(at(0_us));
  for (unsigned i = 0; i < OrderlyEnd::kMaxCloses; ++i) (void)end.close_sent(at(0_us), 500_us);
  end.reopen();
  EXPECT_FALSE(end.closing());
  EXPECT_FALSE(end.over_at_new_handshake()) << "what was told, was told of an earlier incarnation";
  end.close(at(1_s));
  EXPECT_EQ(end.close_due(), at(1_s));
  EXPECT_FALSE(end.over_at_new_handshake());
  for (unsigned i = 1; i < OrderlyEnd::kMaxCloses; ++i) EXPECT_FALSE(end.close_sent(at(1_s), 500_us)) << i;
  EXPECT_TRUE(end.close_sent(at(1_s), 500_us));
}

TEST(OrderlyEnd, PeerThatClosedIsRememberedUntilThereIsAnother) {  // SC-11
  OrderlyEnd end;
  EXPECT_FALSE(end.peer_closed());
  end.on_close();
  EXPECT_TRUE(end.peer_closed());
  EXPECT_FALSE(end.closing()) << "this end stays open";
  end.on_established();
  EXPECT_FALSE(end.peer_closed());
}

}  // namespace
}  // namespace braid::stack
