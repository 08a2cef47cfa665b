// A turn that takes long, and when it is taken for one that never ends.
#include "sim/stuck_turn.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/clock.h"

namespace braid::sim {
namespace {

using State = Activity::State;
using Cause = StuckTurn::Cause;

Instant at(int seconds) {
  return Instant() + Duration::s(seconds);
}
Activity activity(State state, int used_s) {
  return {state, Duration::s(used_s)};
}

TEST(StuckTurn, NothingIsCheckedBeforeTheLimit) {
  const StuckTurn turn(at(100), activity(State::kRuns, 7), Duration::s(10));
  EXPECT_FALSE(turn.is_due(at(109)));
  EXPECT_TRUE(turn.is_due(at(110)));
}

TEST(StuckTurn, BlockedIsStuckWhetherChargesAreCountedOrNot) {
  for (const bool counted : {true, false}) {
    StuckTurn turn(at(0), activity(State::kRuns, 7), Duration::s(10));
    EXPECT_EQ(turn.check(at(10), activity(State::kBlocked, 8), counted), Cause::kBlocked);
  }
}

TEST(StuckTurn, BlockedWhileOtherThreadsWorkIsNotStuck) {
  StuckTurn turn(at(0), activity(State::kRuns, 0), Duration::s(10));
  EXPECT_EQ(turn.check(at(10), activity(State::kBlocked, 9), true), Cause::kNone);
  EXPECT_FALSE(turn.is_due(at(19)));
  EXPECT_EQ(turn.check(at(20), activity(State::kBlocked, 9), true), Cause::kBlocked);
}

TEST(StuckTurn, ComputingIsStuckIfChargesWouldHaveEndedIt) {
  StuckTurn turn(at(0), activity(State::kRuns, 7), Duration::s(10));
  // On a busy machine a turn takes long and uses little.
  EXPECT_EQ(turn.check(at(50), activity(State::kRuns, 16), true), Cause::kNone);
  EXPECT_EQ(turn.check(at(51), activity(State::kRuns, 17), false), Cause::kNone);
  EXPECT_EQ(turn.check(at(51), activity(State::kRuns, 17), true), Cause::kSpinning);
}

TEST(StuckTurn, WaitingForInputIsNotStuck) {
  StuckTurn turn(at(0), activity(State::kRuns, 0), Duration::s(10));
  EXPECT_EQ(turn.check(at(1000), activity(State::kWaits, 0), true), Cause::kNone);
}

TEST(StuckTurn, TimeInADebuggerDoesNotCount) {
  StuckTurn turn(at(0), activity(State::kRuns, 0), Duration::s(10));
  EXPECT_EQ(turn.check(at(30), activity(State::kStopped, 20), true), Cause::kNone);
  EXPECT_FALSE(turn.is_due(at(39)));
  EXPECT_EQ(turn.check(at(40), activity(State::kRuns, 29), true), Cause::kNone);
  EXPECT_EQ(turn.check(at(41), activity(State::kBlocked, 24), true), Cause::kBlocked);
}

// A child that does this, until it is killed.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    body();
    ::_exit(0);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  // The process needs a moment to reach its state.
  bool comes_to(State state) const {
    const Instant deadline = monotonic_now() + Duration::s(5);
    while (monotonic_now() < deadline) {
      if (read_activity(pid_).state == state) return true;
      ::usleep(1000);
    }
    return false;
  }

 private:
  pid_t pid_;
};

void wait_for_a_futex() {
  static int word = 0;
  for (;;) ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
}

TEST(Activity, ActivityOfAProcessIsRead) {
  EXPECT_TRUE(Child(wait_for_a_futex).comes_to(State::kBlocked));
  EXPECT_TRUE(Child([] { ::pause(); }).comes_to(State::kWaits));
  EXPECT_TRUE(Child([] { ::raise(SIGSTOP); }).comes_to(State::kStopped));
  static volatile bool never = false;
  const Child spins([] {
    while (!never) {
    }
  });
  EXPECT_TRUE(spins.comes_to(State::kRuns));
  const Instant deadline = monotonic_now() + Duration::s(10);
  while (read_activity(spins.pid()).processor_time < Duration::ms(30) && monotonic_now() < deadline)
    ::usleep(1000);
  const Duration used = read_activity(spins.pid()).processor_time;
  EXPECT_GE(used, Duration::ms(30));
  EXPECT_LT(used, Duration::s(10));
}

TEST(Activity, TracedProcessIsStopped) {
  const Child child([] {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGUSR1);  // the tracer is told, and lets it go on
    wait_for_a_futex();
  });
  ASSERT_EQ(::waitpid(child.pid(), nullptr, 0), child.pid());
  ::ptrace(PTRACE_CONT, child.pid(), nullptr, 0);
  EXPECT_TRUE(child.comes_to(State::kStopped));
  ::usleep(20'000);  // in the futex by now
  EXPECT_EQ(read_activity(child.pid()).state, State::kStopped);
}

TEST(Activity, MissingProcessHasNoActivity) {
  const Activity none = read_activity(-1);
  EXPECT_EQ(none.state, State::kWaits);
  EXPECT_EQ(none.processor_time, Duration());
}

}  // namespace
}  // namespace braid::sim
