#include "proxy/daemon/control_outbox.h"

#include <gtest/gtest.h>

#include <vector>

namespace braid::proxy {
namespace {

SendControl message(std::uint32_t serial, ClusterId to = ClusterId(1)) {
  SendControl m;
  m.to = to;
  m.message.kind = convergence::ControlMessage::Kind::kClose;
  m.message.serial = serial;
  return m;
}
std::uint32_t serial_of(const Outgoing& out) {
  convergence::ControlMessage m;
  EXPECT_TRUE(convergence::parse_control({out.data, out.bytes}, &m));
  return m.serial;
}

TEST(ControlOutbox, MessagesLeaveInOrder) {
  ControlOutbox outbox;
  EXPECT_EQ(outbox.poll(), nullptr);
  outbox.push(message(7, ClusterId(2)));
  outbox.push(message(8));
  Outgoing* const first = outbox.poll();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(serial_of(*first), 7u);
  EXPECT_EQ(first->to, ClusterId(2));
  EXPECT_EQ(first->channel, nullptr);
  EXPECT_EQ(first->record.kind, stack::RecordKind::kDatagram);
  EXPECT_EQ(first->record.protocol, stack::kControl);
  Outgoing* const second = outbox.poll();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(serial_of(*second), 8u);
  EXPECT_EQ(serial_of(*first), 7u) << "its bytes are its own";
}

TEST(ControlOutbox, BoundedNumberIsInFlight) {
  ControlOutbox outbox;
  std::vector<Outgoing*> in_flight;
  for (std::uint32_t i = 0; i <= ControlOutbox::kMaxInFlight; ++i) outbox.push(message(i));
  while (Outgoing* const out = outbox.poll()) in_flight.push_back(out);
  EXPECT_EQ(in_flight.size(), ControlOutbox::kMaxInFlight);
  EXPECT_TRUE(outbox.any_queued());
  outbox.finish(*in_flight[3]);
  Outgoing* const next = outbox.poll();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(serial_of(*next), ControlOutbox::kMaxInFlight);
  EXPECT_FALSE(outbox.any_queued());
}

TEST(ControlOutbox, MessagesQueuedForAClusterAreDropped) {
  ControlOutbox outbox;
  outbox.push(message(1, ClusterId(1)));
  outbox.push(message(2, ClusterId(2)));
  outbox.drop(ClusterId(1));
  Outgoing* const out = outbox.poll();
  ASSERT_NE(out, nullptr);
  EXPECT_EQ(serial_of(*out), 2u);
  EXPECT_EQ(outbox.poll(), nullptr);
}

TEST(ControlOutbox, AfterClearNoMessageIsLent) {
  ControlOutbox outbox;
  outbox.push(message(1));
  outbox.push(message(2));
  outbox.poll()->loan = Outgoing::Lent{ProxyId(1), 0};
  outbox.clear();
  EXPECT_FALSE(outbox.any_queued());
  for (std::uint32_t i = 0; i < ControlOutbox::kMaxInFlight; ++i) {
    outbox.push(message(i));
    const Outgoing* const out = outbox.poll();
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(out->lent(), nullptr);
  }
}

}  // namespace
}  // namespace braid::proxy
