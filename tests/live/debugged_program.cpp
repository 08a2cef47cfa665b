// A program to be debugged: every compute node comes to at_the_point() with a value that it has read from shared memory.
//   crash: then compute node 0 of cluster 1 writes where nothing is   leave: cluster 0 exits there, when cluster 1 is there
//   stay: cluster 1 stays there until somebody sets `released` to 1
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "dsm/api.h"

// gdb finds them from any frame.
int* shared = nullptr;
volatile int released = 0;

namespace {

volatile int reached = 0;

[[gnu::noinline]] void at_the_point(unsigned node) {
  reached = static_cast<int>(node) + 1;
}

}  // namespace

int main(int argc, char** argv) {
  namespace dsm = braid::dsm;
  dsm::init();
  const auto is = [&](const char* mode) { return argc > 1 && std::strcmp(argv[1], mode) == 0; };
  shared = dsm::allocate<int>(4096);
  if (dsm::cluster() == 0) shared[0] = 41;
  int sum = 0;
  dsm::parallel([&](dsm::Node& node) {
    if (node.id() == 0) ++shared[0];
    node.barrier();
    const int seen = shared[0];
    at_the_point(node.id());
    if (is("crash") && dsm::cluster() == 1 && node.local() == 0) *static_cast<volatile int*>(nullptr) = 1;
    if (is("leave") && dsm::cluster() == 0) {
      ::usleep(500'000);
      ::_exit(3);
    }
    while (is("stay") && dsm::cluster() == 1 && released == 0) ::usleep(1000);
    const int all = node.reduce(seen, dsm::Reduce::kSum);
    if (node.local() == 0) sum = all;
  });
  std::printf("cluster %u: %d\n", dsm::cluster(), sum);
  return dsm::finish(0);
}
