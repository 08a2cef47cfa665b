// From a study's file to its points: every combination of the axes that satisfies the conditions, and an error
// with place and cure for each mistake. And the stored results of points.
#include "tools/braid/study/study.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "base/json.h"
#include "settings/views/json.h"
#include "settings/views/yaml.h"
#include "tests/cli/command.h"
#include "tools/braid/study/condition.h"
#include "tools/braid/study/mean_value.h"
#include "tools/braid/study/study_results.h"

namespace braid::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Json = nlohmann::json;

Study parsed(const std::string& yaml) {
  Result<Study> study = parse_study(yaml, "s.yaml");
  EXPECT_TRUE(study.ok()) << study.error().text;
  return study.ok() ? *study : Study{};
}

std::string refusal(const std::string& yaml) {
  const Result<Study> study = parse_study(yaml, "s.yaml");
  return study.ok() ? "(accepted)" : study.error().text;
}

// The points as the user sees them.
std::vector<std::string> points(const std::string& yaml) {
  const Study study = parsed(yaml);
  std::vector<std::string> all;
  for (const StudyPoint& point : study.points) all.push_back(describe(point, study.varied));
  return all;
}

const std::string kWater = "applications: [water]\n";

// --- points

TEST(Study, EveryCombinationOfTheAxesIsAPointAndTheLastAxisIsTheFastest) {
  EXPECT_THAT(points(kWater + "vary:\n- clusters: [2, 4]\n- proxies: [1, 2]\n"),
              ElementsAre("water, clusters 2, proxies 1", "water, clusters 2, proxies 2",
                          "water, clusters 4, proxies 1", "water, clusters 4, proxies 2"));
}

TEST(Study, LimitsItsPoints) {
  EXPECT_EQ(parsed(kWater).limit_s, std::nullopt);
  EXPECT_EQ(parsed(kWater + "limit_s: 2.5\n").limit_s, 2.5);
  EXPECT_EQ(parsed(kWater + "limit_s: 0\n").limit_s, 0);
  const std::string cure = "must be the longest time of a point in seconds, up to 100000000; 0: no limit";
  for (const char* const wrong : {"-1", "ten", "10 s", "nan", "inf", "1e9", "[1]", "''"})
    EXPECT_EQ(refusal(kWater + "limit_s: " + wrong + "\n"), "s.yaml:2:10: key 'limit_s': " + cure) << wrong;
  EXPECT_EQ(refusal(kWater + "limit_s:\n"), "s.yaml:2:1: key 'limit_s': " + cure);
}

TEST(Study, CanHaveLiveRuns) {
  EXPECT_FALSE(parsed(kWater).live);
  EXPECT_FALSE(parsed(kWater + "engine: sim\nrepetitions: 5\n").live);
  const Study study = parsed("applications: [{application: ./sim/a, live: ./a}]\nengine: live\n");
  EXPECT_TRUE(study.live);
  EXPECT_EQ(study.repetitions, 3u);
  EXPECT_EQ(study.points.at(0).live, "./a");
  EXPECT_EQ(parsed(kWater + "engine: live\nrepetitions: 1000\n").repetitions, 1000u);
  const std::string wrong = "must be how often each point runs live, 1 to 1000";
  for (const char* const number : {"0", "1001", "many", "-1", "2.5", "[2]"})
    EXPECT_EQ(refusal(kWater + "engine: live\nrepetitions: " + number + "\n"),
              "s.yaml:3:14: key 'repetitions': " + wrong)
        << number;
  EXPECT_EQ(refusal(kWater + "repetitions: 2\n"),
            "s.yaml:2:1: key 'repetitions': is for live runs; add 'engine: live', or leave it out");
  EXPECT_THAT(refusal("applications: [{application: a, live: b}]\n"),
              HasSubstr("key 'live': is for live runs; add 'engine: live', or leave it out"));
  EXPECT_EQ(refusal(kWater + "engine: both\n"),
            "s.yaml:2:9: key 'engine': must be sim, or live: points are also run on this host");
  EXPECT_EQ(refusal(kWater + "engine: {fetch_ahead: 0}\n"),
            "s.yaml:2:9: key 'engine': must be sim or live; constants of the page engine stand below 'base'");
}

TEST(Study, KeysOfOneAxisVaryTogether) {
  EXPECT_THAT(
      points(kWater + "vary:\n- clusters: [16, 8]\n  compute: [1, 2]\n- simulation.mode: [real, no-delay]\n"),
      ElementsAre("water, clusters 16, compute 1, simulation.mode real",
                  "water, clusters 16, compute 1, simulation.mode no-delay",
                  "water, clusters 8, compute 2, simulation.mode real",
                  "water, clusters 8, compute 2, simulation.mode no-delay"));
}

TEST(Study, WithoutAxesThereIsOnePoint) {
  EXPECT_THAT(points(kWater), ElementsAre("water"));
}

