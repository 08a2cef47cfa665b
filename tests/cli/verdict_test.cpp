// The choice of the death that a run's failure is attributed to, and the run's exit status.
#include "tools/braid/run/verdict.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tools/braid/command_line/subcommand.h"

namespace braid::cli {
namespace {

// In the encoding of waitpid(2).
constexpr int exited(int status) {
  return status << 8;
}
constexpr int killed(int signal) {
  return signal;
}

using Cause = Verdict::Cause;

TEST(Verdict, RunWhoseApplicationsSucceedHasStatus0) {
  Verdict v;
  EXPECT_FALSE(v.on_application_end("a", exited(0), false));
  EXPECT_FALSE(v.on_daemon_end("d", exited(0), true, Phase::kClosing));
  EXPECT_FALSE(v.failed());
  EXPECT_EQ(v.status(), 0);
  EXPECT_EQ(v.reason(), "");
}

TEST(Verdict, StatusOfTheFirstCauseIsTheStatusOfTheRun) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", exited(3), false));
  EXPECT_FALSE(v.on_application_end("b", exited(7), false)) << "it fails already";
  EXPECT_FALSE(v.on_application_end("c", exited(5), false));
  EXPECT_EQ(v.status(), 3);
  EXPECT_EQ(v.reason(), "a exited with status 3") << "the first of a kind";
}

TEST(Verdict, DeathBySignalHasStatus128PlusSignal) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", killed(SIGSEGV), false));
  EXPECT_EQ(v.status(), 128 + SIGSEGV);
  EXPECT_EQ(v.reason(), "a was killed by signal 11 (Segmentation fault)");
}

TEST(Verdict, KillIsReportedWithItsReason) {
  Verdict daemon, application;
  EXPECT_TRUE(daemon.on_daemon_end("d", killed(SIGKILL), false, Phase::kRunning, "no memory"));
  EXPECT_EQ(daemon.reason(), "d was killed by signal 9 (Killed): no memory");
  RecordedEnd end;
  end.text = "no memory";
  EXPECT_TRUE(application.on_application_end("a", killed(SIGKILL), false, end));
  EXPECT_EQ(application.reason(), "a was killed by signal 9 (Killed): no memory");
}

TEST(Verdict, LostDaemonIsTheCauseOfAnApplicationThatGaveUp) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", exited(kLostDaemonStatus), false));
  EXPECT_FALSE(v.on_daemon_end("d", exited(1), false, Phase::kRunning));
  EXPECT_EQ(v.reason(), "d exited with status 1");
  EXPECT_EQ(v.status(), kLostDaemonStatus);
}

TEST(Verdict, IncompleteCaptureIsTheStatusOfARunThatIsOtherwiseGood) {
  Verdict v;
  EXPECT_FALSE(v.on_application_end("a", exited(0), false));
  EXPECT_TRUE(v.on_daemon_end("d", exited(kCannotCreateStatus), true, Phase::kClosing));
  EXPECT_EQ(v.status(), kCannotCreateStatus);
  EXPECT_EQ(v.reason(),
            "a capture or the key log is incomplete: d could not write a file, see its messages above");
}

TEST(Verdict, IncompleteCaptureHidesNoOtherFailure) {
  Verdict v;
  EXPECT_TRUE(v.on_daemon_end("d", exited(kCannotCreateStatus), true, Phase::kClosing));
  EXPECT_FALSE(v.on_daemon_end("e", exited(1), true, Phase::kClosing));
  EXPECT_EQ(v.status(), kLostDaemonStatus);
  EXPECT_EQ(v.reason(), "e exited with status 1 when it was asked to end");
  Verdict failed;
  EXPECT_TRUE(failed.on_application_end("a", exited(3), false));
  EXPECT_FALSE(failed.on_daemon_end("d", exited(kCannotCreateStatus), true, Phase::kClosing));
  EXPECT_EQ(failed.status(), 3);
  EXPECT_EQ(failed.reason(), "a exited with status 3");
}

TEST(Verdict, KilledProcessIsTheCauseOfAllExits) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", exited(kLostDaemonStatus), false));
  EXPECT_FALSE(v.on_application_end("b", exited(1), false));
  EXPECT_FALSE(v.on_daemon_end("d", exited(1), false, Phase::kRunning));
  EXPECT_FALSE(v.on_application_end("c", killed(SIGKILL), false));
  EXPECT_FALSE(v.on_daemon_end("e", exited(2), false, Phase::kRunning));
  EXPECT_EQ(v.reason(), "c was killed by signal 9 (Killed)");
}

TEST(Verdict, AnnouncedReasonDoesNotChange) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", exited(1), false));
  v.announce();
  EXPECT_FALSE(v.on_daemon_end("d", killed(SIGKILL), false, Phase::kRunning));
  EXPECT_EQ(v.reason(), "a exited with status 1");
  EXPECT_EQ(v.status(), 1) << "the status is that of the reason";
}

TEST(Verdict, ProcessesThatEndAsTheyWereAskedAreNoFailure) {
  Verdict v;
  EXPECT_FALSE(v.on_application_end("a", killed(SIGTERM), true));
  EXPECT_FALSE(v.on_application_end("b", exited(9), true));
  EXPECT_FALSE(v.on_daemon_end("d", exited(0), true, Phase::kClosing));
  EXPECT_FALSE(v.on_daemon_end("e", killed(SIGTERM), true, Phase::kClosing));
  EXPECT_FALSE(v.on_daemon_end("f", killed(SIGKILL), true, Phase::kClosing));
  EXPECT_FALSE(v.failed());
  EXPECT_EQ(v.status(), 0);
}

