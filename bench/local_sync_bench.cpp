// Compares synchronisation inside one cluster with that of the C library, in turns in one run:
//
//     BRAID_COMPUTE=2 local_sync_bench
//
// A lock whose token is here, without contention, against an uncontended pthread mutex (goal: 3 x); a
// barrier of all compute nodes of a cluster against a pthread barrier (goal: 2 x). Medians.
#include <fmt/core.h>
#include <pthread.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "bench/two_processes.h"
#include "dsm/api.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT
using bench::median;

constexpr int kRounds = 31;

template <class Body>
double ns_each(int times, Body&& body) {
  const Instant begun = monotonic_now();
  for (int i = 0; i < times; ++i) body();
  return static_cast<double>((monotonic_now() - begun).ns()) / times;
}

void print(const char* what, const std::vector<double>& ours, const std::vector<double>& theirs,
           double goal) {
  const double a = median(ours), b = median(theirs);
  fmt::print("{:<28} {:9.1f} ns, pthread {:9.1f} ns: {:5.2f} x, goal {:.0f} x\n", what, a, b, a / b, goal);
}

}  // namespace

int main() {
  init();
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, nodes_per_cluster());
  parallel([&](Node& node) {
    const bool tells = node.id() == 0;
    std::vector<double> ours, theirs;
    for (int round = 0; tells && round < kRounds; ++round) {
      constexpr int kTimes = 20'000;
      ours.push_back(ns_each(kTimes, [&] {
        node.lock(7);
        node.unlock(7);
      }));
      theirs.push_back(ns_each(kTimes, [&] {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
      }));
    }
    if (tells) print("lock and unlock, token here", ours, theirs, 3);
    ours.clear();
    theirs.clear();
    for (int round = 0; round < kRounds; ++round) {
      constexpr int kTimes = 200;
      node.barrier();
      ours.push_back(ns_each(kTimes, [&] { node.barrier(1); }));
      theirs.push_back(ns_each(kTimes, [&] { pthread_barrier_wait(&barrier); }));
    }
    if (tells) print("barrier inside a cluster", ours, theirs, 2);
  });
  pthread_barrier_destroy(&barrier);
  return finish(0);
}