TEST(Study, BaseAppliesToAllPointsAndAnAxisOverridesIt) {
  const Study study = parsed(
      kWater + "base: {nis: 2, proxies: 2, transport: {window_packets: 9}}\nvary: [{proxies: [4, 8]}]\n");
  ASSERT_THAT(study.points, SizeIs(2));
  for (const StudyPoint& point : study.points) {
    EXPECT_EQ(point.value_of("nis"), 2);
    EXPECT_EQ(point.value_of("transport.window_packets"), 9);
  }
  EXPECT_EQ(study.points[0].value_of("proxies"), 4);
  EXPECT_EQ(study.points[1].value_of("proxies"), 8);
}

TEST(Study, AnApplicationHasArgumentsAxesSettingsAndConditionsOfItsOwn) {
  const Study study = parsed(R"(
applications:
  - water
  - application: tsp
    arguments: [--cities, 12]
    base: {heap_mib: 16}
    vary: [{arguments.seed: [1, 2, 3]}]
    where: [arguments.seed != 2]
vary: [{clusters: [2, 4]}]
)");
  ASSERT_THAT(study.points, SizeIs(2 + 4));
  EXPECT_THAT(study.points[0].command(), ElementsAre("water"));
  EXPECT_EQ(study.points[0].value_of("heap_mib"), 256);
  EXPECT_TRUE(study.points[0].value_of("arguments.seed").is_null());
  EXPECT_THAT(study.points[3].command(), ElementsAre("tsp", "--cities", "12", "--seed=3"));
  EXPECT_EQ(study.points[3].value_of("arguments.seed"), 3);
  EXPECT_EQ(study.points[3].value_of("heap_mib"), 16);
  EXPECT_THAT(study.varied, ElementsAre("arguments.seed", "clusters"));
}

// --- conditions

TEST(Study, ConditionsExcludePoints) {
  EXPECT_THAT(
      points(kWater + "vary:\n- clusters: [8, 4]\n  compute: [2, 4]\n- proxies: [1, 2, 4, 8]\n"
                      "where: [proxies <= compute]\n"),
      ElementsAre("water, clusters 8, compute 2, proxies 1", "water, clusters 8, compute 2, proxies 2",
                  "water, clusters 4, compute 4, proxies 1", "water, clusters 4, compute 4, proxies 2",
                  "water, clusters 4, compute 4, proxies 4"));
}

// Whether a point with these values satisfies the condition.
bool holds(const std::string& text, const std::map<std::string, Json>& values) {
  const Result<Condition> condition = Condition::parse(text, {"application", "arguments.seed"});
  EXPECT_TRUE(condition.ok()) << text << ": " << condition.error().text;
  return condition.ok() && condition->holds([&](const std::string& key) { return values.at(key); });
}

TEST(Condition, ComparesNumbers) {
  for (const auto& [text, below, same, above] : {std::tuple{"proxies < compute", true, false, false},
                                                 {"proxies <= compute", true, true, false},
                                                 {"proxies == compute", false, true, false},
                                                 {"proxies != compute", true, false, true},
                                                 {"proxies >= compute", false, true, true},
                                                 {"proxies>compute", false, false, true}}) {
    EXPECT_EQ(holds(text, {{"proxies", 1}, {"compute", 2}}), below) << text;
    EXPECT_EQ(holds(text, {{"proxies", 2}, {"compute", 2}}), same) << text;
    EXPECT_EQ(holds(text, {{"proxies", 3}, {"compute", 2}}), above) << text;
  }
  EXPECT_TRUE(holds("simulation.proxy_speed <= 0.5", {{"simulation.proxy_speed", 0.5}}));
}

TEST(Condition, Multiplies) {
  const std::map<std::string, Json> machine = {{"clusters", 4}, {"compute", 4}, {"proxies", 2}};
  EXPECT_TRUE(holds("clusters * compute == 16", machine));
  EXPECT_FALSE(holds("clusters * compute != 16", machine));
  EXPECT_TRUE(holds("clusters*proxies*2 == clusters * compute", machine));
}

TEST(Condition, ComparesWords) {
  EXPECT_TRUE(holds("simulation.mode != no-delay", {{"simulation.mode", "real"}}));
  EXPECT_FALSE(holds("no-delay == simulation.mode", {{"simulation.mode", "real"}}));
  EXPECT_TRUE(holds("dispatch == round-robin", {{"dispatch", "rr"}})) << "two names of one";
  EXPECT_TRUE(holds("application == tsp", {{"application", "tsp"}}));
  EXPECT_TRUE(holds("transport.mtu_bytes == auto", {{"transport.mtu_bytes", "auto"}}));
  EXPECT_FALSE(holds("transport.mtu_bytes >= 1500", {{"transport.mtu_bytes", "auto"}}))
      << "no number, no order";
  EXPECT_FALSE(holds("transport.mtu_bytes * 2 >= 1500", {{"transport.mtu_bytes", "auto"}}));
  EXPECT_FALSE(holds("arguments.seed == 2", {{"arguments.seed", nullptr}}));
}

