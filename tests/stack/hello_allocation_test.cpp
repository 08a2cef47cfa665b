// Hellos of senders without the secret take no memory, however many senders there are.
#include <gtest/gtest.h>

#include <vector>

#include "tests/count_allocations.h"
#include "tests/stack/forged_hellos.h"
#include "tests/stack/two_stacks.h"

namespace braid::stack {
namespace {

TEST(HelloAllocation, FloodFromManyAddressesTakesNoMemory) {  // SE-11
  Wire wire;
  for (const std::uint16_t i : {std::uint16_t{0}, std::uint16_t{1}}) {
    StackConfig c = stack_config(i, 2);
    c.sub_connection.security.secret = std::make_shared<const Secret>(KeyBytes{});
    wire.add(c);
  }
  wire.run_for(1_s);
  Stack& target = *wire.stacks[0]->stack;
  ASSERT_TRUE(target.all_established());
  const StackId us{ClusterId(0), ProxyId(0)}, peer{ClusterId(1), ProxyId(0)};
  ForgedHellos forged(peer, us, mac_of(0), {ip_of(0), 7700});
  std::vector<Bytes> frames;
  Prng prng(3);
  for (std::uint32_t i = 0; i < 20'000; ++i)
    frames.push_back(
        forged.frame(Ipv4Address(10, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i)),
                     prng.next() | 1, i % 3 == 0 ? target.sub_connections()[0]->epoch() : 0));
  Instant now = wire.now;
  test::allocations = 0;
  test::counting_allocations = true;
  for (const Bytes& frame : frames) {
    now = now + 100_us;
    (void)target.receive(now, kWire, frame);
  }
  test::counting_allocations = false;
  EXPECT_EQ(test::allocations, 0u);
  const StackStats stats = target.stats();
  EXPECT_GT(stats.refused_other_secret, 1000u) << "those were read";
  EXPECT_GT(stats.hellos_unread, 1000u);
  EXPECT_EQ(stats.refused_other_secret + stats.hellos_unread, 20'000u);
}

}  // namespace
}  // namespace braid::stack
