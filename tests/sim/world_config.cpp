#include "tests/sim/world_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <iterator>

#include "base/prng.h"
#include "tests/sim/world_events.h"

namespace braid::sim {
namespace {

// Draws in the words of the table below.
struct Draw {
  Prng random;

  bool chance(double p) { return random.chance(p); }
  double one_of(std::initializer_list<double> values) {
    return std::data(values)[random.below(values.size())];
  }
  // Between, every order of magnitude as likely as any other.
  double between(double low, double high) { return low * std::pow(high / low, random.uniform()); }
  double whole(double low, double high) {
    return low + static_cast<double>(random.below(static_cast<std::uint64_t>(high - low) + 1));
  }
};

}  // namespace

WorldConfig WorldConfig::draw_few(std::uint64_t seed) {
  Draw d{Prng(seed)};
  WorldConfig w;
  w.seed = seed;
  // Trains of messages. Drawn apart, so that seeds stay what they were.
  Draw trains{Prng(mix(seed, 1))};
  w.train_messages = trains.one_of({16, 16, 16, 2, 1});
  w.batch = trains.one_of({8, 8, 40});
  Draw datagrams{Prng(mix(seed, 2))};
  w.sealed = Draw{Prng(mix(seed, 7))}.chance(0.25);
  w.at_first_use = Draw{Prng(mix(seed, 8))}.chance(0.3);
  if (d.chance(0.1)) {
    // One frame is lost, nothing else is wrong, and whatever it was, nobody waits for a timer: 20 ms show.
    w.propagation_us = d.between(2, 50);
    w.min_rto_us = 20'000;
    w.fault_ms = 20;
    w.lose_frame = d.whole(3, 80);
    w.latency_us = 5000;
    w.flows = 1;
    w.max_bytes = d.one_of({64, 1000, 8000});
    w.pace_us = d.between(50, 500);
    w.messages = d.whole(20, 100);
    w.closes = 0;
    return w;
  }
  w.clusters = d.one_of({2, 2, 2, 3, 3, 4});
  for (double* proxies : {&w.proxies_0, &w.proxies_1, &w.proxies_2, &w.proxies_3})
    *proxies = d.one_of({1, 1, 2, 2, 3, 4});
  w.mtu = d.one_of({1500, 1500, 1500, 576, 4000, 9000});
  w.window_packets = d.one_of({256, 256, 64, 16, 4});
  w.min_rto_us = d.one_of({500, 200, 2000});
  w.static_mac = d.chance(0.8);
  w.steering = d.one_of({0, 0, 0, 1, 2});
  w.misdirect = d.chance(0.1);
  w.all_pairs = d.chance(0.25);
  w.round_robin = d.chance(0.25);
  w.idle_us = d.one_of({0, 0, 50, 200});
  w.control_us = d.one_of({20, 100, 500});
  w.gbits = d.one_of({10, 10, 40, 1});
  w.propagation_us = d.between(1, 100);
  w.queue_kib = d.one_of({512, 512, 64, 20});
  w.rx_frames = d.one_of({256, 256, 1024, 32});

  // Each kind of fault is there or not, so that one does not hide what another would show.
  w.fault_ms = d.between(20, 120);
  if (d.chance(0.5)) w.loss = d.between(0.0005, 0.2);
  if (d.chance(0.25)) w.burst = d.between(0.0005, 0.02);
  if (d.chance(0.3)) w.duplicate = d.between(0.001, 0.3);
  if (d.chance(0.3)) w.reorder = d.between(0.001, 0.3);
  if (d.chance(0.3)) w.corrupt = d.between(0.001, 0.1);
  if (d.chance(0.2)) {
    w.spike = d.between(0.0005, 0.02);
    w.spike_us = d.between(100, 10'000);
  }
  const auto stretches = [&](double p, double& every_ms, double& length_ms, double longest_ms) {
    if (!d.chance(p)) return;
    every_ms = d.between(5, 50);
    length_ms = d.between(0.2, longest_ms);
  };
  stretches(0.2, w.cut_every_ms, w.cut_ms, 10);
  stretches(0.2, w.clog_every_ms, w.clog_ms, 10);
  stretches(0.2, w.partition_every_ms, w.partition_ms, 20);
  stretches(0.15, w.link_down_every_ms, w.link_down_ms, 20);
  stretches(0.25, w.stall_every_ms, w.stall_ms, 20);
  stretches(0.1, w.control_stall_every_ms, w.control_stall_ms, 20);
  if (d.chance(0.15)) {
    w.jump_every_ms = d.between(10, 50);
    w.jump_ms = d.between(0.1, 2000);
  }
  if (d.chance(0.2)) {
    w.restarts = d.whole(1, 2);
    w.down_ms = d.between(0.5, 20);
  }
  if (d.chance(0.25)) w.kills = d.whole(1, 3);
  // A path that dies often, and in some worlds peers that are given up.
  if (d.chance(0.5)) {
    w.path_death_ms = d.one_of({110, 150, 200});
    if (d.chance(0.3)) w.peer_death_ms = d.one_of({250, 400, 1000});
  }
  if (w.may_lose_peers() && d.chance(0.7)) {
    w.partition_every_ms = d.between(20, 60);
    w.partition_ms = d.between(100, 1000);
    w.fault_ms = d.between(100, 1000);
  }

  // Failover: what a proxy carried goes on by others.
  if (d.chance(0.35)) {
    w.path_death_ms = d.one_of({110, 150});
    w.fault_ms = d.between(100, 600);
    if (d.chance(0.5)) {
      w.path_cut_every_ms = d.between(20, 200);
      w.path_cut_ms = d.between(20, 400);
    }
    // Not both: a proxy that stood still is taken back when its peers have heard of it by another path.
    if (d.chance(0.3)) {
      w.dead_paths = d.whole(1, 3);
    } else if (d.chance(0.5)) {
      w.dead_proxies = d.whole(1, 3);
      w.death_ms = d.between(100, 600);
    }
  }
  if (d.chance(0.2)) w.resize_every_ms = d.between(2, 50);

  w.datagrams = datagrams.one_of({0, 0, 0, 4, 12, 60});
  w.serving_nodes = datagrams.one_of({4, 4, 1, 2, 0});

  w.clients = d.one_of({1, 1, 2, 3});
  w.endpoints = d.one_of({1, 1, 2});
  w.flows = d.whole(1, 10);
  w.messages = d.between(5, 300);
  w.max_bytes = d.one_of({64, 500, 4000, 4000, 30'000});
  // About a megabyte each way of a connection is enough.
  w.messages = std::min(w.messages, 1 + 4e6 / w.max_bytes);
  if (d.chance(0.3)) w.long_messages = d.between(0.01, 0.2);
  w.window_kib = d.one_of({4, 16, 64, 64, 256});
  w.pace_us = d.between(2, 100);
  if (d.chance(0.3)) w.slow = d.between(0.1, 0.6);
  if (d.chance(0.3)) {
    w.stops = d.whole(1, 4);
    w.stop_ms = d.between(1, 30);
  }

  // A daemon is stopped while its peers' hosts are busy. Drawn apart, so that seeds without it stay what they were.
  Draw busy{Prng(~seed)};
  if (busy.chance(0.04)) {
    w.path_death_ms = busy.one_of({110, 150, 200});
    w.peer_death_ms = busy.one_of({250, 400});
    w.stopped_ms = 6 * w.peer_death_ms;
    w.gap_every_ms = busy.between(30, 100);
    w.gap_ms = busy.between(51, 150);
    w.fault_ms = w.stopped_ms + busy.between(50, 500);
    w.restarts = w.dead_paths = w.dead_proxies = 0;
  }
  if (w.static_mac == 0 && busy.chance(0.5)) w.forge_every_ms = busy.between(2, 50);

  // Sub-connections become quiet while things go wrong (SC-8).
  if (busy.chance(0.06) && w.stopped_ms == 0) {
    w.path_death_ms = busy.one_of({110, 150});
    w.pauses = busy.whole(1, 2);
    w.pause_ms = busy.between(4.5, 10) * w.path_death_ms;
    w.fault_ms = w.pauses * w.pause_ms + busy.between(100, 400);
  }
  return w;
}

WorldConfig WorldConfig::draw(std::uint64_t seed) {
  WorldConfig w = draw_few(seed);
  // Drawn apart, as above. Most of the nodes have nothing to say to each other.
  Draw many{Prng(mix(seed, 8))};
  if (many.chance(0.002) && w.pauses == 0 && w.stopped_ms == 0) {
    w.clusters = 200;
    // Each of the 19,900 pairs of nodes has a handshake, so there is no time for more of them, for keys, or for long.
    w.proxies_0 = w.proxies_1 = w.proxies_2 = w.proxies_3 = 1;
    w.sealed = 0;
    w.fault_ms = std::min(w.fault_ms, 60.0);
  }
  return w;
}

WorldConfig WorldConfig::draw_shared_memory(std::uint64_t seed) {
  WorldConfig w = draw_few(seed);
  w.shared_memory = 1;
  w.flows = w.datagrams = 0;
  w.restarts = w.kills = w.stops = w.pauses = w.stopped_ms = 0;
  w.latency_us = 0;
  // Partitions end before peers are given up.
  w.peer_death_ms = std::max(w.peer_death_ms, 10'000.0);
  return w;
}

Result<void> WorldConfig::set(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  double value = 0;
  const char* const begin =
      assignment.data() + (equals == std::string::npos ? assignment.size() : equals + 1);
  const char* const end = assignment.data() + assignment.size();
  if (const auto [at, problem] = std::from_chars(begin, end, value); problem != std::errc() || at != end)
    return error("'{}' is no assignment: write name=number", assignment);
  bool found = false;
  std::string names;
  for_each_setting([&](const char* setting, double WorldConfig::*member, const char*) {
    if (name == setting) {
      this->*member = value;
      found = true;
    }
    names += fmt::format(" {}", setting);
  });
  if (!found) return error("no setting is called '{}'; there are{}", name, names);
  return {};
}

std::vector<std::string> WorldConfig::differences(const WorldConfig& other) const {
  std::vector<std::string> all;
  for_each_setting([&](const char* name, double WorldConfig::*member, const char*) {
    if (this->*member != other.*member) all.push_back(fmt::format("{}={}", name, this->*member));
  });
  return all;
}

std::string WorldConfig::problem() const {
  if (stopped_ms <= fault_ms) return {};
  return fmt::format(
      "stopped_ms ({}) is longer than fault_ms ({}), after which nothing goes wrong; stopped_ms=0 stops no node",
      stopped_ms, fault_ms);
}

std::string WorldConfig::describe() const {
  const WorldConfig usual;
  std::string text;
  for_each_setting([&](const char* name, double WorldConfig::*member, const char* meaning) {
    if (this->*member != usual.*member)
      text += fmt::format("  {:<22} {:>10.6g}  {}\n", name, this->*member, meaning);
  });
  return text;
}

}  // namespace braid::sim