TEST(Condition, AndBindsMoreStronglyThanOr) {
  const auto both = [](int clusters, int compute, int proxies) {
    return holds("clusters == 1 and compute == 1 or proxies == 1",
                 {{"clusters", clusters}, {"compute", compute}, {"proxies", proxies}});
  };
  EXPECT_TRUE(both(1, 1, 2));
  EXPECT_FALSE(both(1, 2, 2));
  EXPECT_FALSE(both(2, 1, 2));
  EXPECT_TRUE(both(2, 2, 1));
}

TEST(Condition, ConditionWithoutMeaningIsRefused) {
  const auto refused = [](const std::string& text) {
    const Result<Condition> condition = Condition::parse(text, {"application"});
    return condition.ok() ? "(accepted)" : condition.error().text;
  };
  EXPECT_EQ(refused("proxys <= compute"), "'proxys' is not known; did you mean 'proxies'?");
  EXPECT_EQ(refused("mode == real"), "'mode' is not known; did you mean 'simulation.mode'?");
  EXPECT_THAT(refused("simulation.mode == rael"),
              StartsWith("'simulation.mode': 'rael' is not allowed; allowed: real, no-delay"));
  EXPECT_THAT(refused("clusters * xyzzyplugh == 4"),
              StartsWith("'xyzzyplugh' is not known; known here: application, clusters"));
  EXPECT_EQ(refused("1 == 2"), "it names no setting, so it is the same for all points");
  EXPECT_EQ(refused("proxies = 2"), "'=' stands where a comparison is expected: ==, !=, <, <=, > or >=");
  EXPECT_EQ(refused("proxies"), "it ends where a comparison is expected: ==, !=, <, <=, > or >=");
  EXPECT_EQ(refused("proxies <="), "it ends where a setting or a value is expected");
  EXPECT_EQ(refused(""), "it ends where a setting or a value is expected");
  EXPECT_EQ(refused("proxies == 1 proxies == 2"),
            "'proxies' is not understood here; 'and', 'or' or the end is expected");
}

// --- mistakes

TEST(Study, UnknownSettingIsRefused) {
  EXPECT_EQ(refusal(kWater + "vary:\n- clutsers: [2]\n"),
            "s.yaml:3:3: key 'clutsers': is not known; did you mean 'clusters'?");
  EXPECT_EQ(refusal(kWater + "base: {mode: real}\n"),
            "s.yaml:2:8: key 'mode': is not known; did you mean 'simulation.mode'?");
  EXPECT_EQ(
      refusal(kWater + "vary:\n- clusters: [2, 1025]\n"),
      "s.yaml:3:17: key 'clusters': 1025 is out of range; allowed: 1 to 1024; for more compute nodes take "
      "larger clusters ('compute')");
  EXPECT_EQ(refusal(kWater + "clusters: 2\n"),
            "s.yaml:2:1: key 'clusters': is a setting; put it below 'base' or 'vary'");
  EXPECT_EQ(refusal(kWater + "wher: []\n"), "s.yaml:2:1: key 'wher': is not known; did you mean 'where'?");
  EXPECT_EQ(refusal(kWater + "base: {wire: shm}\n"),
            "s.yaml:2:8: key 'wire': has no effect in simulations; remove it, or add 'engine: live'");
  EXPECT_EQ(refusal(kWater + "vary: [{watchdog_s: [1, 2]}]\n"),
            "s.yaml:2:9: key 'watchdog_s': has no effect in simulations; remove it, or add 'engine: live'");
}

TEST(Study, FileThatIsNoStudyIsRefused) {
  EXPECT_EQ(refusal(""), "s.yaml: a study is 'applications:' and what varies; see configs/study-small.yaml");
  EXPECT_EQ(refusal("- water\n"),
            "s.yaml:1:1: a study is 'applications:' and what varies; see configs/study-small.yaml");
  EXPECT_EQ(refusal("vary: []\n"), "s.yaml: has no 'applications'; add e.g. 'applications: [water]'");
  EXPECT_THAT(refusal("applications: water\n"),
              StartsWith("s.yaml:1:15: key 'applications': must be a list"));
  EXPECT_THAT(refusal("applications:\n"), StartsWith("s.yaml:1:1: key 'applications': must be a list"));
  EXPECT_EQ(refusal("applications:\n- {arguments: [1]}\n"),
            "s.yaml:2:3: key 'applications[0]': has no 'application'; add it");
  EXPECT_EQ(refusal("applications:\n- {application: water, argument: [1]}\n"),
            "s.yaml:2:24: key 'applications[0].argument': is not known; did you mean 'arguments'?");
  EXPECT_THAT(refusal("applications:\n- {application: water, arguments: --molecules 2}\n"),
              StartsWith("s.yaml:2:35: key 'applications[0].arguments': must be a list of words"));
  EXPECT_THAT(refusal(kWater + "vary: {proxies: [1]}\n"),
              StartsWith("s.yaml:2:7: key 'vary': must be a list of axes"));
  EXPECT_THAT(refusal(kWater + "vary: [proxies]\n"),
              StartsWith("s.yaml:2:8: key 'vary[0]': must be one axis"));
  EXPECT_THAT(refusal(kWater + "vary: [{proxies: 1}]\n"),
              StartsWith("s.yaml:2:18: key 'proxies': must have a list of values"));
  EXPECT_THAT(refusal(kWater + "where: proxies <= compute\n"),
              StartsWith("s.yaml:2:8: key 'where': must be a list of conditions"));
  EXPECT_THAT(refusal(kWater + "base: 3\n"), StartsWith("s.yaml:2:7: key 'base': must be settings"));
  EXPECT_THAT(refusal("applications: [water\n"), AllOf(StartsWith("s.yaml:"), HasSubstr("not YAML")));
  EXPECT_EQ(refusal(kWater + kWater), "s.yaml:2:1: key 'applications': is given twice; remove one of them");
}

