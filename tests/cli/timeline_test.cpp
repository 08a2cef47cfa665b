// When a run's processes are asked to end and when they are killed, with given times.
#include "tools/braid/run/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Action = Timeline::Action;

constexpr Duration kStartTimeout = 20_s;

Instant at(Duration d) {
  return Instant() + 1000_s + d;
}

std::vector<Action> due(Timeline& timeline, Instant now) {
  std::vector<Action> all;
  while (const auto action = timeline.poll(now)) {
    all.push_back(*action);
    if (all.size() > 10) break;
  }
  return all;
}

struct Fixture {
  Timeline timeline{at(0_s), kStartTimeout};

  // Expects that no action is due before `at`, and these are due then.
  void expect(Duration d, const std::vector<Action>& actions) {
    EXPECT_EQ(timeline.next_deadline(), at(d));
    EXPECT_THAT(due(timeline, at(d) - 1_ns), IsEmpty());
    EXPECT_EQ(due(timeline, at(d)), actions);
  }
  void expect_nothing_more() {
    EXPECT_EQ(timeline.next_deadline(), Instant::never());
    EXPECT_THAT(due(timeline, at(10'000_s)), IsEmpty());
  }
};

TEST(Timeline, RunningApplicationsHaveNoDeadline) {
  Fixture f;
  EXPECT_EQ(f.timeline.phase(), Phase::kStarting);
  f.timeline.on_applications_start(at(2_s));
  EXPECT_EQ(f.timeline.phase(), Phase::kRunning);
  f.expect_nothing_more();
}

TEST(Timeline, StartTimeoutIsReportedOnce) {
  Fixture f;
  f.expect(kStartTimeout, {Action::kStartTimedOut});
  f.expect_nothing_more();
}

TEST(Timeline, AStartThatIsHeldUpIsGivenTheWholeTimeFromThenOn) {
  Fixture f;
  f.timeline.on_start_held_up(at(15_s));
  f.expect(15_s + kStartTimeout, {Action::kStartTimedOut});
  f.timeline.on_start_held_up(at(60_s));
  f.expect_nothing_more();
}

TEST(Timeline, DaemonsThatDoNotEndWhenTheApplicationsHaveAreKilled) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_applications_end(at(5_s));
  EXPECT_EQ(f.timeline.phase(), Phase::kClosing);
  f.expect(5_s + Timeline::kDaemonsEnd, {Action::kKillAll});
  f.expect_nothing_more();
}

TEST(Timeline, AFailureWhileApplicationsRunLetsTheOthersEndByThemselvesFirst) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_failure(at(5_s));
  EXPECT_TRUE(f.timeline.cut_short());
  f.expect(5_s + Timeline::kSettle, {Action::kAnnounce});
  f.expect(5_s + Timeline::kEndByThemselves, {Action::kAskAll});
  f.expect(5_s + Timeline::kEndByThemselves + Timeline::kAfterAsking, {Action::kKillAll});
  f.expect_nothing_more();
}

TEST(Timeline, AFailureWhileDaemonsStartAsksTheOthersToEndAtOnce) {
  Fixture f;
  f.timeline.on_failure(at(1_s));
  f.expect(1_s, {Action::kAskAll});
  f.expect(1_s + Timeline::kSettle, {Action::kAnnounce});
  f.expect(1_s + Timeline::kAfterAsking, {Action::kKillAll});
}

TEST(Timeline, AFailureWhileDaemonsEndChangesNothingButThatItIsAnnounced) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_applications_end(at(5_s));
  f.timeline.on_failure(at(6_s));
  EXPECT_FALSE(f.timeline.cut_short());
  f.expect(6_s + Timeline::kSettle, {Action::kAnnounce});
  f.expect(5_s + Timeline::kDaemonsEnd, {Action::kKillAll});
}

TEST(Timeline, ApplicationsThatEndByThemselvesAfterAFailureAreNotAskedTo) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_failure(at(5_s));
  f.timeline.on_applications_end(at(5_s) + 100_ms);
  EXPECT_TRUE(f.timeline.cut_short());
  f.expect(5_s + Timeline::kSettle, {Action::kAnnounce});
  f.expect(5_s + 100_ms + Timeline::kDaemonsEnd, {Action::kKillAll});
}

TEST(Timeline, FailureIsAnnouncedAtOnceWhenNoProcessIsLeft) {
  Fixture f;
  f.timeline.on_failure(at(1_s));
  f.timeline.on_applications_end(at(1_s) + 10_ms);
  f.timeline.on_all_ended(at(1_s) + 20_ms);
  f.expect(1_s + 20_ms, {Action::kAnnounce});
  f.timeline.on_all_ended(at(1_s) + 30_ms);
  EXPECT_THAT(due(f.timeline, at(1_s) + 30_ms), IsEmpty()) << "and only once";
}

TEST(Timeline, InterruptGivesTheApplicationTimeToEnd) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_interrupt(at(5_s));
  f.expect(5_s + Timeline::kAfterSignal, {Action::kKillAll});
  f.expect_nothing_more();
}

TEST(Timeline, InterruptDoesNotPostponeAKill) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_applications_end(at(5_s));
  f.timeline.on_interrupt(at(6_s));
  f.expect(5_s + Timeline::kDaemonsEnd, {Action::kKillAll});
}

TEST(Timeline, KillIsNotRepeated) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_interrupt(at(5_s));
  f.timeline.on_killed();
  f.expect_nothing_more();
}

TEST(Timeline, LateOutputIsClosedWhenNoProcessIsLeft) {
  Fixture f;
  f.timeline.on_applications_start(at(2_s));
  f.timeline.on_applications_end(at(5_s));
  f.timeline.on_killed();
  f.timeline.on_all_ended(at(6_s));
  f.timeline.on_all_ended(at(6_s) + 100_ms);  // puts nothing off
  f.expect(6_s + Timeline::kLateOutput, {Action::kCloseOutput});
  f.expect(6_s + Timeline::kLateOutput * 2, {Action::kCloseOutput});  // until it could be done
  f.timeline.on_output_closed();
  f.timeline.on_all_ended(at(8_s));
  f.expect_nothing_more();
}

TEST(Timeline, RemembersWhenTheApplicationsRan) {
  Fixture f;
  EXPECT_EQ(f.timeline.begun(), at(0_s));
  EXPECT_EQ(f.timeline.applications_begun(), Instant::never());
  f.timeline.on_applications_start(at(2_s));
  EXPECT_EQ(f.timeline.applications_begun(), at(2_s));
  EXPECT_EQ(f.timeline.applications_ended(), Instant::never());
  f.timeline.on_applications_end(at(5_s));
  EXPECT_EQ(f.timeline.applications_ended(), at(5_s));
}

}  // namespace
}  // namespace braid::cli
