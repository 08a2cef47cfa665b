// The cases that a watchdog must distinguish: nodes that wait for each other for ever, one that computes for long while
// all others wait for it, and two that poll each other's plain variable, which neither ever sees.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "dsm/api.h"

namespace {
int look(const volatile int* flag) {
  return *flag;
}
[[gnu::noinline]] void poll_for(const int* flag) {
  while (*flag == 0) asm volatile("" ::: "memory");
}
}  // namespace

int main(int argc, char** argv) {
  using namespace braid::dsm;  // NOLINT
  init();
  const bool deadlocks = argc > 1 && std::strcmp(argv[1], "deadlock") == 0;
  const bool meets = argc > 1 && std::strcmp(argv[1], "barriers") == 0;
  const bool polls = argc > 1 && std::strcmp(argv[1], "poll") == 0;
  constexpr std::size_t kApart = 8192;
  int* const flags = allocate<int>(2 * kApart);
  parallel([&](Node& node) {
    // For three seconds, whichever process is stopped meanwhile.
    for (int i = 0; meets && i < 3000; ++i) {
      node.barrier(3);
      if (node.id() == 0) ::usleep(1000);
    }
    if (polls && node.local() == 0 && node.id() / nodes_per_cluster() < 2) {
      const bool is_first = node.id() == 0;
      (void)look(&flags[0]), (void)look(&flags[kApart]);  // it has copies of both
      node.flag_set(is_first);
      node.flag_wait(!is_first);
      flags[is_first ? 0 : kApart] = 1;
      poll_for(&flags[is_first ? kApart : 0]);
    }
    if (deadlocks) {
      // The first two nodes take two locks in opposite orders, all others wait for them.
      if (node.id() < 2) {
        node.lock(4 + node.id());
        node.flag_set(node.id());
        node.flag_wait(1 - node.id());
        node.lock(5 - node.id());
      }
    } else if (!polls && node.id() == 0) {
      const double until = seconds() + 3;
      while (seconds() < until) continue;
    }
    node.barrier(3);
  });
  std::printf("through\n");
  return finish(0);
}
