// On which processors compute nodes run, and the threads and processes that come from them.
#include "dsm/live/node_processors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "base/processors.h"
#include "dsm/api.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

using Numbers = std::vector<unsigned>;

// Two that this process may use, or one of them twice.
Numbers two_processors() {
  const Numbers all = processors_of_this_thread();
  return {all.front(), all.back()};
}
LiveMachine machine_on(const Numbers& processors) {
  return {.clusters = 1, .compute = 2, .adjust = [=](Environment& e) { e.processors = processors; }};
}

// Statuses of programs: which expectation was wrong.
#define REQUIRE(status, condition) \
  if (!(condition)) return status

TEST(NodeProcessors, ComputeNodesRunOnTheirsInsideParallelOnly) {
  const Numbers theirs = two_processors();
  const Numbers whole = processors_of_this_thread();
  expect_runs(machine_on(theirs), [=] {
    Numbers of_node[2];
    for (int round = 0; round < 2; ++round) {
      parallel([&](Node& node) { of_node[node.local()] = processors_of_this_thread(); });
      for (unsigned local = 0; local < 2; ++local) REQUIRE(2, of_node[local] == Numbers{theirs[local]});
      REQUIRE(3, processors_of_this_thread() == whole);
    }
    return 0;
  });
}

TEST(NodeProcessors, ThreadsThatAComputeNodeCreatesRunAnywhere) {
  const Numbers theirs = two_processors();
  const Numbers whole = processors_of_this_thread();
  expect_runs(machine_on(theirs), [=] {
    Numbers of_thread[2];
    parallel([&](Node& node) {
      std::thread([&, local = node.local()] { of_thread[local] = processors_of_this_thread(); }).join();
    });
    REQUIRE(2, of_thread[0] == whole && of_thread[1] == whole);
    // Unless they are told where to run.
    bool is_obeyed = false;
    parallel([&](Node& node) {
      if (node.local() != 0) return;
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(whole.back(), &set);
      pthread_attr_t attributes;
      ::pthread_attr_init(&attributes);
      ::pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
      pthread_t thread{};
      Numbers there;
      const auto look = [](void* numbers) -> void* {
        *static_cast<Numbers*>(numbers) = processors_of_this_thread();
        return nullptr;
      };
      if (::pthread_create(&thread, &attributes, look, &there) != 0) return;
      ::pthread_join(thread, nullptr);
      ::pthread_attr_destroy(&attributes);
      is_obeyed = there == Numbers{whole.back()};
    });
    REQUIRE(3, is_obeyed);
    return 0;
  });
}

TEST(NodeProcessors, AForkedChildRunsAnywhere) {
  const Numbers whole = processors_of_this_thread();
  expect_runs(machine_on(two_processors()), [=] {
    int status = -1;
    parallel([&](Node& node) {
      if (node.local() != 0) return;
      const pid_t child = ::fork();
      if (child == 0) ::_exit(processors_of_this_thread() == whole ? 0 : 9);
      ::waitpid(child, &status, 0);
    });
    REQUIRE(2, WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
  });
}

TEST(NodeProcessors, ARefusedProcessorIsToldOnceAndRunsGoOn) {
  const Numbers whole = processors_of_this_thread();
  const unsigned none = kMaxProcessors - 1;
  ASSERT_LT(whole.back(), none);
  const std::vector<Ending> endings = run_machine(machine_on({none, none}), [=] {
    Numbers of_node[2];
    for (int round = 0; round < 2; ++round)
      parallel([&](Node& node) { of_node[node.local()] = processors_of_this_thread(); });
    REQUIRE(2, of_node[0] == whole && of_node[1] == whole);
    return 0;
  });
  ASSERT_EQ(endings.size(), 1u);
  EXPECT_EQ(endings[0].exit_status, 0);
  EXPECT_THAT(endings[0].text, HasSubstr("is refused processor 1023: Invalid argument"));
  EXPECT_EQ(endings[0].text.find("is refused"), endings[0].text.rfind("is refused")) << endings[0].text;
}

TEST(NodeProcessors, ComputeNodesBeyondTheListRunAnywhere) {
  const Numbers whole = processors_of_this_thread();
  expect_runs(machine_on({whole.front()}), [=] {
    Numbers of_node[2];
    parallel([&](Node& node) { of_node[node.local()] = processors_of_this_thread(); });
    REQUIRE(2, of_node[0] == Numbers{whole.front()});
    REQUIRE(3, of_node[1] == whole);
    return 0;
  });
}

}  // namespace
}  // namespace braid::dsm
