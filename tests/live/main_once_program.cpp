// Programs whose main() runs once: what they are before and after start_clusters(), and the ways in which they end.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dsm/api.h"
#include "dsm/once/early_heap.h"
#include "dsm/once/main_once.h"

namespace {

using namespace braid::dsm;  // NOLINT

// A file's line, of the constructors of this program.
struct Announced {
  Announced() { std::printf("constructed\n"); }
} announced;

int changed_by_main = 1;

int end_together(int status = 0) {
  parallel([](Node& node) { node.barrier(); });
  return finish(status);
}

// Everything that main() did before is in every cluster, once.
int copies() {
  std::printf("main\n");
  std::printf("buffered ");
  changed_by_main = 42;
  std::vector<std::string> allocated(1000, "private memory");
  char line[64] = "nothing\n";
  if (std::fgets(line, sizeof line, stdin) == nullptr) return 1;
  const unsigned cluster = start_clusters();
  init();
  const bool right = changed_by_main == 42 && allocated.size() == 1000 &&
                     allocated[999] == "private memory" && cluster == braid::dsm::cluster();
  const bool has_child = ::wait(nullptr) >= 0 || errno != ECHILD;
  char more[64] = "nothing\n";
  const auto read = [&] {
    if (std::fgets(more, sizeof more, stdin) == nullptr) std::strcpy(more, "nothing\n");
  };
  // All have one position in what main() has read ahead of a pipe: cluster 0 is the first.
  if (cluster == 0) read();
  parallel([](Node&) {});
  if (cluster != 0) read();
  std::printf("cluster %u %s, %s, read %s", cluster, right ? "right" : "WRONG",
              has_child ? "a CHILD" : "no child", more);
  return end_together();
}

// Contents of the heap from before its existence, on pages of every home.
int early_heap() {
  EarlyHeap heap;
  constexpr std::size_t kCount = 100'000;
  auto* const numbers = static_cast<int*>(heap.allocate(kCount * sizeof(int)));
  auto* const small = static_cast<char*>(heap.allocate(6));
  auto* const other = static_cast<char*>(heap.allocate(6));
  for (std::size_t i = 0; i < kCount; ++i) numbers[i] = static_cast<int>(i);
  std::strcpy(small, "small");
  std::strcpy(other, "other");
  start_clusters();
  heap.close();
  init();
  heap.publish();
  int* const later = allocate<int>(10);
  double wrong = 0;
  parallel([&](Node& node) {
    double bad =
        std::strcmp(small, "small") == 0 && std::strcmp(other, "other") == 0 && later[3] == 0 ? 0 : 1;
    // Each node writes and reads what another one writes, so pages have several writers.
    for (std::size_t i = node.id(); i < kCount; i += node.count()) numbers[i] += 1;
    node.barrier();
    for (std::size_t i = 0; i < kCount; ++i) bad += numbers[i] == static_cast<int>(i) + 1 ? 0 : 1;
    const double all = node.reduce(bad);
    if (node.local() == 0) wrong = all;
  });
  if (cluster() == 0) std::printf("early heap %s, %.0f wrong\n", wrong == 0 ? "right" : "WRONG", wrong);
  return finish(0);
}

// Descriptors that main() has replaced stay the program's; those that it has not are the cluster's.
int redirected(const char* file) {
  if (std::freopen(file, "w", stdout) == nullptr) return 1;
  const unsigned cluster = start_clusters();
  init();
  parallel([&](Node& node) {
    for (unsigned turn = 0; turn < node.count(); ++turn, node.barrier()) {
      if (turn != node.id()) continue;
      std::printf("file of cluster %u\n", cluster);
      (void)std::fflush(stdout);
      std::fprintf(stderr, "errors of cluster %u\n", cluster);
    }
  });
  return finish(0);
}

int end_early(std::string_view how) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  if (how == "early-exit") std::exit(3);
  if (how == "early-return") return 0;
  if (how == "early-signal") ::raise(SIGUSR1);
  if (how == "early-thread") {
    std::thread other([] { ::pause(); });
    start_clusters();
  }
  if (how == "twice") {
    start_clusters();
    start_clusters();
  }
  return 9;
}

// After all clusters have joined, in one of them.
int end_late(std::string_view how, unsigned where) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  start_clusters();
  init();
  parallel([&](Node& node) {
    node.barrier();
    if (node.id() == 0 || node.id() == where) {
      std::printf("joined\n");
      (void)std::fflush(stdout);
    }
    if (how == "wait") node.flag_wait(7);
    if (node.id() != where) return;
    if (how == "exit") std::exit(5);
    if (how == "kill") ::kill(::getpid(), SIGKILL);
    if (how == "kill-warden") ::kill(::getppid(), SIGKILL);
  });
  if (how == "status") return finish(cluster() == where ? 6 : 0);
  return end_together();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "copies";
  if (how == "copies") return copies();
  if (how == "early-heap") return early_heap();
  if (how == "redirected") return redirected(argv[2]);
  if (how.starts_with("early-") || how == "twice") return end_early(how);
  return end_late(how, argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 0);
}