TEST(Study, RefusesInvalidAxes) {
  EXPECT_EQ(
      refusal(kWater + "vary:\n- clusters: [16, 8]\n  compute: [1, 2, 4]\n"),
      "s.yaml:4:12: key 'compute': has 3 values and 'clusters', which goes with it, 2; let them have as "
      "many, or make it an axis of its own");
  EXPECT_EQ(refusal(kWater + "vary:\n- proxies: [1]\n- proxies: [2]\n"),
            "s.yaml:4:3: key 'proxies': is on two axes; let one have it");
  std::string many = kWater + "vary:\n";
  for (const char* const key : {"clusters", "compute", "proxies", "nis", "heap_mib", "faults.seed"})
    many += fmt::format("- {}: [1, 2, 3, 4, 5, 6, 7, 8]\n", key);
  EXPECT_EQ(refusal(many), "s.yaml: key 'vary': more than 100000 combinations; take fewer values");
}

// What the first point has that cannot be, with the models that come with the project; empty: nothing.
std::string contradiction(const std::string& yaml) {
  StudyPrograms programs("/nowhere", BRAID_CONFIGS "/models");
  const Result<void> good = programs.check(parsed(yaml).points.at(0));
  return good ? "" : good.error().text;
}

TEST(Study, RefusesAPointThatStandsThereTwice) {
  const std::string twice = "which is one point; remove one of them";
  EXPECT_EQ(refusal(kWater + "vary:\n- proxies: [1, 2, 1]\n"),
            "s.yaml:3:19: key 'proxies': has 'proxies 1' twice, " + twice);
  EXPECT_THAT(refusal(kWater + "vary:\n- faults.loss: [0.10, 0.1]\n"),
              HasSubstr("has 'faults.loss 0.1' twice"));
  EXPECT_THAT(refusal(kWater + "vary:\n- arguments.seed: [1, 1]\n"),
              HasSubstr("has 'arguments.seed 1' twice"));
  EXPECT_THAT(refusal(kWater + "vary:\n- {clusters: [2, 2], compute: [3, 3]}\n"),
              HasSubstr("has 'clusters 2, compute 3' twice"));
  EXPECT_EQ(refusal("applications: [water, jacobi, water]\n"),
            "s.yaml:1:31: key 'applications[2]': stands twice in the list, " + twice);
  EXPECT_THAT(points(kWater + "vary:\n- {clusters: [2, 2], compute: [3, 4]}\n"), SizeIs(2));
  EXPECT_THAT(points("applications: [water, {application: water, base: {protocol: lazy}}]\n"), SizeIs(2));
}

TEST(Study, RefusesWhatHasAnEffectInNoPoint) {
  const std::string loss = kWater + "vary:\n- faults.loss: [0, 0.1]\n- simulation.mode: ";
  EXPECT_EQ(
      refusal(loss + "[no-delay, no-contention]\n"),
      "s.yaml:3:3: key 'faults.loss': has no effect, for no point has simulation.mode real; remove it, or add that mode");
  EXPECT_THAT(points(loss + "[no-delay, real]\n"), SizeIs(4));
  EXPECT_THAT(refusal(kWater + "base: {simulation: {message_bytes: 100}}\n"),
              HasSubstr("no point has simulation.mode no-contention"));
  EXPECT_THAT(points(kWater + "base: {simulation: {message_bytes: 100, mode: no-contention}}\n"), SizeIs(1));
}

