#include "proxy/nic/steering.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/prng.h"

namespace braid::proxy {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The key of the published verification suite for the hash (Microsoft, "Verifying the RSS Hash Calculation"),
// which is also what many NICs start with.
const std::vector<std::uint8_t> kKey = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                        0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                        0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

constexpr std::uint32_t ip(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a << 24 | b << 16 | c << 8 | d;
}

std::vector<std::uint16_t> spread(unsigned entries, unsigned queues) {
  std::vector<std::uint16_t> table;
  for (unsigned i = 0; i < entries; ++i) table.push_back(static_cast<std::uint16_t>(i % queues));
  return table;
}

// A table in which entry i is queue i: the queue is the low bits of the hash.
std::vector<std::uint16_t> low_bits() {
  std::vector<std::uint16_t> table;
  for (unsigned i = 0; i < 32768; ++i) table.push_back(static_cast<std::uint16_t>(i));
  return table;
}

// As the specification writes it: the key moves on by a bit for each bit of the input.
std::uint32_t toeplitz(const std::vector<std::uint8_t>& key, const UdpFlow& f) {
  std::vector<bool> input;
  for (const auto& [value, bits] : {std::pair{f.source, 32},
                                    {f.destination, 32},
                                    {std::uint32_t{f.source_port}, 16},
                                    {std::uint32_t{f.destination_port}, 16}})
    for (int bit = bits - 1; bit >= 0; --bit) input.push_back((value >> bit & 1) != 0);
  std::uint32_t hash = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    std::uint32_t window = 0;
    for (std::size_t k = i; k < i + 32; ++k) window = window << 1 | (key[k / 8] >> (7 - k % 8) & 1u);
    if (input[i]) hash ^= window;
  }
  return hash;
}

TEST(SteeringHash, AgreesWithThePublishedExamples) {
  struct Case {
    UdpFlow flow;
    std::uint32_t hash;
  };
  const Case cases[] = {
      {{ip(66, 9, 149, 187), ip(161, 142, 100, 80), 2794, 1766}, 0x51ccc178},
      {{ip(199, 92, 111, 2), ip(65, 69, 140, 83), 14230, 4739}, 0xc626b0ea},
      {{ip(24, 19, 198, 95), ip(12, 22, 207, 184), 12898, 38024}, 0x5c2b394a},
      {{ip(38, 27, 205, 30), ip(209, 142, 163, 6), 48228, 2217}, 0xafc7327f},
      {{ip(153, 39, 163, 191), ip(202, 188, 127, 2), 44251, 1303}, 0x10e828a2},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(queue_of({kKey, low_bits()}, c.flow), c.hash & 0x7fff);
    EXPECT_EQ(toeplitz(kKey, c.flow), c.hash);
  }
}

TEST(SteeringHash, AgreesWithTheSpecificationForAnyKey) {
  constexpr std::uint64_t kSeed = 5;
  Prng random(kSeed);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::uint8_t> key(16 + random.below(37));
    for (std::uint8_t& byte : key) byte = static_cast<std::uint8_t>(random.next());
    const UdpFlow flow{static_cast<std::uint32_t>(random.next()), static_cast<std::uint32_t>(random.next()),
                       static_cast<std::uint16_t>(random.next()), static_cast<std::uint16_t>(random.next())};
    ASSERT_EQ(queue_of({key, low_bits()}, flow), toeplitz(key, flow) & 0x7fff)
        << "seed " << kSeed << ", " << trial;
  }
}

TEST(SteeringHash, EveryQueueHasASourcePortThatHashesToIt) {
  constexpr std::uint64_t kSeed = 6;
  Prng random(kSeed);
  for (const unsigned queues : {2u, 3u, 7u, 32u}) {
    for (const unsigned entries : {64u, 128u, 512u}) {
      const RssHash hash{kKey, spread(entries, queues)};
      for (unsigned queue = 0; queue < queues; ++queue) {
        SCOPED_TRACE(fmt::format("seed {}: queue {} of {}, table of {}", kSeed, queue, queues, entries));
        UdpFlow flow{static_cast<std::uint32_t>(random.next()), static_cast<std::uint32_t>(random.next()), 0,
                     static_cast<std::uint16_t>(7700 + queue)};
        const auto port = source_port_for(hash, flow, queue, 49152, 512);
        ASSERT_TRUE(port.has_value());
        EXPECT_GE(*port, 49152);
        EXPECT_LT(*port, 49152 + 512);
        flow.source_port = *port;
        EXPECT_EQ(hash.table[toeplitz(kKey, flow) % entries], queue);
      }
    }
  }
}

