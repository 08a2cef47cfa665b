// The runtime handles only faults in the shared heap: any other crash remains a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "dsm/api.h"
#include "dsm/live/memory.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_machine.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

// An unmapped address; hidden from the compiler, which would warn.
volatile int* at(std::uintptr_t address) {
  asm volatile("" : "+r"(address));
  return reinterpret_cast<volatile int*>(address);  // NOLINT
}

const LiveMachine kAlone{.clusters = 1};

Ending alone(const std::function<int()>& program) {
  return run_machine(kAlone, program).front();
}

TEST(Faults, CrashOutsideTheHeapIsPassedOn) {
  const Ending null = alone([] { return *at(8); });
  EXPECT_TRUE(crashed(null)) << null.exit_status << null.text;

  // A mapping that forbids the access, like the heap's, but outside the heap.
  const Ending foreign = alone([] {
    void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return *static_cast<volatile int*>(page);
  });
  EXPECT_TRUE(crashed(foreign)) << foreign.exit_status << foreign.text;
}

TEST(Faults, CrashOnAComputeNodesThreadIsPassedOn) {
  const Ending ending = run_machine({.clusters = 1, .compute = 2}, [] {
                          parallel([](Node& node) {
                            if (node.local() == 1) *at(8) = 1;
                          });
                          return finish(0);
                        }).front();
  EXPECT_TRUE(crashed(ending)) << ending.exit_status << ending.text;
}

void say_and_leave(int, siginfo_t* info, void*) {
  char text[64];
  const int n = std::snprintf(text, sizeof text, "earlier handler: %p", info->si_addr);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, static_cast<std::size_t>(n));
  ::_exit(33);
}

TEST(Faults, CrashReachesThePreviousHandlerWithItsAddress) {
  const Ending ending = run_machine({.clusters = 1,
                                     .adjust =
                                         [](Environment&) {
                                           struct sigaction action = {};
                                           action.sa_sigaction = say_and_leave;
                                           action.sa_flags = SA_SIGINFO;
                                           ::sigaction(SIGSEGV, &action, nullptr);
                                         }},
                                    [] { return *at(0xdead0); })
                            .front();
  EXPECT_EQ(ending.exit_status, 33) << ending.text;
  EXPECT_THAT(ending.text, HasSubstr("earlier handler: 0xdead0"));
}

TEST(Faults, SignalFromAnotherProcessEndsTheProgram) {
  const Ending ending = alone([] {
    ::raise(SIGSEGV);
    return 0;
  });
  EXPECT_TRUE(crashed(ending)) << ending.exit_status << ending.text;
}

TEST(Faults, AccessByAForeignThreadIsExplained) {
  // A page that this cluster is not home to by an allocation, so it is closed until a compute node opens it.
  const Ending beyond = alone([] {
    std::thread([] { *static_cast<volatile int*>(application_address(PageId(100))) = 1; }).join();
    return 0;
  });
  EXPECT_TRUE(crashed(beyond)) << beyond.exit_status;
  EXPECT_THAT(beyond.text, HasSubstr("a thread that is not a compute node accessed shared memory"));
}

TEST(Faults, PreserveErrno) {
  expect_runs({.clusters = 2}, [] {
    auto* const shared = allocate<int>(1024, Placement::on(1));
    errno = 77;
    const int value = *static_cast<volatile int*>(shared);
    const int kept = errno;
    return finish(kept == 77 && value == 0 ? 0 : 1);
  });
}

TEST(Faults, WorkInsideLocksOfTheCLibrary) {
  // A page that is elsewhere is read while printf holds its stream, and copied while another is written.
  expect_runs({.clusters = 2}, [] {
    auto* const text = allocate<char>(8192, Placement::on(1));
    if (cluster() == 1)
      std::strcpy(text + 4000,
                  "over the edge of a page: ......................................"
                  "...................................................... end");
    parallel([](Node&) {});
    std::FILE* const out = std::tmpfile();
    std::fprintf(out, "%s", text + 4000);
    std::rewind(out);
    char read[256] = {};
    const bool same = std::fgets(read, sizeof read, out) != nullptr && std::strcmp(read, text + 4000) == 0;
    std::fclose(out);
    return finish(same && std::strlen(read) > 96 ? 0 : 1);
  });
}

}  // namespace
}  // namespace braid::dsm
