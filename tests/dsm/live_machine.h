// A machine of several clusters for tests of the runtime: one process each, because every cluster has its
// heap at the same address, connected by sockets instead of the service.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dsm/live/environment.h"

namespace braid::dsm {

// How a process ended, and what it wrote to standard error.
struct Ending {
  int exit_status = -1;  // -1: a signal ended it
  int signal = 0;
  std::string text;
};
// The process died of a forbidden access: of SIGSEGV or SIGBUS, or by a sanitizer's report of one.
bool crashed(const Ending& ending);

// Runs `program` in a process of its own, with its result as exit status. Kills it after a minute.
Ending in_a_process(const std::function<int()>& program);

enum class Order { kAsSent, kShuffled };

struct LiveMachine {
  unsigned clusters = 2;
  unsigned compute = 1;
  unsigned heap_mib = 4;
  Order order = Order::kAsSent;
  // Messages are sent and received only in polls, as with proxies in the process.
  bool moves_only_in_poll = false;
  Environment::Protect protect = Environment::Protect::kAuto;
  // Changes a message in flight to cluster `to`. Called in that cluster's process.
  std::function<void(std::uint16_t from, std::uint16_t to, MutableBytes message)> damage =
      [](std::uint16_t, std::uint16_t, MutableBytes) {};
  // Changes the environment of one cluster.
  std::function<void(Environment&)> adjust = [](Environment&) {};
};
// The machine in the name of a test that is run on it: "2x2Shuffled".
std::string shape_of(const LiveMachine& machine);
void PrintTo(const LiveMachine& machine, std::ostream* out);

// Runs `program` on the initial thread of every cluster, joined already. One ending for each cluster.
std::vector<Ending> run_machine(const LiveMachine& machine, const std::function<int()>& program);
// The same; expects every cluster to end with status 0.
void expect_runs(const LiveMachine& machine, const std::function<int()>& program);

}  // namespace braid::dsm
