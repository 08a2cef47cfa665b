#include "proxy/daemon/worker_mailbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace braid::proxy {
namespace {

// A mailbox is too large for the stack of a thread.
class WorkerMailboxTest : public ::testing::Test {
 protected:
  static PortDrained drained(std::uint32_t port) { return {PortId(port)}; }
  // Ports of the events that the control plane takes.
  std::vector<std::uint32_t> take_events() {
    std::vector<std::uint32_t> ports;
    for (WorkerEvent e; mailbox_.take_event(&e);) ports.push_back(std::get<PortDrained>(e).port.value());
    return ports;
  }
  std::unique_ptr<WorkerMailbox> owner_ = std::make_unique<WorkerMailbox>();
  WorkerMailbox& mailbox_ = *owner_;
};

TEST_F(WorkerMailboxTest, CaughtUpWhenAllCommandsHaveTakenEffect) {
  EXPECT_TRUE(mailbox_.caught_up());
  for (std::uint32_t port = 1; port <= 3; ++port)
    ASSERT_TRUE(mailbox_.push_command(RemovePort{PortId(port)}));
  EXPECT_FALSE(mailbox_.caught_up());
  std::vector<std::uint32_t> ports;
  EXPECT_EQ(mailbox_.take_commands([&](const WorkerCommand& c) {
    EXPECT_FALSE(mailbox_.caught_up()) << "it is being obeyed";
    ports.push_back(std::get<RemovePort>(c).port.value());
  }),
            3);
  EXPECT_EQ(ports, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_TRUE(mailbox_.caught_up());
  EXPECT_EQ(mailbox_.take_commands([](const WorkerCommand&) { FAIL(); }), 0);
}

TEST_F(WorkerMailboxTest, CommandThatFindsNoRoomIsNotAwaited) {
  while (mailbox_.push_command(RemovePort{})) {
  }
  (void)mailbox_.take_commands([](const WorkerCommand&) {});
  EXPECT_TRUE(mailbox_.caught_up());
}

TEST_F(WorkerMailboxTest, EventsAreReportedWhenPublished) {
  mailbox_.report(drained(1));
  mailbox_.report(drained(2));
  EXPECT_TRUE(mailbox_.any_reported());
  EXPECT_FALSE(mailbox_.has_events());
  mailbox_.publish();
  EXPECT_FALSE(mailbox_.any_reported());
  EXPECT_TRUE(mailbox_.has_events());
  EXPECT_EQ(take_events(), (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(WorkerMailboxTest, EventsThatFindNoRoomWaitInOrder) {
  const std::uint32_t all = WorkerMailbox::kEvents + 10;
  for (std::uint32_t i = 0; i < all; ++i) mailbox_.report(drained(i));
  mailbox_.publish();
  EXPECT_TRUE(mailbox_.any_reported());
  std::vector<std::uint32_t> ports = take_events();
  mailbox_.publish();
  for (const std::uint32_t port : take_events()) ports.push_back(port);
  ASSERT_EQ(ports.size(), all);
  for (std::uint32_t i = 0; i < all; ++i) ASSERT_EQ(ports[i], i);
}

TEST_F(WorkerMailboxTest, HasNoRoomWhileReportedEventsWait) {
  EXPECT_TRUE(mailbox_.has_room(WorkerMailbox::kEvents));
  EXPECT_FALSE(mailbox_.has_room(WorkerMailbox::kEvents + 1));
  mailbox_.report(drained(1));
  EXPECT_FALSE(mailbox_.has_room(1)) << "it would overtake";
  mailbox_.publish();
  EXPECT_TRUE(mailbox_.has_room(1));
  mailbox_.publish(drained(2));
  EXPECT_EQ(take_events(), (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(WorkerMailboxTest, DroppedEventsAreNotReported) {
  mailbox_.report(drained(1));
  mailbox_.drop_events();
  mailbox_.publish();
  EXPECT_TRUE(take_events().empty());
}

}  // namespace
}  // namespace braid::proxy
