// Which points of a study run live, in which order, and the tables of what came of it: without a process.
#include "tools/braid/study/live_points.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace braid::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::json;
namespace fs = std::filesystem;

// A folder with the programs that a plan looks for.
class LivePoints : public ::testing::Test {
 protected:
  LivePoints() {
    for (const fs::path& name : {fs::path("braidd"), fs::path("a"), fs::path("sim") / "a", fs::path("b")}) {
      fs::create_directories((folder_ / name).parent_path());
      std::ofstream(folder_ / name) << name;
      ::chmod((folder_ / name).c_str(), 0700);
    }
  }
  ~LivePoints() override { fs::remove_all(folder_); }

  Study study(const std::string& rest) const {
    Result<Study> parsed = parse_study("applications: [" + (folder_ / "sim" / "a").string() + "]\n" +
                                           "engine: live\nrepetitions: 2\n" + rest,
                                       "s.yaml");
    EXPECT_TRUE(parsed.ok()) << parsed.error().text;
    return parsed.ok() ? *parsed : Study{};
  }
  Result<LivePlan> plan(const Study& of, unsigned processors, bool oversubscribe = false) const {
    StudyPrograms programs(folder_ / "b", BRAID_CONFIGS "/models");
    return plan_live_runs(of, programs, {"here", processors}, folder_, oversubscribe);
  }
  // The runs in their order, without the program.
  static std::vector<std::string> runs(const LivePlan& plan) {
    std::vector<std::string> all;
    for (const StudyPoint& run : plan.runs.points) {
      const std::string text = describe(run, plan.runs.varied);
      all.push_back(text.substr(text.find(", ") + 2));
    }
    return all;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("braid-live-" + std::to_string(::getpid()));
};

TEST_F(LivePoints, TakeTurnsRepetitionByRepetition) {
  const Study study = this->study("vary: [{clusters: [2, 4]}]\n");
  const Result<LivePlan> made = plan(study, 12);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_THAT(runs(*made), ElementsAre("clusters 2, live, repetition 1", "clusters 4, live, repetition 1",
                                       "clusters 2, live, repetition 2", "clusters 4, live, repetition 2"));
  EXPECT_EQ(made->runs.points[0].application, (folder_ / "a").string()) << "the build beside sim/";
  EXPECT_EQ(made->origins[0]["host"], Json({{"name", "here"}, {"processors", 12}}));
  EXPECT_NE(made->origins[0], made->origins[2]);
  EXPECT_NE(made->origins[0], plan(study, 13)->origins[0]) << "another machine";
}

TEST_F(LivePoints, AreRefusedWhereProcessorsDoNotSuffice) {
  const Study study = this->study("base: {compute: 2}\nvary: [{clusters: [2, 3]}]\n");
  const Result<LivePlan> made = plan(study, 8);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_EQ(made->points[0].refused, "");
  EXPECT_FALSE(made->points[0].oversubscribed);
  EXPECT_EQ(made->points[0].threads, 6u);
  EXPECT_EQ(made->points[1].refused,
            "3 clusters x (2 compute nodes + 1 proxy) are 9 threads, and there are 8 processors");
  EXPECT_THAT(runs(*made), SizeIs(2));
  EXPECT_THAT(describe_refusals(study, *made),
              HasSubstr("1 point refused as live runs; --oversubscribe runs them"));
  EXPECT_TRUE(plan(study, 9)->points[1].refused.empty()) << "as many as there are suffice";

  const Result<LivePlan> all = plan(study, 8, true);
  EXPECT_THAT(runs(*all), SizeIs(4));
  EXPECT_EQ(all->points[1].refused, "");
  EXPECT_TRUE(all->points[1].oversubscribed);

  const Result<LivePlan> none = plan(study, 5);
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, StartsWith("s.yaml: key 'engine': no point can run live:\n"));
}

TEST_F(LivePoints, MachinesThatNoHostIsAreOnlySimulated) {
  const auto reason = [&](const std::string& base) {
    return only_simulated(study("base: " + base + "\n").points.at(0));
  };
  EXPECT_EQ(reason("{simulation: {mode: no-delay}}"), "simulation.mode no-delay");
  EXPECT_EQ(reason("{simulation: {mode: real}}"), "");
  EXPECT_EQ(reason("{simulation: {proxy_speed: 2}}"), "simulation.proxy_speed 2.0");
  EXPECT_EQ(reason("{simulation: {handlers: own}}"), "simulation.handlers own");
  EXPECT_EQ(reason("{simulation: {incidents: [{at_us: 1, kind: active-proxies, cluster: 0, active: 1}]}}"),
            "simulation.incidents");
  EXPECT_EQ(reason("{engine: {fetch_ahead: 0}}"), "engine.fetch_ahead 0");
  EXPECT_EQ(reason("{protocol: mgs}"), "protocol mgs");
  EXPECT_EQ(reason("{engine: {page_bytes: 2048}}"), "engine.page_bytes 2048");
  for (const char* const base : {"{engine: {page_bytes: 8192}}", "{protocol: lazy}", "{cycles: {unit: 6}}",
                                 "{simulation: {jitter: 0, strict: true}}"})
    EXPECT_EQ(reason(base), "") << base;
  const Study study = this->study("vary: [{simulation.mode: [real, no-delay]}]\n");
  const Result<LivePlan> made = plan(study, 1, true);
  EXPECT_THAT(runs(*made), SizeIs(2));
  EXPECT_THAT(describe_refusals(study, *made), HasSubstr("1 point only simulated, for no host has this:\n"));
}

