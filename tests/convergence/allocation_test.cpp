// The steady state of the message path allocates nothing: a parallel connection over whole stacks, with and
// without loss.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/prng.h"
#include "convergence/receiver.h"
#include "convergence/sender.h"
#include "stack/stack.h"
#include "tests/count_allocations.h"

namespace braid::convergence {
namespace {

constexpr std::uint32_t kWindowBytes = 64 << 10;
constexpr LinkId kWire(0);

stack::StackConfig config(std::uint16_t self) {
  const auto mac = [](std::uint16_t c) {
    return stack::MacAddress(2, 0, 0, 0, 0, static_cast<std::uint8_t>(c));
  };
  const auto ip = [](std::uint16_t c) {
    return stack::Ipv4Address(10, 0, 0, static_cast<std::uint8_t>(1 + c));
  };
  const auto other = static_cast<std::uint16_t>(1 - self);
  stack::StackConfig c;
  c.local = {ClusterId(self), ProxyId(0)};
  c.interfaces = {{ip(self), mac(self)}};
  c.seed = 5u + self;
  c.remotes.push_back({{ClusterId(other), ProxyId(0)}, ip(other), 7700, kWire, mac(other)});
  return c;
}

// Two ends of a connection. A message's bytes lie in a slot of their own until it is finished.
struct ConnectionEnds {
  static constexpr std::size_t kSlots = 512;
  static constexpr std::uint32_t kSlotBytes = 2048;

  explicit ConnectionEnds(double loss_probability, bool ordered)
      : loss(loss_probability),
        sending(config(0), now),
        receiving(config(1), now),
        data(kSlots * kSlotBytes),
        slots(kSlots),
        sender(kWindowBytes),
        buffer(kWindowBytes),
        receiver(buffer, ordered) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      slots[i].data = data.data() + i * kSlotBytes;
      free[free_count++] = &slots[i];
    }
  }

  bool send(std::uint32_t bytes) {
    const auto place = sender.place(bytes);
    if (!place || free_count == 0) return false;
    stack::OutMessage& m = *free[--free_count];
    m.bytes = bytes;
    m.record = {};
    m.record.destination = PortId(1);
    m.record.position = place->position;
    m.record.message = place->position;
    m.record.skip = place->skip;
    m.record.message_bytes = bytes;
    sender.sent(*place, bytes);
    sending.to(ClusterId(1))[0]->send(m);
    return true;
  }

  void deliver(const stack::Record& r, ByteView bytes) {
    if (r.kind == stack::RecordKind::kCredit) {
      ASSERT_TRUE(sender.on_credit(r.position));
      return;
    }
    const std::size_t granule = r.position.value() % (kWindowBytes / kGranuleBytes);
    std::memcpy(buffer.data() + granule * kGranuleBytes, bytes.data(), bytes.size());
    ASSERT_EQ(receiver.on_arrival(r), Accepted::kNew);
    while (receiver.next()) ++received;
    return_credit();
  }
  // One credit is in flight at a time.
  void return_credit() {
    if (const auto due = receiver.credit_due(); due && credit_finished) {
      credit_finished = false;
      credit = {};
      credit.record.kind = stack::RecordKind::kCredit;
      credit.record.position = *due;
      receiving.to(ClusterId(0))[0]->send(credit);
      receiver.credit_returned(*due);
    }
  }

  void exchange(stack::Stack& from, stack::Stack& to) {
    while (const std::size_t length = from.poll_transmit(now, kWire, frame)) {
      if (prng.chance(loss)) continue;
      const auto r = to.receive(now + 5_us, kWire, ByteView(frame).first(length));
      if (r.what != stack::Stack::Received::What::kRecords) continue;
      stack::RecordReader reader(r.records, r.record_count);
      stack::Record record;
      ByteView bytes;
      while (reader.next(&record, &bytes)) deliver(record, bytes);
      ASSERT_FALSE(reader.broken());
      to.delivered(now + 5_us, r);
    }
  }
  void turn() {
    exchange(sending, receiving);
    exchange(receiving, sending);
    for (stack::OutMessage* m = sending.sub_connections()[0]->take_finished(); m != nullptr;) {
      stack::OutMessage* const next = m->next;
      free[free_count++] = m;
      m = next;
    }
    if (receiving.sub_connections()[0]->take_finished() != nullptr) {
      credit_finished = true;
      return_credit();  // the sender may have used up all that it had meanwhile
    }
    now = now + 10_us;
  }

  double loss;
  Prng prng{1};
  Instant now = Instant::from_ns(1'000'000'000);
  stack::Stack sending;
  stack::Stack receiving;
  std::vector<std::byte> data;
  std::vector<stack::OutMessage> slots;
  std::array<stack::OutMessage*, kSlots> free{};
  std::size_t free_count = 0;
  Sender sender;
  std::vector<std::byte> buffer;
  Receiver receiver;
  std::array<std::byte, 1514> frame{};
  stack::OutMessage credit;
  bool credit_finished = true;
  std::uint64_t received = 0;
};

void expect_no_allocation(double loss, bool ordered) {
  ConnectionEnds m(loss, ordered);
  for (int i = 0; i < 10'000 && !(m.sending.all_established() && m.receiving.all_established()); ++i)
    m.turn();
  ASSERT_TRUE(m.sending.all_established());
  Prng prng(2);
  std::uint64_t sent = 0;
  // The allocations of so many turns, and of those until all of their messages have arrived.
  const auto allocations = [&](int turns) {
    test::allocations = 0;
    test::counting_allocations = true;
    for (int i = 0; i < turns; ++i) {
      for (std::uint64_t n = prng.below(20); n > 0; --n)
        sent += m.send(static_cast<std::uint32_t>(prng.below(ConnectionEnds::kSlotBytes + 1))) ? 1 : 0;
      m.turn();
    }
    for (int i = 0; i < 20'000 && m.received < sent; ++i) m.turn();
    test::counting_allocations = false;
    return test::allocations;
  };
  EXPECT_GT(allocations(500), 0u) << "memory for packets in flight, as there are more of them";
  EXPECT_EQ(allocations(20'000), 0u);
  // An end that becomes quiet has given this memory back (SC-8).
  for (const Instant until = m.now + 4_s; m.now < until; m.now = m.now + 1_ms) m.turn();
  EXPECT_GT(allocations(500), 0u);
  EXPECT_EQ(allocations(2000), 0u);
  EXPECT_EQ(m.received, sent);
  EXPECT_GT(sent, 40'000u);
  if (loss > 0) {
    EXPECT_GT(m.sending.sub_connections()[0]->stats().retransmissions, 100u);
  }
}

TEST(Allocation, CountsWhatThisTestAllocates) {
  test::counting_allocations = true;
  const std::size_t before = test::allocations;
  std::vector<int> some(100);
  test::counting_allocations = false;
  EXPECT_EQ(test::allocations, before + 1);
  EXPECT_EQ(some.size(), 100u);
}
TEST(Allocation, NoneOnTheMessagePath) {
  expect_no_allocation(0, true);
  expect_no_allocation(0, false);
}
TEST(Allocation, NoneWhenPacketsAreLostAndRetransmitted) {
  expect_no_allocation(0.05, true);
  expect_no_allocation(0.05, false);
}

}  // namespace
}  // namespace braid::convergence