TEST(Study, RefusesWhatMessagesThatBypassTheProxiesDoNotMeet) {
  const std::string no_delay = kWater + "base: {simulation: {mode: no-delay}, ";
  EXPECT_EQ(
      refusal(no_delay + "transport: {ack_every: 4}}\n"),
      "s.yaml:2:50: key 'transport.ack_every': has no effect, for no point has simulation.mode real or no-contention; "
      "remove it, or add that mode");
  for (const char* const idle :
       {"proxies: 2", "nis: 2", "dispatch: least-loaded", "window_kib: 64", "cycles: {window_send: 5}",
        "cycles: {latency: 5}", "cycles: {wire_byte: 5}"})
    EXPECT_THAT(refusal(no_delay + idle + "}\n"), HasSubstr("has no effect")) << idle;
  for (const char* const acts : {"proxies: 1", "cycles: {unit: 5}", "cycles: {hand_over_byte: 5}",
                                 "faults: {seed: 5}", "engine: {fetch_ahead: 0}", "protocol: lazy"})
    EXPECT_THAT(points(no_delay + acts + "}\n"), SizeIs(1)) << acts;
  const std::string no_contention = kWater + "base: {simulation: {mode: no-contention}, ";
  for (const char* const acts : {"transport: {ack_every: 4}", "proxies: 2", "cycles: {latency: 5}"})
    EXPECT_THAT(points(no_contention + acts + "}\n"), SizeIs(1)) << acts;
  EXPECT_THAT(points("engine: live\n" + no_delay + "transport: {ack_every: 4}}\n"), SizeIs(1)) << "live";
}

TEST(Study, RefusesAnApplicationThatIsInNoPoint) {
  EXPECT_EQ(
      refusal(
          "applications: [jacobi, {application: water, where: [clusters > 8]}]\nvary: [{clusters: [2, 4]}]\n"),
      "s.yaml:1:24: key 'applications[1]': water is in no point; the conditions of 'where' exclude every combination; "
      "change them, or remove it");
  EXPECT_THAT(
      refusal("applications: [jacobi, water]\nvary: [{clusters: [2, 4]}]\nwhere: [application == water]\n"),
      HasSubstr("jacobi is in no point"));
}

TEST(Study, RefusesImpossiblePointsUnlessAConditionExcludesThem) {
  const std::string yaml = kWater + "base: {nis: 2}\nvary: [{proxies: [1, 2]}]\n";
  EXPECT_THAT(contradiction(yaml), StartsWith("s.yaml:2:8: key 'nis': 2 network interfaces for 1 proxies"));
  EXPECT_THAT(points(yaml + "where: [proxies >= nis]\n"), ElementsAre("water, proxies 2"));
  EXPECT_EQ(refusal(kWater + "vary: [{proxies: [1, 2]}]\nwhere: [proxies > 2]\n"),
            "s.yaml: no point is left; the conditions of 'where' exclude every combination");
  EXPECT_EQ(refusal(kWater + "where:\n- proxies <= compute\n- proxys == 1\n"),
            "s.yaml:4:3: key 'where': 'proxys' is not known; did you mean 'proxies'?");
}

TEST(Study, SettingsThatWereNotGivenAreTheModelsWhenRelationsAreChecked) {
  EXPECT_EQ(contradiction(kWater + "base: {transport: {ack_delay_us: 19999}}\n"), "")
      << "the model's min_rto_us is 20000, the default 500";
  EXPECT_EQ(
      contradiction(kWater + "base: {transport: {ack_delay_us: 20000}}\n"),
      "s.yaml:2:20: key 'transport.ack_delay_us': ack_delay_us (20000) must be shorter than min_rto_us (20000), or "
      "packets are retransmitted while their acknowledgement waits; lower the one or raise the other");
  EXPECT_THAT(contradiction(kWater + "base: {transport: {min_rto_us: 100}}\n"),
              StartsWith("s.yaml:2:20: key 'transport.min_rto_us': ack_delay_us (500) must be shorter"));
  EXPECT_EQ(contradiction(kWater + "vary: [{transport.ack_delay_us: [5000]}]\n"), "");
}

// --- the studies that come with the project

std::vector<StudyPoint> file(const std::string& name) {
  const Result<Study> study = load_study(std::string(BRAID_CONFIGS) + "/" + name);
  EXPECT_TRUE(study.ok()) << study.error().text;
  return study.ok() ? study->points : std::vector<StudyPoint>{};
}

TEST(Studies, WaterHasTheMachinesOfTable2) {
  std::set<std::tuple<int, int, int, std::string>> machines;
  for (const StudyPoint& p : file("study-water.yaml")) {
    EXPECT_THAT(p.command(), ElementsAre("water"));
    machines.insert({p.value_of("clusters"), p.value_of("compute"), p.value_of("proxies"),
                     p.value_of("simulation.mode").get<std::string>()});
  }
  std::set<std::tuple<int, int, int, std::string>> expected;
  for (const auto& [clusters, compute, proxies] :
       {std::tuple{16, 1, 1}, {8, 2, 1}, {8, 2, 2}, {4, 4, 2}, {2, 8, 2}, {2, 8, 3}}) {
    for (const char* const mode : {"real", "no-delay"}) expected.insert({clusters, compute, proxies, mode});
  }
  EXPECT_EQ(machines, expected);
}

