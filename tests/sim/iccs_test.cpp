// The ICCS in virtual time while things happen to it: proxies that stand still and come back, interfaces that
// go dark, proxies that are set aside and added. The nodes are production nodes; what is asserted is what they
// promise: each message once, and all of them.
#include "sim/iccs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "base/fnv.h"

namespace braid::sim {
namespace {

settings::CostModel model() {
  settings::CostModel m;
  m.name = "of this test";
  m.cycles_per_second = 100e6;
  m.handler = 200;
  m.hand_over = 100;
  m.window_send = 400;
  m.ack_send = 100;
  m.udp_send = 100;
  m.ip_send = 100;
  m.ni_send = 100;
  m.ni_receive = 100;
  m.ip_receive = 100;
  m.udp_receive = 100;
  m.window_receive = 300;
  m.ack_receive = 100;
  m.deliver = 100;
  m.timer = 50;
  m.latency = 500;
  m.wire_byte = 0.1;
  return m;
}

IccsConfig config(std::uint16_t clusters, std::uint16_t proxies, std::uint16_t nis = 1) {
  IccsConfig c;
  c.clusters = clusters;
  c.proxies = proxies;
  c.nis = nis;
  c.transport.path_death_ms = 20;
  c.transport.peer_death_ms = 2000;
  c.transport.max_rto_us = 5'000;
  return c;
}

// Every cluster sends numbered messages to all others in turn, one each period, until so many have been sent.
class Everybody final : public Iccs::Sink {
 public:
  Everybody(const IccsConfig& config, unsigned messages)
      : messages_(messages), events(config.clusters), iccs(config, model(), events, *this), config_(config) {
    iccs.establish();
  }
  // False: they have not all arrived within `patience`.
  bool run(Duration period, Duration patience) {
    const Instant end = events.now() + patience;
    Instant next = events.now();
    while (delivered < messages_ || sent_ < messages_) {
      if (events.now() >= end || !lost.empty()) return false;
      if (sent_ < messages_ && events.now() >= next && send()) next = next + period;
      iccs.on_event(events.pop());
    }
    return true;
  }
  std::uint64_t sum(const Counter proxy::ProxyCounters::*counter) const {
    std::uint64_t all = 0;
    for (std::uint16_t k = 0; k < config_.clusters; ++k)
      for (unsigned p = 0; p < config_.proxies; ++p) all += (iccs.counters(ClusterId(k), p).*counter).get();
    return all;
  }

  Handled on_message(Instant now, ClusterId, ClusterId, ByteView message) override {
    ++arrived[load<std::uint32_t>(message.data())];
    trace.add(static_cast<std::uint64_t>(now.ns()));
    trace.add(std::uint64_t{load<std::uint32_t>(message.data())});
    return {now, 0};
  }
  void on_room(Instant, ClusterId, ClusterId) override {}
  void on_delivered(const MessageReport& report) override {
    ++delivered;
    proxies_used[report.proxy] = events.now();
    EXPECT_LE(report.times.handed, report.times.served);
    EXPECT_LT(report.times.served, report.times.left);
    EXPECT_LT(report.times.left, report.times.arrived);
    EXPECT_LT(report.times.taken, report.times.delivered);
  }
  void on_lost(Instant, ClusterId, ClusterId, const char* why) override { lost = why; }

 private:
  unsigned sent_ = 0;
  unsigned messages_;

 public:
  Events events;
  Iccs iccs;
  unsigned delivered = 0;
  std::map<std::uint32_t, unsigned> arrived;  // by number: how often
  std::map<unsigned, Instant> proxies_used;   // when the last message went through it
  std::string lost;
  Fnv1a trace;

