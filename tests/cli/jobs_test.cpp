// The order in which the runs of a study may start, and the estimate of the remaining time.
#include "tools/braid/study/jobs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/base/temporary_folder.h"
#include "tools/braid/study/progress.h"
#include "tools/braid/study/task_file.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

Instant at(Duration d) {
  return Instant() + 1000_s + d;
}

PointResult took(double seconds, double mean_bytes = 0) {
  PointResult result{seconds, {}};
  result.report["messages"]["mean_bytes"] = mean_bytes;
  return result;
}

// Points of several programs and modes.
struct Fixture {
  Study study;
  std::vector<Json> origins;
  std::set<std::string> kept;  // names of jobs that an earlier study finished in 10 s

  Fixture& point(const std::string& program, const std::string& mode = "real") {
    StudyPoint point;
    point.application = program;
    study.points.push_back(std::move(point));
    origins.push_back({{"application", program},
                       {"settings", {{"simulation.mode", mode}, {"simulation.message_bytes", 0}}}});
    return *this;
  }
  // They refer to this fixture.
  Jobs jobs(std::size_t slots) const {
    return Jobs(study, origins, slots, [&](const std::string& name, const Json&) {
      return kept.contains(name) ? std::optional(took(10)) : std::nullopt;
    });
  }
};

TEST(Jobs, StartsPointsInTheirOrderAsSlotsAreFree) {
  const Fixture f = Fixture().point("a").point("b").point("c");
  Jobs jobs = f.jobs(2);
  EXPECT_EQ(jobs.start_next(at(0_s)), 0u);
  EXPECT_EQ(jobs.start_next(at(0_s)), 1u);
  EXPECT_EQ(jobs.start_next(at(0_s)), std::nullopt);
  EXPECT_NE(jobs[0].slot, jobs[1].slot);
  jobs.finish(0, took(1));
  EXPECT_EQ(jobs.start_next(at(1_s)), 2u);
  EXPECT_EQ(jobs[2].slot, jobs[0].slot);
  EXPECT_EQ(jobs[2].begun, at(1_s));
}

TEST(Jobs, RunByOthersStartAtOnceUnlessTheyWaitForAnother) {
  const Fixture f = Fixture().point("a", "no-contention").point("a").point("b").point("c");
  Jobs jobs = f.jobs(1);
  jobs.let_others_run(2);
  EXPECT_EQ(jobs.slots(), 2u);
  for (const Jobs::Id id : {1u, 2u, 3u}) EXPECT_EQ(jobs.start_next(at(0_s)), id);
  EXPECT_EQ(jobs.start_next(at(0_s)), std::nullopt);
  jobs.finish(1, took(10));
  EXPECT_EQ(jobs.start_next(at(100_s)), 0u);
  EXPECT_EQ(jobs.seconds_left(at(100_s)), 15) << "since when they run is not known: 3 of 10 s, 2 at a time";
}

TEST(ShareOut, AJobIsBehindTheOneThatItWaitsForInItsTask) {
  Fixture f = Fixture()
                  .point("a", "no-contention")
                  .point("b")
                  .point("a")
                  .point("c", "no-contention")
                  .point("d")
                  .point("c");
  using Tasks = std::vector<std::vector<Jobs::Id>>;
  EXPECT_EQ(share_out(f.jobs(1), 100), (Tasks{{1}, {2, 0}, {4}, {5, 3}}));
  EXPECT_EQ(share_out(f.jobs(1), 3), (Tasks{{1, 5, 3}, {2, 0}, {4}}));
  f.kept = {f.jobs(1)[1].name, f.jobs(1)[2].name};
  EXPECT_EQ(share_out(f.jobs(1), 100), (Tasks{{2, 0}, {4}, {5, 3}})) << "2 is done; its result is for 0";
  for (const Job& job : f.jobs(1)) f.kept.insert(job.name);
  EXPECT_EQ(share_out(f.jobs(1), 100), Tasks{});
}

TEST(TaskOutcomes, AreReadFromWhatATaskSays) {
  const Fixture f = Fixture().point("a").point("b").point("c");
  Jobs jobs = f.jobs(2);
  jobs.start_next(at(0_s));
  jobs.start_next(at(0_s));
  jobs.finish(0, took(1));
  jobs.fail(1, "exited: why");
  const TemporaryFolder folder;
  const std::string log = folder / "task.log";
  std::ofstream(log) << "other words\n" << describe_outcomes(jobs);
  const std::map<std::string, std::string> wanted = {{jobs[0].name, ""}, {jobs[1].name, "exited: why"}};
  EXPECT_EQ(outcomes_in(log), wanted);
}

TEST(Jobs, HasAtLeastOneSlotAndNoMoreThanJobs) {
  EXPECT_EQ(Fixture().point("a").point("b").jobs(9).slots(), 2u);
  EXPECT_EQ(Fixture().point("a").point("b").jobs(0).slots(), 1u);
  EXPECT_EQ(Fixture().jobs(9).slots(), 1u);
}

TEST(Jobs, PointsWithTheSameOriginAreOneJob) {
  const Fixture f = Fixture().point("a").point("b").point("a");
  const Jobs jobs = f.jobs(9);
  EXPECT_EQ(jobs.size(), 2u);
  EXPECT_EQ(&jobs.of_point(0), &jobs.of_point(2));
  EXPECT_NE(&jobs.of_point(0), &jobs.of_point(1));
}

