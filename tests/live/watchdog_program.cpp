// The two cases that a watchdog must distinguish: nodes that wait for each other for ever, and one that
// computes for long while all others wait for it.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "dsm/api.h"

int main(int argc, char** argv) {
  using namespace braid::dsm;  // NOLINT
  init();
  const bool deadlocks = argc > 1 && std::strcmp(argv[1], "deadlock") == 0;
  const bool meets = argc > 1 && std::strcmp(argv[1], "barriers") == 0;
  parallel([&](Node& node) {
    // For three seconds, whichever process is stopped meanwhile.
    for (int i = 0; meets && i < 3000; ++i) {
      node.barrier(3);
      if (node.id() == 0) ::usleep(1000);
    }
    if (deadlocks) {
      // The first two nodes take two locks in opposite orders, all others wait for them.
      if (node.id() < 2) {
        node.lock(4 + node.id());
        node.flag_set(node.id());
        node.flag_wait(1 - node.id());
        node.lock(5 - node.id());
      }
    } else if (node.id() == 0) {
      const double until = seconds() + 3;
      while (seconds() < until) continue;
    }
    node.barrier(3);
  });
  std::printf("through\n");
  return finish(0);
}
