// fork() in a program: the child is not part of the machine. Its first access to shared memory and each of its
// calls end it with a message, and the parent's run continues.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "dsm/api.h"
#include "dsm/live/memory.h"
#include "dsm/program/failure.h"
#include "dsm/threads.h"
#include "tests/dsm/live_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

constexpr std::size_t kPages = 8;
constexpr std::size_t kIntsPerPage = kPageBytes / sizeof(int);
constexpr std::size_t kInts = kPages * kIntsPerPage;

class ForkBy : public testing::TestWithParam<Protection> {
 protected:
  void SetUp() override {
    if (const Result<Memory> tried = Memory::make(1, GetParam()); !tried) GTEST_SKIP() << tried.error().text;
  }
  LiveMachine machine() const {
    return {.clusters = 2,
            .compute = 2,
            .protect = GetParam() == Protection::kMprotect ? Environment::Protect::kMprotect
                                                           : Environment::Protect::kUserfaultfd};
  }
};
INSTANTIATE_TEST_SUITE_P(Protections, ForkBy,
                         testing::Values(Protection::kMprotect, Protection::kUserfaultfd),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

// Whether the child died with `message`; otherwise its end is printed on standard error.
bool died_of(const Ending& child, const char* message) {
  if (child.exit_status == kFailureStatus && child.text.find(message) != std::string::npos) return true;
  std::fprintf(stderr, "the child ended with status %d, signal %d, not of '%s': %s\n", child.exit_status,
               child.signal, message, child.text.c_str());
  return false;
}

constexpr const char* kTouched = "a child of fork() accessed shared memory";

// Every compute node writes its share, then reads all. Whether each saw what the others wrote.
bool all_see_all(int* shared, int base) {
  bool right[kMaxComputeNodes] = {};
  parallel([&](Node& node) {
    for (const std::size_t i : node.share(kInts)) shared[i] = base + static_cast<int>(i);
    node.barrier();
    bool same = true;
    for (std::size_t i = 0; i < kInts; ++i) same = same && shared[i] == base + static_cast<int>(i);
    right[node.local()] = same;
  });
  for (unsigned local = 0; local < nodes_per_cluster(); ++local) {
    if (!right[local]) return false;
  }
  return true;
}

TEST_P(ForkBy, AccessInAChildEndsTheChildAndNotTheRun) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    if (!all_see_all(shared, 42)) return 2;
    bool right = true;
    // Pages of which this cluster is the home and pages that it fetched.
    for (const std::size_t i : {std::size_t{0}, kInts - 1}) {
      right =
          died_of(in_a_process([&] { return *static_cast<volatile int*>(shared + i); }), kTouched) && right;
      right = died_of(in_a_process([&] {
                        *static_cast<volatile int*>(shared + i) = 1;
                        return 0;
                      }),
                      kTouched) &&
              right;
    }
    right = all_see_all(shared, 1042) && right;
    return finish(right ? 0 : 1);
  });
}

TEST_P(ForkBy, ChildOfAComputeNodeDiesAtItsAccess) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    bool right = true;
    parallel([&](Node& node) {
      if (node.local() == 1) {
        right =
            died_of(in_a_process([&] { return *static_cast<volatile int*>(shared + kInts - 1); }), kTouched);
      }
      node.barrier();
    });
    right = all_see_all(shared, 7) && right;
    return finish(right ? 0 : 1);
  });
}

