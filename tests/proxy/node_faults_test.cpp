// Nodes over a wire that loses, doubles, reorders and harms: every stream arrives exactly once, whole.
#include <fmt/core.h>
#include <set>

#include "tests/proxy/machine.h"

namespace braid::proxy::test {
namespace {

constexpr PortId kPort{9};

struct Harm {
  const char* name;
  FaultConfig faults;
};

FaultConfig faults(double loss, double duplicate, double reorder, double corrupt) {
  FaultConfig f;
  f.loss = loss;
  f.duplicate = duplicate;
  f.reorder = reorder;
  f.corrupt = corrupt;
  return f;
}

const Harm kHarms[] = {
    {"Loss", faults(0.02, 0, 0, 0)},       {"HeavyLoss", faults(0.2, 0, 0, 0)},
    {"Duplicates", faults(0, 0.1, 0, 0)},  {"Reordering", faults(0, 0, 0.1, 0)},
    {"Corruption", faults(0, 0, 0, 0.05)}, {"Everything", faults(0.03, 0.05, 0.05, 0.02)},
};

class Faults : public ::testing::TestWithParam<std::tuple<Harm, bool, std::uint64_t>> {};

TEST_P(Faults, EveryMessageArrivesOnceAndWhole) {
  const auto& [harm, ordered, seed] = GetParam();
  NodesOptions o;
  o.proxies = {2, 2};
  o.faults = harm.faults;
  o.faults.seed = seed;
  o.sealed = seed % 4 == 1;
  o.transport.max_rto_us = 20'000;
  Nodes m(o);
  auto a = m.client(0);
  auto b = m.client(1);
  ConnectionOptions options;
  options.ordered = ordered;
  const Pair c = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), kPort, options);

