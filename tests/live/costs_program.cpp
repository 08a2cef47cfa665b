// Waits for one thing more than for any other; the first argument says which.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dsm/api.h"

namespace {

using namespace braid::dsm;  // NOLINT

constexpr int kRounds = 300;

// Of a page. The frame stays: the call is not the last thing that the function does.
[[gnu::noinline]] long* make_halves() {
  long* const page = allocate<long>(512);
  asm volatile("" ::: "memory");
  return page;
}

// Each cluster writes its own part of one page.
void write_halves(Node& node, long* page) {
  long* const own = page + node.id() * (512 / node.count());
  for (int i = 0; i < kRounds; ++i) {
    ++*own;
    node.barrier();
  }
}

// All write the same place, under a lock.
void count_together(Node& node, long* page) {
  for (int i = 0; i < kRounds; ++i) {
    node.lock(5);
    ++*page;
    node.unlock(5);
    node.barrier();
  }
}

// Holds a lock for long while the others want it: lock 9, or the one at an address.
void hold_a_lock(Node& node, const void* address) {
  for (int i = 0; i < 20; ++i) {
    address == nullptr ? node.lock(9) : node.lock_at(address);
    const double until = seconds() + 0.01;
    while (seconds() < until) continue;
    address == nullptr ? node.unlock(9) : node.unlock_at(address);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  init();
  long* const quiet = allocate<long>(512);
  long* const page = make_halves();
  parallel([&](Node& node) {
    if (node.id() == 0) *quiet = 1;
    if (std::strcmp(what, "halves") == 0) write_halves(node, page);
    if (std::strcmp(what, "together") == 0) count_together(node, page);
    if (std::strcmp(what, "reset") == 0) {
      write_halves(node, page);
      node.reset_figures();
    }
    if (std::strcmp(what, "lock") == 0) hold_a_lock(node, nullptr);
    if (std::strcmp(what, "lock_at") == 0) hold_a_lock(node, page + 8);
    if (std::strcmp(what, "alone") == 0 && node.id() == node.count() - 1) {
      long* const own = allocate<long>(512, Placement::on(0));
      for (int i = 0; i < kRounds; ++i) own[i] = i;
    }
  });
  const long expected =
      std::strcmp(what, "together") == 0 ? long{kRounds} * clusters() * nodes_per_cluster() : 0;
  if (expected != 0 && *page != expected) std::printf("WRONG\n");
  std::printf("verified\n");
  return finish(0);
}