TEST(Studies, TheMatrixHasAllProxiesThatAClusterMayHave) {
  std::map<std::string, std::set<std::pair<int, int>>>
      proxies;  // of each application: clusters, proxies in all
  std::map<std::string, int> no_delay;
  for (const StudyPoint& p : file("study-matrix.yaml")) {
    const int clusters = p.value_of("clusters"), each = p.value_of("proxies"),
              compute = p.value_of("compute");
    EXPECT_EQ(clusters * compute, 16);
    if (p.value_of("simulation.mode") == "real") proxies[p.application].insert({clusters, clusters * each});
    if (p.value_of("simulation.mode") == "no-delay") ++no_delay[p.application];
  }
  const std::set<std::pair<int, int>> all = {{16, 16}, {8, 8}, {8, 16}, {4, 4}, {4, 8},
                                             {4, 16},  {2, 2}, {2, 4},  {2, 8}, {2, 16}};
  ASSERT_THAT(proxies, SizeIs(8));
  for (const auto& [application, machines] : proxies) {
    EXPECT_EQ(machines, all) << application;
    EXPECT_EQ(no_delay[application], 5 * 5) << application << ": cluster sizes, seeds";
  }
}

TEST(Studies, EachFileIsAStudy) {
  int studies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BRAID_CONFIGS)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("study-")) continue;
    ++studies;
    EXPECT_THAT(file(name), SizeIs(::testing::Ge(1u))) << name;
  }
  EXPECT_GE(studies, 20);
}

TEST(Studies, SmallStudyIsSmall) {
  EXPECT_THAT(file("study-small.yaml"), SizeIs(AllOf(::testing::Ge(20u), ::testing::Le(100u))));
}

// --- stored results

TEST(StudyResults, SettingsOfAPointAreWrittenAsAnEqualConfigurationFile) {
  const Study study = parsed(kWater +
                             "base:\n  simulation: {model: \"a b.yaml\", mode: real}\n"
                             "  transport: {mtu_bytes: auto, all_pairs: true}\n"
                             "  faults: {loss: 0.015, seed: 18446744073709551615}\n"
                             "vary: [{dispatch: [round-robin]}]\n");
  ASSERT_THAT(study.points, SizeIs(1));
  const std::string yaml = settings_yaml(study.points[0], 321);
  settings::Collector<settings::RunConfig> builder;
  const Result<void> read = settings::load_yaml(builder, yaml, "point.yaml");
  ASSERT_TRUE(read.ok()) << read.error().text << "\n" << yaml;
  settings::RunConfig expected = study.points[0].settings.unchecked();
  expected.simulation.message_bytes = 321;
  EXPECT_EQ(settings::json_of(builder.unchecked()), settings::json_of(expected)) << yaml;
  EXPECT_TRUE(builder.is_given("transport.mtu_bytes")) << "what is given holds against the model";
  EXPECT_FALSE(builder.is_given("transport.fragmentation"));
}

class Origins : public ::testing::Test {
 protected:
  Json origin(const std::string& yaml) {
    const Study study = parsed("applications: [{application: " + program_.path() + ", arguments: [a]}]\n" +
                               "base: {simulation: {model: " + model_.path() + "}}\n" + yaml);
    StudyPrograms programs(engine_.path(), "/nowhere");
    const Result<Json> made = programs.origin(study.points.at(0));
    EXPECT_TRUE(made.ok()) << made.error().text;
    return made.ok() ? *made : Json();
  }
  static void rewrite(const testing::TemporaryFile& file, const std::string& text) {
    ASSERT_TRUE(write_file(file.path(), text).ok());
    ASSERT_EQ(::chmod(file.path().c_str(), 0700), 0);
  }

  const testing::TemporaryFile engine_{"engine", 0700}, program_{"program", 0700},
      model_{"model", 0600, ".yaml"};
};

TEST_F(Origins, ChangeWithEverythingThatAResultFollowsFrom) {
  const Json before = origin("");
  EXPECT_EQ(origin(""), before);
  EXPECT_EQ(origin("vary: [{clusters: [2]}]\n"), before) << "2 is the default";
  EXPECT_NE(origin("vary: [{clusters: [3]}]\n"), before);
  EXPECT_NE(origin("vary: [{arguments.seed: [1]}]\n"), before);
  EXPECT_NE(origin("vary: [{transport.fragmentation: [transport]}]\n"), before)
      << "it is the default, and where it is not given the model's holds";
  for (const testing::TemporaryFile* const file : {&engine_, &program_, &model_}) {
    const std::string text = file->text();
    rewrite(*file, text + "!");
    EXPECT_NE(origin(""), before) << text;
    EXPECT_NE(name_of(origin("")), name_of(before)) << text;
    rewrite(*file, text);
    EXPECT_EQ(origin(""), before) << text;
  }
}