TEST(SteeringHash, AQueueThatNoPortReachesHasNone) {
  const UdpFlow flow{ip(10, 0, 0, 1), ip(10, 0, 0, 2), 0, 7700};
  EXPECT_EQ(source_port_for({kKey, spread(128, 2)}, flow, 2, 49152, 512), std::nullopt) << "no such queue";
  const RssHash blind{std::vector<std::uint8_t>(40, 0), spread(128, 2)};
  EXPECT_EQ(source_port_for(blind, flow, 0, 49152, 512), 49152) << "everything lands there";
  EXPECT_EQ(source_port_for(blind, flow, 1, 49152, 512), std::nullopt);
}

// A port whose abilities the test chooses.
struct FakePort final : SteerablePort {
  int rules_that_fit = 0;
  std::vector<std::pair<std::uint16_t, unsigned>> rules;
  Result<RssHash> hash = error("the port does not hash UDP ports");
  int asked = 0;

  Result<void> add_flow_rule(std::uint16_t udp_port, unsigned queue) override {
    ++asked;
    if (static_cast<int>(rules.size()) == rules_that_fit) return error("the port takes no more rules");
    rules.emplace_back(udp_port, queue);
    return {};
  }
  void remove_flow_rules() override { rules.clear(); }
  Result<RssHash> rss_hash() override {
    ++asked;
    return hash;
  }
};

TEST(Steering, ARuleForEachQueueIsTheFirstChoice) {
  for (const Steering wanted : {Steering::kAuto, Steering::kFlow}) {
    FakePort port;
    port.rules_that_fit = 3;
    port.hash = RssHash{kKey, spread(128, 3)};
    const Result<Steered> steered = steer(port, wanted, 7700, 3);
    ASSERT_TRUE(steered.ok());
    EXPECT_EQ(steered->way, Steering::kFlow);
    EXPECT_EQ(port.rules, (std::vector<std::pair<std::uint16_t, unsigned>>{{7700, 0}, {7701, 1}, {7702, 2}}));
  }
}

TEST(Steering, ARefusedRuleRemovesTheOthersAndTheHashIsUsed) {
  FakePort port;
  port.rules_that_fit = 2;
  port.hash = RssHash{kKey, spread(128, 3)};
  const Result<Steered> steered = steer(port, Steering::kAuto, 7700, 3);
  ASSERT_TRUE(steered.ok());
  EXPECT_EQ(steered->way, Steering::kRss);
  EXPECT_EQ(steered->hash.key, kKey);
  EXPECT_EQ(steered->hash.table, spread(128, 3));
  EXPECT_TRUE(port.rules.empty());
}

TEST(Steering, WithoutRulesAndHashPacketsAreHandedOver) {
  FakePort port;
  const Result<Steered> steered = steer(port, Steering::kAuto, 7700, 2);
  ASSERT_TRUE(steered.ok());
  EXPECT_EQ(steered->way, Steering::kHandoff);
}

TEST(Steering, HandoffIsUsedWhenAskedFor) {
  FakePort port;
  port.rules_that_fit = 2;
  port.hash = RssHash{kKey, spread(128, 2)};
  const Result<Steered> steered = steer(port, Steering::kHandoff, 7700, 2);
  ASSERT_TRUE(steered.ok());
  EXPECT_EQ(steered->way, Steering::kHandoff);
  EXPECT_EQ(port.asked, 0);
}

TEST(Steering, UnavailableMethodIsRefusedWithReasonAndCure) {
  FakePort port;
  port.rules_that_fit = 1;
  const Result<Steered> flow = steer(port, Steering::kFlow, 7700, 2);
  ASSERT_FALSE(flow.ok());
  EXPECT_EQ(
      flow.error().text,
      "steering: flow is not available: the port takes no more rules; set steering: auto, which takes the best "
      "that the port offers");
  EXPECT_TRUE(port.rules.empty());
  const Result<Steered> rss = steer(port, Steering::kRss, 7700, 2);
  ASSERT_FALSE(rss.ok());
  EXPECT_THAT(rss.error().text,
              StartsWith("steering: rss is not available: the port does not hash UDP ports; "));
}

TEST(Steering, AnUnusableHashIsNotUsed) {
  struct Case {
    RssHash hash;
    const char* why;
  };
  const Case cases[] = {
      {{std::vector<std::uint8_t>(15), spread(128, 2)}, "its key has 15 bytes, fewer than 16"},
      {{kKey, spread(100, 2)}, "its redirection table has 100 entries, not a power of two"},
      {{kKey, {}}, "its redirection table has 0 entries"},
  };
  for (const Case& c : cases) {
    FakePort port;
    port.hash = c.hash;
    const Result<Steered> automatic = steer(port, Steering::kAuto, 7700, 2);
    ASSERT_TRUE(automatic.ok());
    EXPECT_EQ(automatic->way, Steering::kHandoff);
    const Result<Steered> demanded = steer(port, Steering::kRss, 7700, 2);
    ASSERT_FALSE(demanded.ok());
    EXPECT_THAT(demanded.error().text, HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace braid::proxy
