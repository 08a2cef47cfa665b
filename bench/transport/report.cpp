#include "bench/transport/report.h"

#include <fmt/core.h>

#include "base/json.h"
#include "bench/two_processes.h"

namespace braid::bench {
namespace {

double figure(const Figures& figures, const std::string& system, Test test) {
  return median(figures.at(system).at(test));
}

// A goal, what was reached, whether that is enough.
struct Goal {
  std::string what;
  double value;
  double limit;
  bool at_least;
  bool met() const { return at_least ? value >= limit : value <= limit; }
};

std::vector<Goal> goals_of(const Figures& f) {
  std::vector<Goal> goals;
  for (const std::string wire : {"shm", "memif"}) {
    if (!f.contains(wire + " bare")) continue;
    const std::string bare = wire + " bare", stack = wire + " stack";
    goals.push_back(
        {wire + ": 64 B one way, M/s", figure(f, stack, Test::kSmall), wire == "shm" ? 20.0 : 15.0, true});
    goals.push_back({wire + ": round trip over the bare wire's",
                     figure(f, stack, Test::kTrip) / figure(f, bare, Test::kTrip), wire == "shm" ? 2.0 : 1.7,
                     false});
    goals.push_back({wire + ": round trip over the kernel's",
                     figure(f, stack, Test::kTrip) / figure(f, "kernel UDP", Test::kTrip), 0.5, false});
    goals.push_back({wire + ": 8 KiB one way over the bare wire's",
                     figure(f, stack, Test::kLarge) / figure(f, bare, Test::kLarge), 0.5, true});
  }
  const std::string stack = "udp stack", service = "udp service";
  goals.push_back({"udp: 8 KiB one way over bare GSO and GRO",
                   figure(f, stack, Test::kLarge) / figure(f, "kernel GSO", Test::kLarge), 0.6, true});
  goals.push_back({"udp: 64 B one way over TCP's, a send each",
                   figure(f, stack, Test::kSmall) / figure(f, "kernel TCP", Test::kSmall), 1, true});
  goals.push_back({"udp: round trip over the kernel's, invoker",
                   figure(f, service, Test::kTrip) / figure(f, "kernel UDP", Test::kTrip), 1.3, false});
  if (f.contains("af_xdp stack")) {
    const auto ratio = [&](Test test) {
      return figure(f, "af_xdp stack", test) / figure(f, "af_packet stack", test);
    };
    goals.push_back({"af_xdp: round trip over af_packet's", ratio(Test::kTrip), 1, false});
    goals.push_back({"af_xdp: 64 B one way over af_packet's", ratio(Test::kSmall), 1, true});
    goals.push_back({"af_xdp: 8 KiB one way over af_packet's", ratio(Test::kLarge), 1, true});
  }
  return goals;
}

}  // namespace

void print(const Figures& f, const std::vector<std::string>& systems, int rounds) {
  fmt::print("{:16} {:>14} {:>16} {:>16}   medians of {} rounds\n", "", "64 B trip, us", "64 B way, M/s",
             "8 KiB way, GB/s", rounds);
  for (const std::string& s : systems)
    fmt::print("{:16} {:14.3f} {:16.2f} {:16.2f}\n", s, figure(f, s, Test::kTrip), figure(f, s, Test::kSmall),
               figure(f, s, Test::kLarge) * kLargeBytes / 1e3);
  for (const Goal& g : goals_of(f))
    fmt::print("  {:40} {:8.2f}   goal {} {:.2f}: {}\n", g.what, g.value, g.at_least ? ">=" : "<=", g.limit,
               g.met() ? "met" : "missed");
}

nlohmann::json json_of(const Figures& f) {
  nlohmann::json json;
  for (const auto& [name, tests] : f) {
    json["systems"][name] = {{"round_trip_us", median(tests.at(Test::kTrip))},
                             {"small_one_way_million_per_s", median(tests.at(Test::kSmall))},
                             {"large_one_way_gb_per_s", median(tests.at(Test::kLarge)) * kLargeBytes / 1e3}};
  }
  for (const Goal& g : goals_of(f))
    json["goals"].push_back({{"what", g.what}, {"value", g.value}, {"limit", g.limit}, {"met", g.met()}});
  return json;
}

void print_busy(const Figures& quiet, const Figures& busy, nlohmann::json& json) {
  fmt::print(
      "with a third busy process on the far core, share of the quiet rate (one half is its share of that "
      "core)\n");
  for (const auto& [name, tests] : busy) {
    const double small = figure(busy, name, Test::kSmall) / figure(quiet, name, Test::kSmall);
    const double large = figure(busy, name, Test::kLarge) / figure(quiet, name, Test::kLarge);
    fmt::print("{:16} 64 B {:5.2f}   8 KiB {:5.2f}\n", name, small, large);
    json["busy"][name] = {{"small_share", small}, {"large_share", large}};
  }
}

}  // namespace braid::bench