TEST_F(Origins, NoContentionAsksTheRealRunForItsMessagesUnlessTheirLengthIsGiven) {
  const Json real = origin("vary: [{clusters: [4]}]\n");
  EXPECT_FALSE(real_twin(real));
  const std::string mode = "vary: [{clusters: [4]}, {simulation.mode: [no-contention]}";
  ASSERT_TRUE(real_twin(origin(mode + "]\n")));
  EXPECT_EQ(*real_twin(origin(mode + "]\n")), real);
  EXPECT_FALSE(real_twin(origin(mode + ", {simulation.message_bytes: [100]}]\n")));
}

TEST_F(Origins, AResultCountsOnlyWhereItComesFromTheSame) {
  const testing::TemporaryFile file("", 0600, ".json");
  const Json here = origin(""), other = origin("vary: [{clusters: [3]}]\n");
  PointResult result;
  result.seconds = 1.5;
  result.report["parallel_cycles"] = 7;
  ASSERT_TRUE(store_result(file.path(), here, result).ok());
  const std::optional<PointResult> loaded = load_result(file.path(), here);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->seconds, 1.5);
  EXPECT_EQ(loaded->report, result.report);
  EXPECT_FALSE(load_result(file.path(), other)) << "two hashes may be equal";
  rewrite(file, file.text().substr(0, file.text().size() / 2));
  EXPECT_FALSE(load_result(file.path(), here)) << "cut short";
  EXPECT_FALSE(load_result("/nonexistent/x.json", here));
}

// --- the table

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> all;
  std::stringstream in(line + ",");
  for (std::string cell; std::getline(in, cell, ',');) all.push_back(cell);
  return all;
}

TEST(PointsCsv, HasARowForEachPointAndAColumnForEachKeyAndFigure) {
  const Study study = parsed(
      "applications: [{application: tsp, arguments: [--cities, '10,5\"']}]\n"
      "base: {compute: 4}\n"
      "vary: [{arguments.seed: [1, 2]}, {simulation.proxy_speed: [0.5]}]\n");
  PointResult whole;
  whole.report = nlohmann::ordered_json::parse(R"({"parallel_cycles": 1000, "messages": {"mean_cycles": 12.5},
      "mean_queue": 0.25, "trace_hash": "00ff", "deterministic": true, "shares": {"locks": 0.125},
      "proxies": [{"most_queued": 3, "utilisation": 0.75}, {"most_queued": 9, "utilisation": 0.5}]})");
  PointResult empty;
  empty.report = nlohmann::ordered_json::object();
  std::stringstream csv(
      points_csv(study.varied, {{&study.points[0], "n0", whole}, {&study.points[1], "n1", empty}}));
  std::string head, first, second, rest;
  ASSERT_TRUE(std::getline(csv, head) && std::getline(csv, first) && std::getline(csv, second));
  EXPECT_FALSE(std::getline(csv, rest));

  EXPECT_THAT(head,
              StartsWith("application,arguments,clusters,compute,proxies,simulation.mode,arguments.seed,"
                         "simulation.proxy_speed,parallel_cycles,whole_cycles,messages,"));
  EXPECT_THAT(first, StartsWith("tsp,\"--cities 10,5\"\"\",2,4,1,real,1,0.5,1000,,"));
  EXPECT_THAT(second, StartsWith("tsp,\"--cities 10,5\"\"\",2,4,1,real,2,0.5,,,"));
  // The quoted cell has a comma, so there is one cell more than names.
  const std::vector<std::string> names = cells(head), values = cells(first);
  ASSERT_EQ(names.size() + 1, values.size());
  EXPECT_EQ(cells(second).size(), values.size());
  std::map<std::string, std::string> by_name;
  for (std::size_t i = 2; i < names.size(); ++i) by_name[names[i]] = values[i + 1];
  EXPECT_EQ(by_name["message_cycles"], "12.5");
  EXPECT_EQ(by_name["queue"], "0.25");
  EXPECT_EQ(by_name["trace_hash"], "00ff");
  EXPECT_EQ(by_name["deterministic"], "true");
  EXPECT_EQ(by_name["share_locks"], "0.125");
  EXPECT_EQ(by_name["most_queued"], "9");
  EXPECT_EQ(by_name["largest_utilisation"], "0.75");
  EXPECT_EQ(by_name["point"], "n0");
}

// --- mean value analysis

// Two machines that fail after 3 and are repaired for 1 by one man: he is busy with 1 - 1 / (1 + 2 r + 2 r r), r = 1 / 3.
TEST(MeanValues, OfOneQueueAreThoseOfTheMachineRepairman) {
  const MeanValues values = mean_values(2, 3, 1, 1, 1);
  EXPECT_NEAR(values.rate, 1 - 1 / (1 + 2.0 / 3 + 2.0 / 9), 1e-12);
  EXPECT_NEAR(values.stay, 2 / values.rate - 3, 1e-12);
  EXPECT_EQ(mean_values(1, 3, 4, 2, 1).stay, 2) << "alone there is no wait";
}

