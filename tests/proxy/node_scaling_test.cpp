// Speed-up by more proxies and NIs, in virtual time: 10 Gb/s NIs, 20 us apart.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/proxy/virtual_world.h"
#include "tests/proxy/wide_connection.h"

namespace braid::proxy::test {
namespace {

constexpr std::uint64_t kRate = 10'000'000'000;

VirtualWorldOptions machine(std::uint16_t proxies) {
  VirtualWorldOptions o;
  o.proxies = {proxies, proxies};
  o.nis = proxies;
  o.bits_per_second = kRate;
  o.latency = 10_us;
  o.turn = 500_ns;
  return o;
}

struct Stream {
  explicit Stream(std::uint16_t proxies) : world(machine(proxies)), connection(world) {}
  VirtualWorld world;
  WideConnection connection;
};

// Bytes of payload per second of a stream of messages of 8 KiB.
double goodput(std::uint16_t proxies) {
  Stream s(proxies);
  const std::vector<std::byte> message = numbered(1, 8192);
  std::uint64_t bytes = 0;
  const auto run = [&](Duration time) {
    for (const Instant end = s.world.now + time; s.world.now < end;) {
      while (s.connection.pair.out->try_send(message) == SendStatus::kSent) {
      }
      s.connection.a->endpoint(0).poll(ignore());
      s.connection.b->endpoint(0).poll([&](Connection&, ByteView m) { bytes += m.size(); }, 4096);
    }
  };
  run(2_ms);  // until it flows evenly
  bytes = 0;
  const Instant begin = s.world.now;
  run(10_ms);
  return static_cast<double>(bytes) / (s.world.now - begin).s();
}

// Seconds that one long message takes.
double time_of_one(std::uint16_t proxies, std::size_t bytes) {
  Stream s(proxies);
  const std::vector<std::byte> message(bytes, std::byte{42});
  const Instant begin = s.world.now;
  Instant came;
  // The receiver must be polled while the sender waits, and there is one thread: the world does it.
  s.world.each_turn = [&] {
    s.connection.b->endpoint(0).poll([&](Connection&, ByteView m) {
      EXPECT_EQ(m.size(), bytes);
      came = s.world.now;
    });
  };
  EXPECT_EQ(s.connection.pair.out->send(message, 10_s), SendStatus::kSent);
  s.connection.a->endpoint(0).flush();
  for (const Instant end = s.world.now + 1_s; s.world.now < end && came == Instant();) s.world.turn();
  s.world.each_turn = {};
  EXPECT_NE(came, Instant());
  return (came - begin).s();
}

TEST(Scaling, FourProxiesOnFourNisCarryFourTimesAsMuch) {
  const double one = goodput(1);
  const double four = goodput(4);
  // Of 1538 bytes on the wire 1344 are a message's, and its last part is short.
  EXPECT_GT(one, 0.87 * kRate / 8);
  EXPECT_GE(four / one, 3.8) << one << " and " << four << " bytes per second";
  RecordProperty("one", std::to_string(one));
  RecordProperty("four", std::to_string(four));
}

TEST(Scaling, OneLongMessageTravelsOverAllOfThem) {
  const double one = time_of_one(1, 16u << 20);
  const double four = time_of_one(4, 16u << 20);
  EXPECT_GE(one / four, 3.5) << one << " and " << four << " s";
}

}  // namespace
}  // namespace braid::proxy::test
