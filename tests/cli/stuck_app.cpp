// A program, for simulation, whose two compute nodes contend outside Braid for a std::mutex or a spin lock, or do
// not contend but compute for long without a call.
//
//     cli_stuck_app mutex | spinlock | computing | end | killed NODE
//
// killed: all compute nodes compute, and NODE kills its process.
// end: after finish() the program takes a lock that a compute node still holds.
#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include "dsm/api.h"

namespace {

std::mutex mutex;
pthread_spinlock_t spinlock;

// One node holds the lock while it waits for the other, which must take the lock first.
template <class Take, class Give>
void contend(braid::dsm::Node& node, Take&& take, Give&& give) {
  if (node.local() == 0) take();
  node.barrier();
  if (node.local() == 0) {
    node.barrier();
    give();
  } else {
    take();
    node.barrier();
    give();
  }
}

// Uses that much processor time.
void compute(double seconds) {
  const std::clock_t end = std::clock() + static_cast<std::clock_t>(seconds * CLOCKS_PER_SEC);
  volatile unsigned x = 1;
  while (std::clock() < end)
    for (int i = 0; i < 1000; ++i) x = x * 1664525u + 1013904223u;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const way = argc > 1 ? argv[1] : "";
  const unsigned victim = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 0;
  pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE);
  braid::dsm::init();
  braid::dsm::parallel([&](braid::dsm::Node& node) {
    if (std::strcmp(way, "mutex") == 0) {
      contend(
          node, [] { mutex.lock(); }, [] { mutex.unlock(); });
    } else if (std::strcmp(way, "spinlock") == 0) {
      contend(
          node, [] { pthread_spin_lock(&spinlock); }, [] { pthread_spin_unlock(&spinlock); });
    } else if (std::strcmp(way, "killed") == 0) {
      volatile unsigned x = 1;
      for (int i = 0; i < 1'000'000; ++i) {
        x = x * 1664525u + 1013904223u;
        if (i == 500'000 && node.id() == victim) std::raise(SIGKILL);
      }
    } else if (std::strcmp(way, "end") == 0) {
      if (node.local() == 1) mutex.lock();
    } else if (node.id() == 0) {
      compute(1.5);
    }
  });
  std::printf("done\n");
  const int status = braid::dsm::finish(0);
  if (std::strcmp(way, "end") == 0) mutex.lock();
  return status;
}