class MvaCsv : public ::testing::Test {
 protected:
  // A point's report; cycles of parallel(), 10 messages.
  static nlohmann::ordered_json report(int parallel, double message, double network, double waits,
                                       double idle, double busy) {
    return {
        {"parallel_cycles", parallel},
        {"messages",
         {{"count", 10}, {"mean_cycles", message}, {"mean_network", network}, {"mean_wait_for_link", waits}}},
        {"mean_utilisation", busy},
        {"fixed_delay_cycles", idle}};
  }
  std::vector<std::string> lines(const nlohmann::ordered_json& real,
                                 const nlohmann::ordered_json& free) const {
    std::vector<Row> rows;
    for (const StudyPoint& point : study_.points)
      rows.push_back({&point,
                      "p" + std::to_string(rows.size()),
                      {1, point.value_of("simulation.mode") == "real" ? real : free}});
    std::stringstream csv(mva_csv(study_.varied, rows));
    std::vector<std::string> all;
    for (std::string line; std::getline(csv, line);) all.push_back(line);
    return all;
  }

  const Study study_ = parsed(
      "applications: [{application: tsp}]\n"
      "base: {compute: 1}\n"
      "vary: [{simulation.mode: [no-delay, no-contention, real]}]\n");
};

// Two customers and two equal stations. Without think time or link the throughput is N / (N + K - 1) / service, so a message
// takes 3 services; N T / messages = 2000 is the idle message.
TEST_F(MvaCsv, HasARowForEachRealPoint) {
  EXPECT_THAT(
      lines(report(15000, 2900, 7, 7, 1, 0.5), report(10000, 1, 9, 9, 2000, 0)),
      ElementsAre(
          "application,arguments,clusters,compute,proxies,simulation.mode,message_cycles,mva_message_cycles,"
          "utilisation,mva_utilisation,point",
          StartsWith("tsp,,2,1,1,real,2900.0,3000.0,0.5,0.66666")));
}

// Thinks 2000 and is on the link for 1000: alone 1000 of 5000 at a station, so the second finds 0.2 there: 1000 + 2 x 1200.
// The rate is 2 / (2000 + 3400).
TEST_F(MvaCsv, KnowsTheLinkWithoutItsWaits) {
  EXPECT_THAT(lines(report(15000, 3500, 1500, 500, 1, 0.25), report(25000, 1, 9, 9, 3000, 0)),
              ElementsAre(::testing::_, StartsWith("tsp,,2,1,1,real,3500.0,3400.0,0.25,0.370370")));
}

TEST_F(MvaCsv, HasNoRowWhereAFigureIsMissingOrNothingIsSent) {
  const nlohmann::ordered_json good = report(15000, 2900, 7, 7, 1, 0.5);
  for (const char* const missing : {"/messages/mean_network", "/messages/mean_wait_for_link",
                                    "/messages/mean_cycles", "/mean_utilisation"}) {
    nlohmann::ordered_json real = good;
    real[nlohmann::ordered_json::json_pointer(missing)] = nullptr;
    EXPECT_EQ(lines(real, report(10000, 1, 9, 9, 2000, 0)).size(), 1u) << missing;
  }
  nlohmann::ordered_json silent = report(10000, 1, 9, 9, 2000, 0);
  silent["messages"]["count"] = 0;
  EXPECT_EQ(lines(good, silent).size(), 1u);
  EXPECT_EQ(lines(good, nlohmann::ordered_json::object()).size(), 1u);
}

TEST(QueuesCsv, HasARowForEachIntervalOfEachProxyAndEveryPointOnce) {
  const auto row = [](const std::string& name, const std::string& report) {
    return Row{nullptr, name, {1, nlohmann::ordered_json::parse(report)}};
  };
  const std::string two = R"({"parallel_cycles": 1000, "proxies": [
      {"cluster": 0, "proxy": 0,
       "queue_over_time": {"interval_cycles": 409.6, "mean": [0.5, 2, 0.125], "most": [1, 3, 2]}},
      {"cluster": 1, "proxy": 0, "queue_over_time": {"interval_cycles": 2000, "mean": [4], "most": [9]}}]})";
  EXPECT_EQ(
      queues_csv({row("a", two), row("a", two), row("b", R"({"parallel_cycles": 5, "proxies": []})"),
                  row("c", R"({"parallel_cycles": 5})"), row("d", R"({"proxies": [{}]})"),
                  row("e", R"({"parallel_cycles": 5, "proxies": [7, {"queue_over_time": {"mean": [1]}}]})")}),
      "point,cluster,proxy,from_cycles,to_cycles,mean,most\n"
      "a,0,0,0,409.6,0.5,1\n"
      "a,0,0,409.6,819.2,2,3\n"
      "a,0,0,819.2,1000,0.125,2\n"
      "a,1,0,0,1000,4,9\n");
}

}  // namespace
}  // namespace braid::cli