TEST_F(LivePoints, PredictionsOfOneMachineShareItsRuns) {
  const Study study =
      this->study("vary: [{simulation.model: [modern, alewife-1997]}, {faults.seed: [1, 2]}]\n");
  EXPECT_THAT(runs(*plan(study, 64)), SizeIs(2)) << "without faults nothing is drawn";
  const Study faulty = this->study("base: {faults: {loss: 0.1}}\nvary: [{faults.seed: [1, 2]}]\n");
  EXPECT_THAT(runs(*plan(faulty, 64)), SizeIs(4));
  EXPECT_EQ(live_settings_yaml(study.points[0]), "") << "nothing of it shapes a live run";
  EXPECT_EQ(live_settings_yaml(faulty.points[1]), "faults:\n  loss: 0.1\n  seed: 2\n");
}

TEST_F(LivePoints, SettingsOfLiveRunsAloneShareThePrediction) {
  const Study study = this->study("base: {bind: none}\nvary: [{wire: [shm, udp]}]\n");
  const Result<LivePlan> made = plan(study, 64);
  ASSERT_TRUE(made.ok()) << made.error().text;
  EXPECT_THAT(runs(*made), ElementsAre("wire shm, live, repetition 1", "wire udp, live, repetition 1",
                                       "wire shm, live, repetition 2", "wire udp, live, repetition 2"));
  EXPECT_EQ(live_settings_yaml(study.points[1]), "bind: \"none\"\nwire: \"udp\"\n");
  EXPECT_EQ(settings_yaml(study.points[1], 0), "");
  StudyPrograms programs(folder_ / "b", BRAID_CONFIGS "/models");
  EXPECT_EQ(*programs.origin(study.points[0]), *programs.origin(study.points[1])) << "one simulation";
}

TEST_F(LivePoints, ContradictionsOfLiveRunsAreRefused) {
  // It is below the model's min_rto_us, and not below that of a live run.
  const Result<LivePlan> made = plan(study("base: {transport: {ack_delay_us: 5000}}\n"), 64);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().text, HasSubstr("ack_delay_us (5000) must be shorter than min_rto_us (500)"));
  EXPECT_THAT(made.error().text, HasSubstr("(in the live run of the point "));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(LivePoints, TablesHaveRunsMediansAndThePrediction) {
  const Study study = this->study("vary: [{clusters: [2, 4]}]\n");
  Study three = study;
  three.repetitions = 3;
  const Result<LivePlan> made = plan(three, 8, true);
  ASSERT_TRUE(made.ok()) << made.error().text;
  Jobs jobs(made->runs, made->origins, 1,
            [](const std::string&, const Json&) { return std::optional<PointResult>(); });
  const double times[] = {500, 100, 300, 900, 700, 800};  // of the first point, the second, the first ...
  for (std::size_t i = 0; i < 5; ++i) {
    const Jobs::Id id = jobs.start_next(Instant()).value();
    PointResult result{1, {{"parallel_ns", times[i]}, {"verified", true}}};
    result.report["totals"] = {{"messages_sent", 10 + i}, {"message_bytes_sent", 1000}};
    if (i == 1) result.report["verified"] = nullptr;
    jobs.finish(id, std::move(result));
  }
  jobs.fail(jobs.start_next(Instant()).value(), "exited with status 3");
  const PointResult simulated{1, {{"parallel_cycles", 4}, {"cycles_per_second", 1e7}}};
  const LiveResults results{three, *made, jobs,
                            [&](std::size_t point) { return point == 0 ? &simulated : nullptr; }};
  const std::string program = (folder_ / "sim" / "a").string();

  const std::vector<std::string> runs = lines_of(live_csv(results));
  ASSERT_THAT(runs, SizeIs(1 + 6));
  EXPECT_THAT(runs[2], StartsWith(program + ",,2,2,1,real,2,6,8,no,300,12,1000,yes,,"));
  EXPECT_THAT(runs[4], StartsWith(program + ",,4,2,1,real,1,12,8,yes,100,11,1000,,,"));
  EXPECT_THAT(runs[6], StartsWith(program + ",,4,2,1,real,3,12,8,yes,,,,no,exited with status 3,"));

  EXPECT_THAT(
      lines_of(live_medians_csv(results)),
      ElementsAre("application,arguments,clusters,compute,proxies,simulation.mode,runs,threads,processors,"
                  "oversubscribed,verified,parallel_ns,least_parallel_ns,greatest_parallel_ns,messages,bytes,"
                  "predicted_parallel_ns,live_over_predicted",
                  program + ",,2,2,1,real,3,6,8,no,yes,500,300,700,12,1000,400,1.25",
                  program + ",,4,2,1,real,2,12,8,yes,no,500,100,900,12,1000,,"));
  EXPECT_EQ(live_json(results)["failed"].size(), 1u);
  EXPECT_EQ(live_json(results)["missing"], 0);
}

}  // namespace
}  // namespace braid::cli
