// Compares synchronisation inside one cluster with that of the C library, in turns in one run:
//
//     BRAID_COMPUTE=2 local_sync_bench
//
// A lock whose token is here, without contention, against an uncontended pthread mutex (goal: 3 x); a
// barrier of all compute nodes of a cluster against a pthread barrier (goal: 2 x). Medians of the rounds' means. A second
// pass of each round records latencies: of rows of locks, which are shorter than a reading of the clock, and of each barrier.
#include <fmt/core.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/round_trips.h"
#include "bench/two_processes.h"
#include "dsm/api.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT
using bench::Latencies;
using bench::median;
using bench::Operation;

constexpr int kLocks = 20'000;  // a round
constexpr int kRow = 100;
constexpr int kBarriers = 200;

// One operation and its counterpart in the C library.
struct Pair {
  struct Side {
    std::vector<double> means_ns;  // by round
    Operation each;                // or rows of them
  };
  Side ours, theirs;

  double ratio() const { return median(ours.means_ns) / median(theirs.means_ns); }
  void print(const char* what, double goal) const {
    fmt::print("{:<28} {:9.1f} ns, pthread {:9.1f} ns: {:5.2f} x, goal {:.0f} x\n", what,
               median(ours.means_ns), median(theirs.means_ns), ratio(), goal);
  }
  nlohmann::json json() const {
    return {{"ns", median(ours.means_ns)}, {"pthread_ns", median(theirs.means_ns)}, {"ratio", ratio()}};
  }
};

// Calls body() `times` times without, and as often with, a reading of the clock between rows of `row`.
template <class Body>
void measure(Pair::Side& side, int times, int row, Body&& body) {
  side.means_ns.push_back(bench::round_trip_us(times, nullptr, body) * 1e3);
  side.each.take([&](Latencies* each) {
    for (int n = 0; n < times; n += row) {
      each->record(bench::time_of([&] {
                     for (int i = 0; i < row; ++i) body();
                   }) /
                   row);
    }
  });
}

// The C library's lock and barrier, for all compute nodes of the cluster.
struct Pthread {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_barrier_t barrier;

  explicit Pthread(unsigned nodes) { pthread_barrier_init(&barrier, nullptr, nodes); }
  ~Pthread() { pthread_barrier_destroy(&barrier); }
  Pthread(const Pthread&) = delete;
  Pthread& operator=(const Pthread&) = delete;
};

void measure_locks(Node& node, Pthread& pthread, Pair& lock) {
  measure(lock.ours, kLocks, kRow, [&] {
    node.lock(7);
    node.unlock(7);
  });
  measure(lock.theirs, kLocks, kRow, [&] {
    pthread_mutex_lock(&pthread.mutex);
    pthread_mutex_unlock(&pthread.mutex);
  });
}

void measure_barriers(Node& node, Pthread& pthread, Pair& barrier) {
  node.barrier();
  measure(barrier.ours, kBarriers, 1, [&] { node.barrier(1); });
  measure(barrier.theirs, kBarriers, 1, [&] { pthread_barrier_wait(&pthread.barrier); });
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 31;
  bench::OutputOptions output;
  CLI::App app("Locks and barriers inside one cluster against those of the C library, in turns",
               "local_sync_bench");
  app.add_option("--rounds", rounds, "of each")->check(CLI::Range(1, 10000))->capture_default_str();
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = bench::run_against(output, argc, argv, rounds)) return *status;

  init();
  Pthread pthread(nodes_per_cluster());
  Pair lock, barrier;  // compute node 0's
  parallel([&](Node& node) {
    const bool tells = node.id() == 0;
    for (int round = 0; tells && round < rounds; ++round) measure_locks(node, pthread, lock);
    Pair not_told;
    for (int round = 0; round < rounds; ++round) measure_barriers(node, pthread, tells ? barrier : not_told);
  });
  if (cluster() != 0) return finish(0);
  lock.print("lock and unlock, token here", 3);
  barrier.print("barrier inside a cluster", 2);
  fmt::print("\n");
  const bench::NamedOperations operations = {
      {fmt::format("lock and unlock, mean of {}", kRow), &lock.ours.each},
      {"the same, pthread", &lock.theirs.each},
      {"barrier", &barrier.ours.each},
      {"barrier, pthread", &barrier.theirs.each}};
  bench::print_latencies("us", operations);
  nlohmann::json json = {{"lock and unlock", lock.json()}, {"barrier inside a cluster", barrier.json()}};
  json["us"] = bench::percentiles_json(operations);
  return finish(bench::write_output("local_sync_bench", output, json, operations) ? 0 : 1);
}