TEST(Jobs, StoredResultsAreNotRunAgain) {
  Fixture f = Fixture().point("a").point("b");
  f.kept = {name_of(f.origins[0])};
  Jobs jobs = f.jobs(9);
  EXPECT_EQ(jobs[0].state, Job::State::kDone);
  EXPECT_EQ(jobs[0].result->seconds, 10);
  EXPECT_EQ(jobs.start_next(at(0_s)), 1u);
  EXPECT_EQ(jobs.start_next(at(0_s)), std::nullopt);
}

TEST(Jobs, NoContentionWaitsForTheRealRunOfTheSamePointAndTakesItsMessagesLength) {
  const Fixture f = Fixture().point("a", "no-contention").point("a", "real");
  Jobs jobs = f.jobs(2);
  EXPECT_EQ(jobs.start_next(at(0_s)), 1u) << "the first waits";
  EXPECT_EQ(jobs.start_next(at(0_s)), std::nullopt);
  EXPECT_EQ(jobs.message_bytes(0), 0u);
  jobs.finish(1, took(1, 812.7));
  EXPECT_EQ(jobs.start_next(at(1_s)), 0u);
  EXPECT_EQ(jobs.message_bytes(0), 812u);
  EXPECT_EQ(jobs.message_bytes(1), 0u) << "it waits for nobody";
}

TEST(Jobs, NoContentionRunsWithoutARealRunThatFailedOrIsMissing) {
  const Fixture both = Fixture().point("a", "no-contention").point("a", "real");
  Jobs jobs = both.jobs(2);
  jobs.fail(*jobs.start_next(at(0_s)), "died");
  EXPECT_EQ(jobs.start_next(at(1_s)), 0u);
  EXPECT_EQ(jobs.message_bytes(0), 0u);
  EXPECT_EQ(Fixture().point("a", "no-contention").jobs(1).start_next(at(0_s)), 0u);
}

TEST(Jobs, FailedJobHasEndedButAnAbandonedOneHasNot) {
  const Fixture f = Fixture().point("a").point("b");
  Jobs jobs = f.jobs(2);
  jobs.start_next(at(0_s));
  jobs.start_next(at(0_s));
  jobs.fail(0, "exited with status 3");
  jobs.give_up(1);
  EXPECT_EQ(jobs[0].failure, "exited with status 3");
  EXPECT_EQ(jobs.count(Job::State::kFailed), 1u);
  EXPECT_EQ(jobs.count(Job::State::kMissing), 1u);
  EXPECT_EQ(jobs.start_next(at(1_s)), 1u);
}

TEST(Jobs, EstimatesTheRestFromRunsOfTheSameProgramOrElseOfAny) {
  const Fixture f = Fixture().point("a").point("a", "x").point("a", "y").point("b").point("b", "x");
  Jobs jobs = f.jobs(1);
  EXPECT_EQ(jobs.seconds_left(at(0_s)), std::nullopt);
  jobs.start_next(at(0_s));
  jobs.finish(0, took(10));
  EXPECT_EQ(jobs.seconds_left(at(0_s)), 40) << "two more of a, two of b that take as long for all we know";
  jobs.start_next(at(0_s));
  EXPECT_EQ(jobs.seconds_left(at(4_s)), 36);
  EXPECT_EQ(jobs.seconds_left(at(100_s)), 30) << "one that takes longer is about to end";
  jobs.finish(1, took(30));
  EXPECT_EQ(jobs.seconds_left(at(0_s)), 60);
  jobs.start_next(at(0_s));
  jobs.fail(2, "died");
  jobs.start_next(at(0_s));
  jobs.finish(3, took(5));
  EXPECT_EQ(jobs.seconds_left(at(0_s)), 5) << "b's own time is known";
}

TEST(Jobs, EstimateIsNotLessThanTheLongestRun) {
  Fixture f = Fixture().point("a").point("a", "x").point("b").point("b", "x");
  Jobs jobs = f.jobs(4);
  for (int i = 0; i < 3; ++i) jobs.start_next(at(0_s));
  jobs.finish(0, took(2));
  jobs.finish(2, took(20));
  EXPECT_EQ(jobs.seconds_left(at(0_s)), 20) << "not 22 / 4";
}

TEST(StudyProgress, ShowsFinishedFailedAndRemainingPoints) {
  const Fixture f = Fixture().point("a").point("a", "x").point("a", "y");
  Jobs jobs = f.jobs(1);
  EXPECT_EQ(describe_progress(jobs, at(0_s)), "0 of 3");
  jobs.start_next(at(0_s));
  jobs.finish(0, took(65));
  EXPECT_EQ(describe_progress(jobs, at(0_s)), "1 of 3, about 2 min 10 s left");
  jobs.start_next(at(0_s));
  jobs.fail(1, "died");
  EXPECT_EQ(describe_progress(jobs, at(0_s)), "2 of 3, 1 failed, about 1 min 5 s left");
  jobs.start_next(at(0_s));
  jobs.finish(2, took(65));
  EXPECT_EQ(describe_progress(jobs, at(0_s)), "3 of 3, 1 failed");
}

}  // namespace
}  // namespace braid::cli
