// A program's own handlers of SIGSEGV and SIGBUS, its signal masks and its signal stacks, beside the runtime's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "dsm/api.h"
#include "dsm/live/memory.h"
#include "dsm/program/failure.h"
#include "tests/dsm/live_machine.h"
#include "tests/dsm/page_bytes.h"

namespace braid::dsm {
namespace {

using testing::HasSubstr;

class SignalsBy : public testing::TestWithParam<Protection> {
 protected:
  void SetUp() override {
    if (const Result<Memory> tried = Memory::make(1, GetParam()); !tried) GTEST_SKIP() << tried.error().text;
  }
  // `before` runs before the program joins.
  LiveMachine machine(std::function<void()> before = [] {}) const {
    return {.clusters = 2,
            .compute = 2,
            .protect = GetParam() == Protection::kMprotect ? Environment::Protect::kMprotect
                                                           : Environment::Protect::kUserfaultfd,
            .adjust = [before](Environment&) { before(); }};
  }
};
INSTANTIATE_TEST_SUITE_P(Protections, SignalsBy,
                         testing::Values(Protection::kMprotect, Protection::kUserfaultfd),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

volatile int* at(std::uintptr_t address) {
  asm volatile("" : "+r"(address));
  return reinterpret_cast<volatile int*>(address);  // NOLINT
}

// Whether every compute node of the machine sees what all wrote.
bool shares_memory() {
  constexpr std::size_t kInts = 4 * kPageBytes / sizeof(int);
  static int* const shared = allocate<int>(kInts);
  static int base = 0;
  base += 1000;
  bool right[kMaxComputeNodes] = {};
  parallel([&](Node& node) {
    for (const std::size_t i : node.share(kInts)) shared[i] = base + static_cast<int>(i);
    node.barrier();
    bool same = true;
    for (std::size_t i = 0; i < kInts; ++i) same = same && shared[i] == base + static_cast<int>(i);
    right[node.local()] = same;
  });
  return right[0] && right[1];
}

std::atomic<int> calls{0};
std::atomic<void*> fault_address{nullptr};
thread_local sigjmp_buf recovery;

void recover(int, siginfo_t* info, void*) {
  ++calls;
  fault_address = info->si_addr;
  siglongjmp(recovery, 1);
}
void recover_without_information(int) {
  ++calls;
  siglongjmp(recovery, 1);
}

struct sigaction recovering(int flags = 0) {
  struct sigaction action = {};
  action.sa_sigaction = recover;
  action.sa_flags = SA_SIGINFO | flags;
  return action;
}
void install_recovery() {
  const struct sigaction action = recovering();
  for (const int signal_number : {SIGSEGV, SIGBUS}) ::sigaction(signal_number, &action, nullptr);
}
// Whether a null access called the program's handler, once, with its address.
bool null_access_is_recovered() {
  const int before = calls;
  if (sigsetjmp(recovery, 1) == 0) {
    *at(8) = 1;
    return false;
  }
  return calls == before + 1 && (fault_address == nullptr || fault_address == const_cast<int*>(at(8)));
}
bool recovered_on_every_node() {
  bool right[kMaxComputeNodes] = {};
  parallel([&](Node& node) {
    // One after the other, because the handler counts.
    for (unsigned local = 0; local < nodes_per_cluster(); ++local) {
      if (node.local() == local) right[local] = null_access_is_recovered() && null_access_is_recovered();
      node.barrier();
    }
  });
  return right[0] && right[1];
}
int verify_all() {
  const bool right =
      shares_memory() && null_access_is_recovered() && recovered_on_every_node() && shares_memory();
  return finish(right ? 0 : 1);
}

TEST_P(SignalsBy, HandlerInstalledBeforeInitGetsTheProgramsFaults) {
  expect_runs(machine(install_recovery), verify_all);
}

TEST_P(SignalsBy, HandlerInstalledAfterInitGetsOnlyTheProgramsFaults) {
  expect_runs(machine(), [] {
    install_recovery();
    return verify_all();
  });
}

// Sanitizers have handlers of their own.
void (*handler_of(int signal_number))(int) {
  struct sigaction action = {};
  ::sigaction(signal_number, nullptr, &action);
  return action.sa_handler;
}
void (*before_init)(int) = nullptr;

TEST_P(SignalsBy, HandlerInstalledBySignalGetsTheProgramsFaults) {
  expect_runs(machine([] { before_init = handler_of(SIGSEGV); }), [] {
    if (::signal(SIGSEGV, SIG_DFL) != before_init) return 4;
    for (const int signal_number : {SIGSEGV, SIGBUS}) {
      if (::signal(signal_number, recover_without_information) == SIG_ERR) return 2;
      if (::signal(signal_number, recover_without_information) != recover_without_information) return 3;
    }
    return verify_all();
  });
}

TEST_P(SignalsBy, HandlerInstalledInsideParallelGetsTheProgramsFaults) {
  expect_runs(machine(), [] {
    if (!shares_memory()) return 2;
    parallel([](Node& node) {
      if (node.local() == 1) install_recovery();
    });
    return verify_all();
  });
}

TEST_P(SignalsBy, ProgramReadsBackWhatItInstalled) {
  expect_runs(machine([] { before_init = handler_of(SIGSEGV); }), [] {
    if (handler_of(SIGSEGV) != before_init) return 2;
    for (const int signal_number : {SIGSEGV, SIGBUS}) {
      struct sigaction read = {};
      struct sigaction action = recovering(SA_ONSTACK);
      ::sigaddset(&action.sa_mask, SIGUSR1);
      if (::sigaction(signal_number, &action, nullptr) != 0) return 3;
      if (::sigaction(signal_number, nullptr, &read) != 0 || read.sa_sigaction != recover) return 4;
      if ((read.sa_flags & (SA_SIGINFO | SA_ONSTACK | SA_NODEFER)) != (SA_SIGINFO | SA_ONSTACK)) return 5;
      if (::sigismember(&read.sa_mask, SIGUSR1) != 1) return 6;
    }
    return finish(0);
  });
}

TEST_P(SignalsBy, HandlerStaysAfterFinish) {
  expect_runs(machine(), [] {
    install_recovery();
    const int status = finish(shares_memory() ? 0 : 1);
    struct sigaction read = {};
    ::sigaction(SIGSEGV, nullptr, &read);
    return status == 0 && read.sa_sigaction == recover && null_access_is_recovered() ? 0 : 2;
  });
}

void expect_blocked_and_leave(int) {
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  ::_exit(::sigismember(&blocked, SIGUSR1) == 1 ? 33 : 34);
}

TEST_P(SignalsBy, HandlerRunsWithItsSignalsBlocked) {
  const std::vector<Ending> endings = run_machine(machine(), [] {
    struct sigaction action = {};
    action.sa_handler = expect_blocked_and_leave;
    ::sigaddset(&action.sa_mask, SIGUSR1);
    ::sigaction(SIGSEGV, &action, nullptr);
    *at(8) = 1;
    return 0;
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.exit_status, 33) << ending.text;
}

void count_and_return(int) {
  ++calls;
}

TEST_P(SignalsBy, HandlerWithResethandIsCalledOnce) {
  const std::vector<Ending> endings = run_machine(machine(), [] {
    struct sigaction action = {};
    action.sa_handler = [](int) {
      static constexpr char kText[] = "called\n";
      [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof kText - 1);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(SIGSEGV, &action, nullptr);
    *at(8) = 1;
    return 0;
  });
  for (const Ending& ending : endings) {
    EXPECT_TRUE(crashed(ending)) << ending.exit_status << ending.text;
    EXPECT_EQ(ending.text.rfind("called\n", 0), 0u) << ending.text;
    EXPECT_EQ(ending.text.find("called\n", 1), std::string::npos) << ending.text;
  }
}

TEST_P(SignalsBy, CrashInsideTheProgramsHandlerEndsTheProgram) {
  const std::vector<Ending> endings = run_machine(machine(), [] {
    ::signal(SIGSEGV, [](int) {
      static constexpr char kText[] = "called\n";
      [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, kText, sizeof kText - 1);
      *at(16) = 1;
    });
    *at(8) = 1;
    return 0;
  });
  for (const Ending& ending : endings) {
    EXPECT_TRUE(crashed(ending)) << ending.exit_status << ending.text;
    EXPECT_EQ(ending.text.find("called\n", 1), std::string::npos) << ending.text;
  }
}

// --- Signal stacks

// The kernel puts a signal frame at the end of this memory, which has no other use.
bool with_small_signal_stack(const std::function<bool()>& body) {
  std::vector<std::byte> memory(64u << 10, std::byte{0x5a});
  stack_t mine = {}, before = {}, read = {};
  mine.ss_sp = memory.data() + (32u << 10);
  mine.ss_size = MINSIGSTKSZ;
  if (::sigaltstack(&mine, &before) != 0) return false;
  const bool kept =
      ::sigaltstack(nullptr, &read) == 0 && read.ss_sp == mine.ss_sp && read.ss_size == mine.ss_size;
  const bool right = body();
  return ::sigaltstack(&before, nullptr) == 0 && kept && right;
}

TEST_P(SignalsBy, SignalStackOfTheProgramDoesNotReplaceTheRuntimes) {
  expect_runs(machine(), [] {
    const struct sigaction action = recovering(SA_ONSTACK);
    for (const int signal_number : {SIGSEGV, SIGBUS}) ::sigaction(signal_number, &action, nullptr);
    bool right = with_small_signal_stack([] { return shares_memory() && null_access_is_recovered(); });
    bool on_node = false;
    auto* const shared = allocate<int>(4096);
    parallel([&](Node& node) {
      if (node.local() != 1) return;
      on_node = with_small_signal_stack([&] {
        shared[1024 * node.id()] = 3;
        return null_access_is_recovered() && shared[1024 * node.id()] == 3;
      });
    });
    return finish(right && on_node && shares_memory() ? 0 : 1);
  });
}

TEST_P(SignalsBy, SignalStackInstalledBeforeInitComesBackAfterFinish) {
  static std::byte memory[64u << 10];
  expect_runs(machine([] {
                stack_t mine = {};
                mine.ss_sp = memory;
                mine.ss_size = sizeof memory;
                ::sigaltstack(&mine, nullptr);
              }),
              [] {
                stack_t read = {};
                if (::sigaltstack(nullptr, &read) != 0 || read.ss_sp != memory) return 2;
                const bool right = shares_memory();
                finish(0);
                return right && ::sigaltstack(nullptr, &read) == 0 && read.ss_sp == memory ? 0 : 1;
              });
}

TEST_P(SignalsBy, WrongSignalStacksAreRefusedAsByTheKernel) {
  expect_runs(machine(), [] {
    static std::byte memory[64u << 10];
    stack_t wrong = {};
    wrong.ss_sp = memory;
    wrong.ss_size = 100;
    if (::sigaltstack(&wrong, nullptr) != -1 || errno != ENOMEM) return 2;
    wrong.ss_size = sizeof memory;
    wrong.ss_flags = 0x100;
    if (::sigaltstack(&wrong, nullptr) != -1 || errno != EINVAL) return 3;
    return finish(0);
  });
}

// --- Signal masks

TEST_P(SignalsBy, HeapIsUsableWhereTheProgramBlocksAllSignals) {
  const auto block_all = [] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  };
  const auto verify = [] { return finish(shares_memory() ? 0 : 1); };
  expect_runs(machine(block_all), verify);
  expect_runs(machine(), [=] {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    bool others = false;
    parallel([&](Node& node) {
      block_all();
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      if (node.local() == 1) others = ::sigismember(&blocked, SIGUSR1) == 1;
    });
    return others ? verify() : 2;
  });
}

// --- A replacement that the runtime cannot see

TEST_P(SignalsBy, HandlerReplacedByASystemCallIsNamedAtTheNextParallel) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer tells what sigaction() has set, not what is in effect";
#endif
  const std::vector<Ending> endings = run_machine(machine(), [] {
    struct {
      void (*handler)(int);
      unsigned long flags;
      void (*restorer)();
      unsigned long mask;
    } const action = {count_and_return, 0, nullptr, 0};
    ::syscall(SYS_rt_sigaction, SIGSEGV, &action, nullptr, sizeof action.mask);
    parallel([](Node&) {});
    return 0;
  });
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.exit_status, kFailureStatus) << ending.text;
    EXPECT_THAT(ending.text, HasSubstr("handler of SIGSEGV was replaced"));
  }
}

}  // namespace
}  // namespace braid::dsm
