// SimGrid, a simulator of other authors (Casanova et al. 2014), as an oracle: it is told when messages come and what work each is, models a
// processor with a queue and a link after it, and must find the same moments as this simulator, to the cycle.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <simgrid/s4u.hpp>
#include <vector>

#include "sim/link.h"
#include "tests/sim/poisson_sender.h"
#include "tests/sim/round_costs.h"

namespace braid::sim {
namespace {

namespace sg4 = simgrid::s4u;

constexpr double kCyclesPerSecond = 100e6;
constexpr double kWireByteCycles = 2, kLatencyCycles = 500;
// To send a message: window, UDP, IP and NI.
constexpr double kWorkCycles = 600 + 150 + 150 + 100;
// Ethernet, IPv4 and UDP headers, ours, and the record's.
constexpr std::uint32_t kHeaderBytes = 14 + 20 + 8 + 48 + 20;

// Only the sending of messages takes time: no acknowledgement, credit or timer is a load, on which SimGrid is told nothing.
settings::CostModel costs_of_messages() {
  settings::CostModel costs = round_costs(kCyclesPerSecond);
  for (double* const free :
       {&costs.checksum_byte, &costs.ack_send, &costs.ni_receive, &costs.ip_receive, &costs.udp_receive,
        &costs.window_receive, &costs.ack_receive, &costs.deliver, &costs.deliver_byte, &costs.timer})
    *free = 0;
  costs.window_send = kWorkCycles;
  costs.udp_send = costs.ip_send = costs.ni_send = 0;
  costs.wire_byte = kWireByteCycles;
  costs.latency = kLatencyCycles;
  return costs;
}

// Of one message, in cycles since the beginning.
struct Moments {
  double handed = 0, left = 0, on_link = 0, arrived = 0;
  std::uint32_t bytes = 0;
};

// What the stages of the oracle hand on.
class Queue {
 public:
  void put(std::size_t message) {
    messages_.push_back(message);
    there_->release();
  }
  std::size_t take() {
    there_->acquire();
    const std::size_t message = messages_.front();
    messages_.pop_front();
    return message;
  }

 private:
  std::deque<std::size_t> messages_;
  sg4::SemaphorePtr there_ = sg4::Semaphore::create(0);
};

// Finds all moments but `handed`. A second of SimGrid's is a cycle: its precision is an absolute one.
void ask_simgrid(std::vector<Moments>& all) {
  int words = 1;
  char name[] = "simgrid_test";
  char* line[] = {name, nullptr};
  sg4::Engine engine(&words, line);
  // A link is its bandwidth and nothing else: no corrections for TCP's headers, start and windows.
  for (const char* const setting :
       {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "network/weight-S:0"})
    sg4::Engine::set_config(setting);
  sg4::NetZone* const zone = sg4::create_full_zone("zone");
  sg4::Host* const proxy = zone->create_host("proxy", 1.0);
  sg4::Host* const peer = zone->create_host("peer", 1.0);
  sg4::Link* const link = zone->create_link("link", 1 / kWireByteCycles)->set_latency(0.0);
  zone->add_route(proxy->get_netpoint(), peer->get_netpoint(), nullptr, nullptr, {sg4::LinkInRoute(link)});
  zone->seal();

  Queue to_proxy, to_link, to_peer;
  sg4::Actor::create("compute nodes", peer, [&] {
    for (std::size_t i = 0; i < all.size(); ++i) {
      sg4::this_actor::sleep_until(all[i].handed);
      to_proxy.put(i);
    }
  });
  sg4::Actor::create("proxy", proxy, [&] {
    for (std::size_t n = 0; n < all.size(); ++n) {
      const std::size_t i = to_proxy.take();
      sg4::this_actor::execute(kWorkCycles);
      all[i].left = sg4::Engine::get_clock();
      to_link.put(i);
    }
  });
  sg4::Actor::create("link", proxy, [&] {
    for (std::size_t n = 0; n < all.size(); ++n) {
      const std::size_t i = to_link.take();
      all[i].on_link = sg4::Engine::get_clock();
      sg4::Comm::sendto(proxy, peer, wire_bytes(all[i].bytes + kHeaderBytes));
      all[i].arrived = sg4::Engine::get_clock() + kLatencyCycles;
    }
  });
  engine.run();
}

TEST(SimGrid, AProxyAndItsLinkAreWhatAnotherSimulatorSays) {
  IccsConfig config = PoissonSender::usual_config();
  config.transport.ack_every = 256;  // an acknowledgement that left alone would take the link from a message
  PoissonSender sender(costs_of_messages(), config);
  sender.keeps_reports = true;
  constexpr unsigned kMessages = 5000;
  ASSERT_NO_FATAL_FAILURE(sender.run(kMessages, Duration::ns(18'000)));
  ASSERT_EQ(sender.reports.size(), kMessages);
  std::sort(sender.reports.begin(), sender.reports.end(),
            [](const MessageReport& a, const MessageReport& b) { return a.number < b.number; });
  const auto cycles = [&](Instant at) { return (at - sender.began).s() * kCyclesPerSecond; };
  std::vector<Moments> theirs(kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    theirs[i].handed = cycles(sender.reports[i].times.handed);
    theirs[i].bytes = sender.reports[i].bytes;
  }
  ask_simgrid(theirs);

  std::size_t waited_for_proxy = 0, waited_for_link = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    const MessageTimes& ours = sender.reports[i].times;
    ASSERT_NEAR(cycles(ours.left), theirs[i].left, 1) << "message " << i;
    ASSERT_NEAR(cycles(ours.on_link), theirs[i].on_link, 1) << "message " << i;
    ASSERT_NEAR(cycles(ours.arrived), theirs[i].arrived, 1) << "message " << i;
    if (theirs[i].left - theirs[i].handed > kWorkCycles + 1) ++waited_for_proxy;
    if (theirs[i].on_link - theirs[i].left > 1) ++waited_for_link;
  }
  // Both queues were used, and neither always.
  for (const std::size_t waited : {waited_for_proxy, waited_for_link}) {
    EXPECT_GT(waited, kMessages / 4);
    EXPECT_LT(waited, kMessages * 9 / 10);
  }
}

}  // namespace
}  // namespace braid::sim