  constexpr std::uint32_t kMessages = 1500;
  Prng prng(seed);
  std::vector<std::size_t> sizes;
  for (std::uint32_t i = 0; i < kMessages; ++i) sizes.push_back(4 + prng.below(i % 16 == 0 ? 20'000 : 300));
  std::uint32_t sent[2] = {0, 0};
  std::set<std::uint32_t> got[2];
  const auto take = [&](Connection& at, ByteView message) {
    std::set<std::uint32_t>& seen = got[&at == c.in ? 0 : 1];
    ASSERT_TRUE(intact(message)) << message.size() << " bytes";
    const std::uint32_t n = number_of(message);
    ASSERT_LT(n, kMessages);
    ASSERT_EQ(message.size(), sizes[n]);
    if (ordered) {
      ASSERT_EQ(n, seen.size());
    }
    ASSERT_TRUE(seen.insert(n).second) << "twice: " << n;
  };
  const bool done = until(
      [&] {
        Connection* const ends[2] = {c.out, c.in};
        for (unsigned way = 0; way < 2; ++way) {
          while (sent[way] < kMessages &&
                 ends[way]->try_send(numbered(sent[way], sizes[sent[way]])) == SendStatus::kSent)
            ++sent[way];
        }
        a->endpoint(0).poll(take);
        b->endpoint(0).poll(take);
      },
      [&] { return HasFatalFailure() || (got[0].size() == kMessages && got[1].size() == kMessages); }, 60_s);
  ASSERT_TRUE(done) << "seed " << seed << ": " << got[0].size() << " and " << got[1].size() << " of "
                    << kMessages;
  // The faults have struck, and each way of healing was used. A closing is no less reliable.
  a->endpoint(0).close(c.out);
  ASSERT_TRUE(until(
      [&] {
        a->endpoint(0).poll(take);
        b->endpoint(0).poll(take);
      },
      [&] { return c.in->state() != ConnectionState::kOpen; }))
      << "seed " << seed;
  EXPECT_EQ(c.in->state(), ConnectionState::kPeerClosed);
  m.run(5_ms);
  const auto both = [&](Counter ProxyCounters::*counter) { return m.sum(0, counter) + m.sum(1, counter); };
  if (harm.faults.loss > 0) {
    EXPECT_GT(both(&ProxyCounters::retransmissions), 0u);
  }
  if (harm.faults.duplicate > 0) {
    EXPECT_GT(both(&ProxyCounters::duplicates) + both(&ProxyCounters::replayed_packets), 0u);
  }
  if (harm.faults.corrupt > 0) {
    EXPECT_GT(both(&ProxyCounters::bad_udp) + both(&ProxyCounters::bad_ip), 0u);
  }
  EXPECT_EQ(both(&ProxyCounters::peers_lost), 0u);
  EXPECT_EQ(both(&ProxyCounters::bad_descriptors), 0u);
}

INSTANTIATE_TEST_SUITE_P(, Faults,
                         ::testing::Combine(::testing::ValuesIn(kHarms), ::testing::Bool(),
                                            ::testing::Values(1u, 2u, 3u)),
                         [](const auto& p) {
                           return fmt::format("{}{}Seed{}", std::get<0>(p.param).name,
                                              std::get<1>(p.param) ? "Ordered" : "Unordered",
                                              std::get<2>(p.param));
                         });

// IP cuts the packets: a lost frame costs a whole piece, and what lands on the wrong proxy is put together
// there before it is handed over.
TEST(FaultsOnFragments, EveryMessageArrivesOnceAndWhole) {  // IP-2, IP-3
  for (const bool misdirect : {false, true}) {
    for (const std::uint64_t seed : {1u, 2u}) {
      SCOPED_TRACE(fmt::format("misdirect {}, seed {}", misdirect, seed));
      NodesOptions o;
      o.proxies = {2, 2};
      o.misdirect = misdirect;
      // Corruption is rare: two changed bytes in the 22 fragments of a datagram can cancel out in its UDP checksum.
      o.faults = faults(0.01, 0.01, 0.01, 0.0002);
      o.faults.seed = seed;
      o.sealed = seed == 2;
      o.transport.fragmentation = stack::Fragmentation::kIp;
      o.transport.mtu_bytes = 1500;
      o.transport.max_rto_us = 20'000;
      Nodes m(o);
      auto a = m.client(0);
      auto b = m.client(1);
      const Pair c = connect(a->endpoint(0), ClusterId(1), b->endpoint(0), kPort, {});
      constexpr std::uint32_t kMessages = 300;
      Prng prng(seed);
      std::vector<std::size_t> sizes;
      for (std::uint32_t i = 0; i < kMessages; ++i) sizes.push_back(4 + prng.below(32'000));
      std::uint32_t sent = 0;
      std::set<std::uint32_t> got;
      const auto take = [&](Connection&, ByteView message) {
        ASSERT_TRUE(intact(message)) << message.size() << " bytes";
        const std::uint32_t n = number_of(message);
        ASSERT_LT(n, kMessages);
        ASSERT_EQ(message.size(), sizes[n]);
        ASSERT_TRUE(got.insert(n).second) << "twice: " << n;
      };
      ASSERT_TRUE(until(
          [&] {
            while (sent < kMessages && c.out->try_send(numbered(sent, sizes[sent])) == SendStatus::kSent)
              ++sent;
            a->endpoint(0).poll(take);
            b->endpoint(0).poll(take);
          },
          [&] { return HasFatalFailure() || got.size() == kMessages; }, 60_s))
          << got.size() << " of " << kMessages;
      m.run(5_ms);
      EXPECT_GT(m.sum(0, &ProxyCounters::fragments_sent), 1000u);
      EXPECT_GT(m.sum(1, &ProxyCounters::packets_reassembled), 150u);
      if (misdirect) {
        EXPECT_GT(m.sum(1, &ProxyCounters::misdirected), 200u);
      }
      EXPECT_EQ(m.sum(0, &ProxyCounters::peers_lost), 0u);
    }
  }
}

// Short connections over a bad wire: messages of opening and closing may overtake data, and still each message
// arrives and no end stays open.
TEST(FaultsOnConnections, ManyShortOnes) {
  for (const std::uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    NodesOptions o;
    o.proxies = {2, 2};
    o.faults = faults(0.1, 0.05, 0.1, 0.02);
    o.faults.seed = seed;
    o.transport.max_rto_us = 10'000;
    Nodes m(o);
    auto a = m.client(0);
    auto b = m.client(1);
    ASSERT_TRUE(b->endpoint(0).listen(kPort, {}).ok());
    for (std::uint32_t round = 0; round < 30; ++round) {
      const Result<Connection*> out = a->endpoint(0).connect(ClusterId(1), kPort, {}, 20_s);
      ASSERT_TRUE(out.ok()) << out.error().text;
      ASSERT_EQ(out.value()->try_send(numbered(round, 3000)), SendStatus::kSent);
      a->endpoint(0).close(out.value());
      Connection* from = nullptr;
      ASSERT_TRUE(until(
          [&] {
            b->endpoint(0).poll([&](Connection& c, ByteView message) {
              EXPECT_TRUE(intact(message));
              EXPECT_EQ(number_of(message), round);
              from = &c;
            });
          },
          [&] { return from != nullptr && from->state() == ConnectionState::kPeerClosed; }))
          << round;
      b->endpoint(0).close(from);
    }
  }
}

// Nothing but the wire joins the clusters.
TEST(FaultsOnConnections, DeadWireIsALostPeer) {
  NodesOptions o;
  o.faults.loss = 1;
  o.transport.path_death_ms = 150;
  o.transport.peer_death_ms = 400;
  Nodes m(o);
  auto a = m.client(0);
  auto b = m.client(1);
  ASSERT_TRUE(b->endpoint(0).listen(kPort, {}).ok());
  const Result<Connection*> out = a->endpoint(0).connect(ClusterId(1), kPort, {}, 200_ms);
  ASSERT_FALSE(out.ok());
  EXPECT_FALSE(m.node(0)->ready());
}

}  // namespace
}  // namespace braid::proxy::test
