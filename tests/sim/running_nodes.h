// Nodes of a fault world on a good network, driven by a test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/sim/fault_clients.h"
#include "tests/sim/fault_nodes.h"
#include "tests/sim/fault_service.h"
#include "tests/sim/network.h"
#include "tests/sim/trouble.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

class RunningNodes : private NetworkEvents, public FaultDriver {
 public:
  explicit RunningNodes(const WorldConfig& c = config_of(2))
      : config(c),
        log(events, false),
        network(config, 1, static_cast<NetworkEvents&>(*this)),
        nodes(config, random, events, log, network),
        trouble(config, random, events) {
    for (unsigned n = 0; n < nodes.size(); ++n) nodes.start(n);
  }
  ~RunningNodes() override = default;
  // Two nodes with as many proxies each.
  static WorldConfig config_of(double proxies) {
    WorldConfig w;
    w.proxies_0 = w.proxies_1 = proxies;
    w.path_death_ms = 110;
    w.peer_death_ms = 400;
    w.fault_ms = 5;
    return w;
  }

  void run(Duration time) {
    EXPECT_TRUE(run_until(events.now() + time));
    EXPECT_EQ(log.failure(), "");
  }
  bool all_ready() {
    for (unsigned n = 0; n < nodes.size(); ++n)
      if (!nodes.is_running(n) || !nodes.node(n)->ready()) return false;
    return true;
  }

  // --- FaultDriver
  bool step() override {
    if (events.empty()) return false;
    const WorldEvent e = events.pop();
    switch (e.kind) {
      case WorldEvent::Kind::kFrame: {
        const int proxy = network.land(e.node, e.index, {e.a, e.b});
        if (proxy >= 0) nodes.wake_proxy(e.node, static_cast<unsigned>(proxy), events.now());
        break;
      }
      case WorldEvent::Kind::kWorker:
        turns[e.node] += nodes.on_worker(e.node, e.index);
        break;
      case WorldEvent::Kind::kControl:
        control_turns[e.node] += nodes.on_control(e.node);
        break;
      case WorldEvent::Kind::kClient:
        if (clients != nullptr) clients->on_event(e.index);
        break;
      case WorldEvent::Kind::kProgram:
      case WorldEvent::Kind::kTrouble:
      case WorldEvent::Kind::kPhase:
        break;
    }
    return !log.has_failed();
  }
  bool run_until(Instant end) override {
    // An event of its own moves the clock there.
    events.push(end, {WorldEvent::Kind::kPhase, 1, 0, 0, 0});
    while (events.next_time() <= end)
      if (!step()) return false;
    return true;
  }
  Instant now() const override { return events.now(); }

  const WorldConfig config;
  Prng random{3};
  WorldEvents events;
  WorldLog log;
  Network network;
  FaultNodes nodes;
  TroublePlanner trouble;
  FaultClients* clients = nullptr;     // whose events are handled
  std::array<int, 2> turns{};          // by node, of its workers
  std::array<int, 2> control_turns{};  // by node

 private:
  // --- NetworkEvents
  void arrives(Instant at, unsigned node, unsigned link, FrameRef frame) override {
    events.push(at, {WorldEvent::Kind::kFrame, static_cast<std::uint8_t>(node),
                     static_cast<std::uint16_t>(link), frame.buffer, frame.length});
  }
  void traced(unsigned, unsigned, unsigned, const char*, ByteView) override {}
};

}  // namespace braid::sim