TEST_P(ForkBy, CallsOfAChildEndIt) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    bool right = true;
    const auto expect_death = [&](const char* call, const std::function<void()>& body) {
      const Ending child = in_a_process([&] {
        body();
        return 0;
      });
      right = died_of(child, call) && died_of(child, "a child of fork()") && right;
    };
    expect_death("allocate()", [] { (void)allocate<int>(1); });
    expect_death("parallel()", [] { parallel([](Node&) {}); });
    expect_death("barrier()", [] { barrier(); });
    expect_death("finish()", [] { finish(0); });
    expect_death("init()", [] { init(); });
    expect_death("AdoptedThread", [] { const AdoptedThread thread(1); });
    parallel([&](Node& node) {
      node.lock(node.id());
      if (node.local() == 1) {
        expect_death("lock()", [&] { node.lock(100); });
        expect_death("unlock()", [&] { node.unlock(node.id()); });
        expect_death("barrier()", [&] { node.barrier(); });
        expect_death("reduce()", [&] { node.reduce(1); });
        expect_death("Node", [&] { node.flag_set(1); });
        expect_death("Node", [&] { node.fetch_add(1, 1); });
        expect_death("allocate()", [&] { (void)node.allocate<int>(1); });
      }
      node.unlock(node.id());
    });
    right = all_see_all(shared, 7) && right;
    return finish(right ? 0 : 1);
  });
}

// A child that returns from the function would run the runtime's code, and arrive at the barrier in place of its
// parent.
TEST_P(ForkBy, ChildThatReturnsFromTheFunctionOfParallelDies) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    bool right[kMaxComputeNodes] = {};
    parallel([&](Node& node) {
      int errors[2];
      if (::pipe(errors) != 0) return;
      const pid_t child = ::fork();
      if (child == 0) {
        ::dup2(errors[1], STDERR_FILENO);
        ::close(errors[0]);
        ::close(errors[1]);
        ::alarm(20);
        return;
      }
      ::close(errors[1]);
      Ending ending;
      char text[512];
      for (ssize_t n; (n = ::read(errors[0], text, sizeof text)) > 0;)
        ending.text.append(text, static_cast<std::size_t>(n));
      ::close(errors[0]);
      int status = 0;
      ::waitpid(child, &status, 0);
      if (WIFEXITED(status)) ending.exit_status = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) ending.signal = WTERMSIG(status);
      right[node.local()] =
          died_of(ending, "a child of fork() returned from the function given to parallel()");
    });
    const bool same = all_see_all(shared, 7);
    return finish(right[0] && right[1] && same ? 0 : 1);
  });
}

TEST_P(ForkBy, ChildThatDoesNotAccessSharedMemoryWorks) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    const Ending child = in_a_process([] { return clusters() == 2 && nodes_per_cluster() == 2 ? 5 : 6; });
    const bool same = all_see_all(shared, 7);
    return finish(child.exit_status == 5 && same ? 0 : 1);
  });
}

TEST_P(ForkBy, NewProgramsRun) {
  expect_runs(machine(), [] {
    auto* const shared = allocate<int>(kInts);
    if (!all_see_all(shared, 42)) return 2;
    const int by_system = std::system("exit 7");  // NOLINT
    const Ending by_exec = in_a_process([] {
      ::execl("/bin/sh", "sh", "-c", "exit 8", static_cast<char*>(nullptr));
      return 1;
    });
    pid_t spawned = -1;
    char shell[] = "sh", option[] = "-c", command[] = "exit 9";
    char* const words[] = {shell, option, command, nullptr};
    int by_spawn = 0;
    if (::posix_spawn(&spawned, "/bin/sh", nullptr, nullptr, words, ::environ) != 0) return 3;
    ::waitpid(spawned, &by_spawn, 0);
    const bool right = WEXITSTATUS(by_system) == 7 && by_exec.exit_status == 8 && WEXITSTATUS(by_spawn) == 9;
    const bool same = all_see_all(shared, 1042);
    return finish(right && same ? 0 : 1);
  });
}

// SIGQUIT makes a program report what its compute nodes wait for; a child has none.
TEST_P(ForkBy, ChildDiesOfSigquit) {
  expect_runs(machine(), [] {
    const Ending child = in_a_process([] {
      ::raise(SIGQUIT);
      return 0;
    });
    return finish(child.signal == SIGQUIT ? 0 : 1);
  });
}

}  // namespace
}  // namespace braid::dsm