 private:
  bool send() {
    const unsigned from = sent_ % config_.clusters;
    const unsigned to = (from + 1 + sent_ / config_.clusters % (config_.clusters - 1u)) % config_.clusters;
    std::byte message[64] = {};
    store(message, std::uint32_t{sent_});
    if (!iccs.send(events.now(), ClusterId(static_cast<std::uint16_t>(from)), from,
                   ClusterId(static_cast<std::uint16_t>(to)), message))
      return false;
    ++sent_;
    return true;
  }
  const IccsConfig config_;
};

void expect_each_once(const Everybody& all, unsigned messages) {
  EXPECT_EQ(all.lost, "");
  EXPECT_EQ(all.arrived.size(), messages);
  for (const auto& [number, times] : all.arrived) EXPECT_EQ(times, 1u) << "message " << number;
}

TEST(IccsIncidents, WithoutAnyEachMessageArrivesOnce) {
  Everybody all(config(3, 2), 600);
  EXPECT_TRUE(all.run(100_us, 10_s));
  expect_each_once(all, 600);
  EXPECT_EQ(all.sum(&proxy::ProxyCounters::failed_over), 0u);
  EXPECT_EQ(all.proxies_used.size(), 2u);
}

TEST(IccsIncidents, AStoppedProxyIsReplacedByAnotherAndComesBack) {
  IccsConfig c = config(2, 2);
  c.incidents = {{.kind = Incident::Kind::kProxyStops,
                  .at = 10_ms,
                  .lasts = 200_ms,
                  .cluster = ClusterId(0),
                  .index = 1}};
  Everybody all(c, 4000);
  EXPECT_TRUE(all.run(100_us, 20_s));
  expect_each_once(all, 4000);
  EXPECT_GT(all.sum(&proxy::ProxyCounters::failed_over) + all.sum(&proxy::ProxyCounters::redelivered), 0u);
  EXPECT_GT(all.iccs.counters(ClusterId(0), 0).messages_sent.get(),
            all.iccs.counters(ClusterId(0), 1).messages_sent.get());
  EXPECT_GT(all.iccs.counters(ClusterId(0), 1).messages_sent.get(), 100u) << "after it came back";
}

TEST(IccsIncidents, ADarkInterfaceIsAvoidedAndUsedAgain) {
  IccsConfig c = config(2, 2, 2);
  c.incidents = {
      {.kind = Incident::Kind::kNiIsDark, .at = 10_ms, .lasts = 100_ms, .cluster = ClusterId(1), .index = 0}};
  Everybody all(c, 4000);
  EXPECT_TRUE(all.run(100_us, 20_s));
  expect_each_once(all, 4000);
  EXPECT_GT(all.iccs.frames_lost(), 0u);
  EXPECT_GT(all.sum(&proxy::ProxyCounters::failed_over) + all.sum(&proxy::ProxyCounters::lent), 0u);
}

TEST(IccsIncidents, AProxyThatIsSetAsideServesNobodyUntilItIsAddedAgain) {
  IccsConfig c = config(2, 3);
  const auto active = [](Duration at, unsigned count) {
    return Incident{.kind = Incident::Kind::kActiveProxies,
                    .at = at,
                    .lasts = {},
                    .cluster = ClusterId(0),
                    .index = count};
  };
  c.incidents = {active(5_ms, 1), active(200_ms, 3)};
  Everybody all(c, 4000);
  EXPECT_TRUE(all.run(100_us, 20_s));
  expect_each_once(all, 4000);
  const auto sent = [&](unsigned p) { return all.iccs.counters(ClusterId(0), p).messages_sent.get(); };
  EXPECT_GT(sent(0), 2 * sent(1));
  EXPECT_GT(sent(1), 100u);
  EXPECT_GT(sent(2), 100u);
}

TEST(IccsIncidents, AreTheSameInEveryRun) {
  const auto trace = [] {
    IccsConfig c = config(3, 2);
    c.faults.loss = 0.01;
    c.incidents = {{.kind = Incident::Kind::kProxyStops,
                    .at = 10_ms,
                    .lasts = 100_ms,
                    .cluster = ClusterId(2),
                    .index = 0}};
    Everybody all(c, 1500);
    EXPECT_TRUE(all.run(100_us, 20_s));
    return all.trace.value();
  };
  EXPECT_EQ(trace(), trace());
}

TEST(Iccs, AnIdleOneCostsNoEventsBesidesKeepAlives) {
  const IccsConfig c = config(2, 2);
  Everybody all(c, 0);
  const Instant began = all.events.now();
  const std::uint64_t before = all.events.happened();
  while (all.events.now() < began + 1_s) all.iccs.on_event(all.events.pop());
  // A probe and its answer for each end of two sub-connections, four times in each path_death_ms: some five
  // events for a frame.
  EXPECT_LT(all.events.happened() - before, 2u * 2 * 2 * 5 * 4 * 50 * 2);
  EXPECT_TRUE(all.iccs.at_rest());
}

}  // namespace
}  // namespace braid::sim