TEST(Verdict, ADaemonThatEndsBadlyWhenAskedIsAFailure) {
  for (const int end : {exited(1), exited(128 + SIGTERM), killed(SIGSEGV)}) {
    Verdict v;
    EXPECT_TRUE(v.on_daemon_end("d", end, true, Phase::kClosing));
    EXPECT_TRUE(v.reason().ends_with(" when it was asked to end")) << v.reason();
    EXPECT_EQ(v.status(), kLostDaemonStatus);
  }
}

TEST(Verdict, DaemonThatEndsUnaskedIsAFailure) {
  Verdict starting, running;
  EXPECT_TRUE(starting.on_daemon_end("d", exited(0), false, Phase::kStarting));
  EXPECT_EQ(starting.reason(), "d exited with status 0 before all clusters were connected");
  EXPECT_TRUE(running.on_daemon_end("d", exited(0), false, Phase::kRunning));
  EXPECT_EQ(running.reason(), "d exited with status 0");
  EXPECT_EQ(running.status(), kLostDaemonStatus);
}

TEST(Verdict, RunThatCannotContinueHasThatCauseWhicheverProcessDies) {
  Verdict v;
  EXPECT_TRUE(v.fail(Cause::kRunCannotContinue, "no wires"));
  EXPECT_FALSE(v.on_daemon_end("d", killed(SIGKILL), false, Phase::kStarting));
  EXPECT_EQ(v.reason(), "no wires");
  EXPECT_EQ(v.status(), kLostDaemonStatus);
}

TEST(Verdict, StatusOfAFailedApplicationIsKept) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("a", exited(3), false));
  EXPECT_EQ(v.status(), 3) << "no daemon was lost";
}

RecordedEnd recorded(dsm::EndCause cause, Duration at, std::optional<int> node = {}) {
  RecordedEnd end;
  end.cause = cause;
  end.time = Instant() + at;
  end.node = node;
  end.is_unfinished = true;
  return end;
}

TEST(Verdict, EarliestRecordedCauseIsTheCause) {
  for (const bool later_first : {false, true}) {
    Verdict v;
    const auto early = [&] {
      return v.on_application_end("a", exited(3), false, recorded(dsm::EndCause::kExit, 1_s, 5));
    };
    const auto late = [&] {
      return v.on_application_end("b", killed(SIGSEGV), false, recorded(dsm::EndCause::kSignal, 2_s, 7));
    };
    EXPECT_TRUE(later_first ? late() : early());
    EXPECT_FALSE(later_first ? early() : late());
    EXPECT_EQ(v.reason(), "a exited with status 3 before finish() in compute node 5");
    EXPECT_EQ(v.status(), 3);
  }
}

TEST(Verdict, LossOfAnotherClusterIsAConsequenceWhenItIsRecordedFirst) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("b", exited(70), false, recorded(dsm::EndCause::kLostCluster, 1_s)));
  EXPECT_FALSE(v.on_application_end("a", exited(70), false, recorded(dsm::EndCause::kFailure, 2_s)));
  EXPECT_EQ(v.reason(), "a exited with status 70");
}

TEST(Verdict, ProcessThatEndsWithoutFinishIsAFailureAlthoughItsStatusIs0) {
  Verdict v;
  EXPECT_TRUE(v.on_application_end("b", exited(70), false, recorded(dsm::EndCause::kLostCluster, 1_s)));
  EXPECT_FALSE(v.on_application_end("a", exited(0), false, recorded(dsm::EndCause::kNone, 0_s)));
  EXPECT_EQ(v.reason(), "a exited with status 0 before finish()");
  EXPECT_EQ(v.status(), kLostDaemonStatus);
}

TEST(Verdict, CrashIsNamedWithComputeNodeAndAddress) {
  Verdict v;
  RecordedEnd end = recorded(dsm::EndCause::kSignal, 1_s, 3);
  end.address = 0x10;
  EXPECT_TRUE(v.on_application_end("a", killed(SIGSEGV), false, end));
  EXPECT_EQ(v.reason(), "a was killed by signal 11 (Segmentation fault) in compute node 3 at address 0x10");
  EXPECT_EQ(v.status(), 128 + SIGSEGV);
}

TEST(Verdict, AfterAnInterruptNoEndOfAnApplicationIsAFailure) {
  Verdict v;
  v.on_interrupt(SIGINT, Phase::kRunning);
  EXPECT_EQ(v.interrupted(), SIGINT);
  EXPECT_FALSE(v.on_application_end("a", exited(0), false));
  EXPECT_EQ(v.status(), 0) << "it put its things in order";
  EXPECT_FALSE(v.on_application_end("b", killed(SIGINT), false));
  EXPECT_FALSE(v.failed());
  EXPECT_EQ(v.status(), 128 + SIGINT);
}

TEST(Verdict, AnInterruptIsTheStatusWhereNoApplicationCanDecide) {
  for (const Phase phase : {Phase::kStarting, Phase::kClosing}) {
    Verdict v;
    v.on_interrupt(SIGTERM, phase);
    EXPECT_EQ(v.status(), 128 + SIGTERM);
  }
  Verdict ignored;
  ignored.on_interrupt(SIGTERM, Phase::kRunning);
  ignored.on_interrupt_ignored();
  EXPECT_FALSE(ignored.on_application_end("a", killed(SIGKILL), true));
  EXPECT_EQ(ignored.status(), 128 + SIGTERM);
}

}  // namespace
}  // namespace braid::cli
