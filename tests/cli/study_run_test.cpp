// `braid study` as users see it, with a stand-in for the engine: the points that are run, the results that are kept
// when a study ends early, and the reports of points that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/json.h"
#include "tests/base/temporary_folder.h"
#include "tests/cli/command.h"

namespace braid::cli {
namespace {

using ::testing::AllOf;
using testing::Command;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::json;
namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class StudyRun : public ::testing::Test {
 protected:
  // A study of the stand-in; `applications` are the entries' arguments, axes and so on.
  std::string study(const std::vector<std::string>& entries, const std::string& rest,
                    const std::string& name = "study.yaml") const {
    std::ofstream out(folder_ / name);
    out << "applications:\n";
    for (const std::string& entry : entries)
      out << "- {application: " << FAKE_APP << (entry.empty() ? "" : ", ") << entry << "}\n";
    out << rest;
    return folder_ / name;
  }
  std::string out() const { return folder_ / "out"; }
  Command::Variables variables() const {
    return {{"TERM", "xterm"},
            {"BRAID_STUDY_ENGINE", FAKE_ENGINE},
            {"FAKE_ENGINE_DIARY", folder_ / "diary"},
            {"FAKE_ENGINE_GATE", folder_ / "gate"}};
  }
  std::vector<std::string> line(const std::string& file, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {BRAID_COMMAND, "study", file, "-o", out()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Finished run(const std::string& file, const std::vector<std::string>& more = {}) const {
    return cli::testing::run(line(file, more), variables());
  }
  // The runs that began since the last call, without the program's long name.
  std::vector<std::string> began() {
    std::vector<std::string> all;
    for (std::string line : lines_of(text_of(folder_ / "diary"))) {
      if (!line.starts_with("began ")) continue;
      line = line.substr(6);
      if (line.starts_with(FAKE_APP)) line = line.substr(std::string(FAKE_APP).size());
      if (const auto end = line.find("; 1 processors"); end != std::string::npos) line.resize(end);
      all.push_back(line.starts_with(", ") ? line.substr(2) : line);
    }
    fs::remove(folder_ / "diary");
    return all;
  }
  std::vector<std::string> table() const { return lines_of(text_of(out() + "/points.csv")); }
  Json everything() const { return Json::parse(text_of(out() + "/study.json"), nullptr, false); }

  TemporaryFolder folder_;
};

TEST_F(StudyRun, RunsEveryPointAndWritesTheResults) {
  const Finished done = run(study({""}, "vary: [{clusters: [2, 4]}, {proxies: [1, 2]}]\n"));
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(done.out, IsEmpty());
  EXPECT_THAT(began(), UnorderedElementsAre("clusters 2, proxies 1", "clusters 2, proxies 2",
                                            "clusters 4, proxies 1", "clusters 4, proxies 2"))
      << "each is told to one processor";
  ASSERT_THAT(table(), SizeIs(5));
  EXPECT_THAT(table()[0],
              StartsWith("application,arguments,clusters,compute,proxies,simulation.mode,parallel_cycles"));
  EXPECT_THAT(table()[3], StartsWith(std::string(FAKE_APP) + ",,4,2,1,real,1000,,10,321.75,"))
      << "in the file's order";
  const Json all = everything();
  ASSERT_THAT(all["points"], SizeIs(4));
  EXPECT_EQ(all["varied"], Json({"clusters", "proxies"}));
  EXPECT_EQ(all["points"][3]["settings"], Json({{"clusters", 4}, {"proxies", 2}}));
  EXPECT_EQ(all["points"][3]["report"]["messages"]["mean_bytes"], 321.75);
  EXPECT_THAT(all["failed"], IsEmpty());
  EXPECT_EQ(all["missing"], 0);
  const std::string name = all["points"][3]["point"];
  EXPECT_THAT(text_of(out() + "/points/" + name + ".log"), HasSubstr("the program says"));
  EXPECT_THAT(text_of(out() + "/points/" + name + ".yaml"), HasSubstr("proxies: 2"));
  EXPECT_FALSE(fs::exists(out() + "/points/" + name + ".report"));
  EXPECT_THAT(done.err, ContainsRegex("\\(2 of 4, about [0-9]+ s left\\)"));
}

TEST_F(StudyRun, FinishedPointsAreNotRunAgain) {
  ASSERT_EQ(run(study({""}, "vary: [{clusters: [2, 4]}]\n")).status, 0);
  ASSERT_THAT(began(), SizeIs(2));
  const std::vector<std::string> before = table();
  const Finished again = run(study({""}, "vary: [{clusters: [2, 4]}]\n"));
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(began(), IsEmpty());
  EXPECT_EQ(table(), before);
  EXPECT_THAT(again.err, HasSubstr("2 are finished already"));

  ASSERT_EQ(run(study({""}, "vary: [{clusters: [2, 3, 4]}]\n")).status, 0);
  EXPECT_THAT(began(), ElementsAre("clusters 3")) << "of a larger study only what is new";
  EXPECT_THAT(table(), SizeIs(4));
}

TEST_F(StudyRun, TruncatedResultIsRunAgain) {
  const std::string file = study({""}, "vary: [{clusters: [2, 4]}]\n");
  ASSERT_EQ(run(file).status, 0);
  ASSERT_THAT(began(), SizeIs(2));
  const std::string name = everything()["points"][1]["point"];
  fs::resize_file(out() + "/points/" + name + ".json", 40);
  ASSERT_EQ(run(file).status, 0);
  EXPECT_THAT(began(), ElementsAre("clusters 4"));
  EXPECT_THAT(table(), SizeIs(3));
}

TEST_F(StudyRun, EqualPointsRunOnceAndHaveARowEach) {
  ASSERT_EQ(run(study({"base: {proxies: 1}", "base: {dispatch: rr}"}, "")).status, 0);
  EXPECT_THAT(began(), SizeIs(1));
  ASSERT_THAT(table(), SizeIs(3));
  EXPECT_EQ(table()[1], table()[2]);
}

TEST_F(StudyRun, ContinuesAfterBeingKilled) {
  const std::string file =
      study({""}, "vary: [{arguments.hold: [0, 1], clusters: [2, 3]}, {proxies: [1, 2]}]\n");
  {
    Command first(line(file, {"--jobs", "4"}), variables());
    ASSERT_TRUE(first.expect("(2 of 4"));
    // The two that are held have begun too; each writes its line when it is scheduled.
    const auto lines = [&] { return lines_of(text_of(folder_ / "diary")).size(); };
    for (int waited_ms = 0; lines() < 4 + 2 && waited_ms < 20'000; ++waited_ms) ::usleep(1000);
    first.signal(SIGKILL);
    EXPECT_EQ(first.wait().status, 128 + SIGKILL);
    EXPECT_THAT(first.left_over(), IsEmpty()) << "its points die with it";
  }
  EXPECT_THAT(began(), SizeIs(4));
  std::ofstream(folder_ / "gate") << "open";
  const Finished second = run(file);
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(second.err, HasSubstr("4 points; 2 are finished already"));
  EXPECT_THAT(began(), UnorderedElementsAre("arguments.hold 1, clusters 3, proxies 1",
                                            "arguments.hold 1, clusters 3, proxies 2"));
  EXPECT_THAT(table(), SizeIs(5));
}

TEST_F(StudyRun, InterruptKeepsFinishedPoints) {
  const std::string file = study({""}, "vary: [{arguments.hold: [0, 1], clusters: [2, 3]}]\n");
  Command command(line(file, {"--jobs", "1"}), variables());
  ASSERT_TRUE(command.expect("(1 of 2"));
  command.signal(SIGINT);
  const Finished& done = command.wait();
  EXPECT_EQ(done.status, 128 + SIGINT);
  EXPECT_THAT(command.left_over(), IsEmpty());
  EXPECT_THAT(done.err, HasSubstr("interrupted; 1 of 2 are finished, and the same command runs the rest"));
  EXPECT_THAT(table(), SizeIs(2));
  EXPECT_EQ(everything()["missing"], 1);
}

TEST_F(StudyRun, FailedPointsAreReportedWithTheirCommand) {
  const std::string file =
      study({"arguments: [--exit=3, it's]", "arguments: [--raise=9]", "arguments: [--unreported]", ""}, "");
  const Finished done = run(file);
  EXPECT_EQ(done.status, 1);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("3 of 4 failed:"), HasSubstr("exited with status 3; its output is in"),
                    HasSubstr("was killed by signal 9 (Killed)"), HasSubstr("wrote no report")));
  EXPECT_THAT(table(), SizeIs(2)) << "the others are there";
  const Json failed = everything()["failed"];
  ASSERT_THAT(failed, SizeIs(3));
  EXPECT_EQ(failed[0]["failure"], "exited with status 3");
  const std::string repeat = failed[0]["repeat"];
  EXPECT_THAT(repeat, AllOf(StartsWith(std::string(FAKE_ENGINE) + " sim --config "),
                            HasSubstr(" --exit=3 'it'\\''s'")));
  EXPECT_THAT(done.err, HasSubstr(repeat));
  const Finished repeated = testing::run({"/bin/sh", "-c", repeat}, variables());
  EXPECT_EQ(repeated.status, 3);
  EXPECT_THAT(repeated.err, HasSubstr("the engine complains"));
  EXPECT_THAT(text_of(out() + "/points/" + std::string(failed[0]["point"]) + ".log"),
              AllOf(HasSubstr("the program says"), HasSubstr("the engine complains")));
  began();

  EXPECT_EQ(run(file).status, 1);
  EXPECT_THAT(began(), SizeIs(3)) << "they are tried again";
}

TEST_F(StudyRun, PointBeyondItsLimitIsStoppedAndTheOthersContinue) {
  const std::string vary = "vary: [{arguments.child: [1, 0], arguments.hold: [1, 0]}, {proxies: [1, 2]}]\n";
  const std::string file = study({""}, vary + "limit_s: 3000\n");
  const Finished done = run(file, {"--limit", "2.5", "--jobs", "3"});  // no process is left: run() looks
  EXPECT_EQ(done.status, 1);
  EXPECT_GE(done.seconds, 2.5);
  const std::string why =
      "was stopped: it took longer than 2.5 s; --limit, or 'limit_s' in the study's file, gives it more";
  EXPECT_THAT(done.err, AllOf(HasSubstr("2 of 4 failed:"), HasSubstr(why)));
  EXPECT_THAT(began(), SizeIs(4));
  EXPECT_THAT(table(), SizeIs(1 + 2)) << "the others are there";
  const Json failed = everything()["failed"];
  ASSERT_THAT(failed, SizeIs(2));
  for (const Json& point : failed) {
    EXPECT_EQ(point["failure"], why);
    EXPECT_EQ(point["varied_arguments"]["hold"], "1");
    EXPECT_FALSE(fs::exists(out() + "/points/" + std::string(point["point"]) + ".report"));
  }

  // Only the failed point is run again.
  const Finished again = run(study({""}, vary + "limit_s: 1.5\n"));
  EXPECT_EQ(again.status, 1);
  EXPECT_THAT(again.err, HasSubstr("it took longer than 1.5 s"));
  EXPECT_THAT(began(), SizeIs(2));
  std::ofstream(folder_ / "gate") << "open";
  EXPECT_EQ(run(study({""}, vary + "limit_s: 0\n")).status, 0) << "0 is no limit";
  EXPECT_THAT(began(), SizeIs(2));
  EXPECT_THAT(table(), SizeIs(5));
  EXPECT_THAT(everything()["failed"], IsEmpty());
}

TEST_F(StudyRun, TerminalShowsProgressInOneLine) {
  // The times that the two finished points took.
  const std::string two = "vary: [{clusters: [2, 3]}]";
  ASSERT_EQ(run(study({two}, "")).status, 0);
  const Json finished = everything()["points"];
  for (const Json& point : finished) {
    const std::string path = out() + "/points/" + std::string(point["point"]) + ".json";
    Json json = Json::parse(text_of(path));
    json["seconds"] = point["settings"]["clusters"] == 2 ? 7200 : 7230;
    std::ofstream(path) << json;
  }
  const std::string held = "vary: [{clusters: [4, 5], arguments.hold: [1, 1]}]";
  Command command(line(study({two, "arguments: [--exit=7]", held}, ""), {"--jobs", "1"}), variables(), "",
                  Command::Input::kPipe, Command::Errors::kTerminal);
  // Two more, one after the other, of 7215 s each: half a minute lies between this and "4 h 0 min".
  ASSERT_TRUE(command.expect("\r\x1b[Kbraid study: 3 of 5, 1 failed, about 4 h 0 min left"))
      << command.so_far().err;
  std::ofstream(folder_ / "gate") << "open";
  const Finished& done = command.wait();
  EXPECT_EQ(done.status, 1);
  // The final contents of the screen: of each line the part after its last restart.
  std::vector<std::string> screen;
  for (std::string row : lines_of(done.err)) {
    if (const auto anew = row.rfind("\r\x1b[K"); anew != std::string::npos) row = row.substr(anew + 4);
    if (row.ends_with("\r")) row.pop_back();
    screen.push_back(row);
  }
  ASSERT_GE(screen.size(), 3u) << done.err;
  EXPECT_EQ(screen[0], "braid study: 5 points; 2 are finished already; 3 left, 1 at a time, about 6 h 0 min");
  EXPECT_EQ(screen[1], "braid study: 5 of 5, 1 failed");
  EXPECT_EQ(screen[2], "braid study: 1 of 5 failed:");
  EXPECT_EQ(screen.back(), "braid study: 4 points in " + out() + "/points.csv");
}

TEST_F(StudyRun, ProgressDoesNotReachTheTerminalsLastColumn) {
  const std::string held = "vary: [{arguments.hold: [0, 1]}]";
  Command command(line(study({held}, ""), {"--jobs", "1"}), variables(), "", Command::Input::kPipe,
                  Command::Errors::kTerminal);
  ASSERT_TRUE(command.expect("\r\x1b[Kbraid study: 1 of 2")) << command.so_far().err;
  command.resize_terminal(18);
  ASSERT_TRUE(command.expect("\r\x1b[Kbraid study: 1 of\r\x1b[K", 1)) << command.so_far().err;
  command.resize_terminal(80);
  ASSERT_TRUE(command.expect("\r\x1b[Kbraid study: 1 of 2", 2)) << command.so_far().err;
  std::ofstream(folder_ / "gate") << "open";
  EXPECT_EQ(command.wait().status, 0);
}

TEST_F(StudyRun, DumbTerminalGetsALineForEachPoint) {
  Command::Variables dumb = variables();
  dumb["TERM"] = "dumb";
  Command command(line(study({"vary: [{clusters: [2, 3]}]"}, ""), {"--jobs", "1"}), dumb, "",
                  Command::Input::kPipe, Command::Errors::kTerminal);
  const Finished& done = command.wait();
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, Not(HasSubstr("\x1b")));
  EXPECT_THAT(done.err, HasSubstr("(1 of 2"));
  EXPECT_THAT(done.err, HasSubstr("(2 of 2"));
}

TEST_F(StudyRun, RemainingTimeDecreases) {
  ASSERT_EQ(run(study({""}, "vary: [{arguments.hold: [0]}]\n")).status, 0);
  const std::string path = out() + "/points/" + std::string(everything()["points"][0]["point"]) + ".json";
  Json json = Json::parse(text_of(path));
  json["seconds"] = 50;
  std::ofstream(path) << json;
  Command command(line(study({""}, "vary: [{arguments.hold: [0, 1]}]\n")), variables(), "",
                  Command::Input::kPipe, Command::Errors::kTerminal);
  ASSERT_TRUE(command.expect(" s left", 3)) << command.so_far().err;
  const std::string text = command.so_far().err;
  const std::regex said("\r\x1b\\[Kbraid study: 1 of 2, about ([0-9]+) s left");
  std::vector<int> left;
  for (std::sregex_iterator i(text.begin(), text.end(), said), end; i != end; ++i)
    left.push_back(std::stoi((*i)[1]));
  ASSERT_GE(left.size(), 3u) << text;
  EXPECT_LE(left[0], 50);
  EXPECT_GE(left[0], 50 - 20) << "it is told every second";
  for (std::size_t i = 1; i < left.size(); ++i) EXPECT_LE(left[i], left[i - 1]) << text;
  EXPECT_LE(left.back(), left[0] - 2 + 1) << "a refresh is a second";
  command.signal(SIGINT);
  EXPECT_EQ(command.wait().status, 128 + SIGINT);
  EXPECT_THAT(command.so_far().err, HasSubstr("\r\nbraid study: interrupted; 1 of 2 are finished"));
}

TEST_F(StudyRun, NoContentionTakesTheMessagesLengthFromTheRealPoint) {
  const std::string file =
      study({""}, "vary: [{clusters: [2, 4]}, {simulation.mode: [no-contention, real]}]\n");
  const Finished done = run(file, {"--jobs", "4"});
  ASSERT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(began(),
              UnorderedElementsAre("clusters 2, simulation.mode real", "clusters 4, simulation.mode real",
                                   "clusters 2, simulation.mode no-contention; message_bytes: 321",
                                   "clusters 4, simulation.mode no-contention; message_bytes: 321"));
  // Without a real run, or if that failed, the point measures the length itself.
  fs::remove_all(out());
  ASSERT_EQ(run(study({""}, "vary: [{simulation.mode: [no-contention]}]\n")).status, 0);
  EXPECT_THAT(began(), ElementsAre("simulation.mode no-contention"));
}

TEST_F(StudyRun, NumberOfConcurrentPointsIsLimited) {
  const Finished done = run(study({""}, "vary: [{clusters: [2, 3, 4, 5]}]\n"), {"--jobs", "1"});
  ASSERT_EQ(done.status, 0);
  std::vector<std::string> words;
  for (const std::string& entry : lines_of(text_of(folder_ / "diary"))) words.push_back(entry.substr(0, 5));
  EXPECT_THAT(words, ElementsAre("began", "ended", "began", "ended", "began", "ended", "began", "ended"));
}

TEST_F(StudyRun, TwoStudiesDoNotShareAFolder) {
  const std::string file = study({""}, "vary: [{arguments.hold: [1]}]\n");
  Command first(line(file), variables());
  ASSERT_TRUE(first.expect("1 point; "));
  const Finished second = run(file);
  EXPECT_EQ(second.status, 73);
  EXPECT_THAT(second.err,
              HasSubstr("another study is writing there; wait for its end, or name another folder"));
}

TEST_F(StudyRun, ErrorsAreReportedBeforeAnyPointRuns) {
  const Finished misspelt = run(study({""}, "vary: [{clutsers: [1]}]\n"));
  EXPECT_EQ(misspelt.status, 78);
  EXPECT_THAT(misspelt.err,
              HasSubstr("study.yaml:3:9: key 'clutsers': is not known; did you mean 'clusters'?"));
  EXPECT_EQ(run(folder_ / "missing.yaml").status, 78);

  const std::string good = study({""}, "");
  const Finished nowhere = testing::run({BRAID_COMMAND, "study", good}, variables());
  EXPECT_EQ(nowhere.status, 64);
  EXPECT_THAT(nowhere.err, HasSubstr("name a folder for the results, e.g. '-o results'"));
  EXPECT_EQ(testing::run({BRAID_COMMAND, "study", good, "-o", "/proc/nowhere"}, variables()).status, 73);
  const Finished dash = testing::run({BRAID_COMMAND, "study", good, "-o", "-"}, variables());
  EXPECT_EQ(dash.status, 73);
  EXPECT_THAT(dash.err,
              HasSubstr("-: results are a folder of files, and standard output takes one; name a folder"));
  EXPECT_EQ(run(good, {"--jobs", "0"}).status, 64);

  std::ofstream(folder_ / "other.yaml") << "applications: [xyzzyplugh]\n";
  const Finished unknown = run(folder_ / "other.yaml");
  EXPECT_EQ(unknown.status, 78);
  EXPECT_THAT(unknown.err, HasSubstr("application 'xyzzyplugh' is not in "));
  std::ofstream(folder_ / "model.yaml")
      << "applications: [" << FAKE_APP << "]\nbase: {simulation: {model: nothing}}\n";
  const Finished model = run(folder_ / "model.yaml");
  EXPECT_EQ(model.status, 78);
  EXPECT_THAT(model.err, HasSubstr("there is no cost model 'nothing'; there are: "));
  EXPECT_THAT(began(), IsEmpty());
}

TEST_F(StudyRun, ListsItsPoints) {
  const std::string file = study({""}, "vary: [{clusters: [2, 4]}]\n");
  const Finished done = testing::run({BRAID_COMMAND, "study", file, "--list"});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(lines_of(done.out),
              ElementsAre(std::string(FAKE_APP) + ", clusters 2", std::string(FAKE_APP) + ", clusters 4"));
  EXPECT_THAT(done.err, HasSubstr("braid study: 2 points; 2 left, "));
}

TEST_F(StudyRun, ListsWhatIsLeftAndAboutHowLongItTakes) {
  ASSERT_EQ(run(study({"vary: [{clusters: [2]}]"}, "")).status, 0);
  const std::string path = out() + "/points/" + std::string(everything()["points"][0]["point"]) + ".json";
  Json json = Json::parse(text_of(path));
  json["seconds"] = 65;
  std::ofstream(path) << json;
  const auto listed = [&](const std::string& file) {
    std::vector<std::string> words = line(file, {"--list", "--jobs", "1"});
    return testing::run(words, variables());
  };
  const Finished done = listed(study({"vary: [{clusters: [2, 4, 5]}]"}, ""));
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_THAT(lines_of(done.out),
              ElementsAre(std::string(FAKE_APP) + ", clusters 4", std::string(FAKE_APP) + ", clusters 5"));
  EXPECT_THAT(done.err, HasSubstr("3 points; 1 is finished already; 2 left, 1 at a time, about 2 min 10 s"));
  // The result is of another engine now, and has to be made again; how long it took is known all the same.
  json["origin"]["engine"] = "another";
  std::ofstream(path) << json;
  const Finished changed = listed(study({"vary: [{clusters: [2]}]"}, ""));
  EXPECT_THAT(lines_of(changed.out), ElementsAre(std::string(FAKE_APP) + ", clusters 2"));
  EXPECT_THAT(changed.err, HasSubstr("1 point; 1 left, 1 at a time, about 1 min 5 s"));
}

// --- Live runs. --oversubscribe: whatever processors this host has.

class LiveStudy : public StudyRun {
 protected:
  static constexpr const char* kEntry = "live: " FAKE_APP;
  std::vector<std::string> rows(const std::string& file) const {
    return lines_of(text_of(out() + "/" + file));
  }
  Json summary() const { return Json::parse(text_of(out() + "/live.json"), nullptr, false); }
};

TEST_F(LiveStudy, PointsTakeTurnsAfterTheirSimulations) {
  const std::string file = study({kEntry}, "engine: live\nrepetitions: 2\nvary: [{clusters: [2, 4]}]\n");
  const Finished done = run(file, {"--oversubscribe", "--jobs", "1"});
  EXPECT_EQ(done.status, 0) << done.err;
  const auto runs = lines_of(text_of(folder_ / "diary"));
  EXPECT_THAT(began(),
              ElementsAre("clusters 2", "clusters 4", AllOf(StartsWith("clusters 2, live, repetition 1")),
                          AllOf(StartsWith("clusters 4, live, repetition 1")),
                          AllOf(StartsWith("clusters 2, live, repetition 2")),
                          AllOf(StartsWith("clusters 4, live, repetition 2"))));
  for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
    EXPECT_THAT(runs[i], StartsWith("began")) << "one at a time";
    EXPECT_THAT(runs[i + 1], StartsWith("ended"));
  }
  EXPECT_THAT(done.err, AllOf(HasSubstr("4 live runs; 4 left, 1 at a time"), HasSubstr("4 live runs in ")));

  const std::string begin = std::string(FAKE_APP) + ",,";
  ASSERT_THAT(rows("live.csv"), SizeIs(1 + 4));
  EXPECT_EQ(
      rows("live.csv")[0],
      "application,arguments,clusters,compute,proxies,simulation.mode,repetition,threads,processors,oversubscribed,"
      "parallel_ns,messages,bytes,verified,failure,run");
  EXPECT_THAT(rows("live.csv")[2],
              AllOf(StartsWith(begin + "2,2,1,real,2,6,"), HasSubstr(",60000,12,3456,,,")));
  ASSERT_THAT(rows("live_medians.csv"), SizeIs(1 + 2));
  EXPECT_THAT(rows("live_medians.csv")[2], AllOf(StartsWith(begin + "4,2,1,real,2,12,"),
                                                 HasSubstr(",,60000,60000,60000,12,3456,50000,1.2")));
  EXPECT_EQ(summary()["missing"], 0);
  // The table of simulations knows nothing of clocks.
  EXPECT_THAT(text_of(out() + "/points.csv"), ::testing::Not(HasSubstr("60000")));
  // A study without live runs leaves none of an earlier one's tables.
  ASSERT_EQ(run(study({""}, "vary: [{clusters: [2, 4]}]\n")).status, 0);
  for (const char* const name : {"live.csv", "live_medians.csv", "live.json"})
    EXPECT_FALSE(fs::exists(out() + "/" + name)) << name;
}

TEST_F(LiveStudy, InterruptKeepsFinishedRuns) {
  // Simulations of this argument would wait, too: they are finished before with the gate open.
  const std::string held = "vary: [{arguments.hold: [0, 1]}]\n";
  std::ofstream(folder_ / "gate") << "open";
  ASSERT_EQ(run(study({""}, held)).status, 0);
  began();
  fs::remove(folder_ / "gate");
  const std::string file = study({kEntry}, "engine: live\nrepetitions: 2\n" + held);
  {
    Command command(line(file, {"--oversubscribe"}), variables());
    ASSERT_TRUE(command.expect("(1 of 4"));
    command.signal(SIGINT);
    const Finished& done = command.wait();
    EXPECT_EQ(done.status, 128 + SIGINT);
    EXPECT_THAT(command.left_over(), IsEmpty());
    EXPECT_THAT(done.err,
                HasSubstr("interrupted; 1 of 4 live runs are finished, and the same command runs the rest"));
  }
  EXPECT_THAT(rows("live.csv"), SizeIs(1 + 1));
  EXPECT_EQ(summary()["missing"], 3);
  began();
  const Finished listed = testing::run(line(file, {"--oversubscribe", "--list"}), variables());
  EXPECT_THAT(lines_of(listed.out), SizeIs(3));
  EXPECT_THAT(listed.err,
              AllOf(HasSubstr("2 points; 2 are finished already"),
                    HasSubstr("4 live runs; 1 is finished already; 3 left, 1 at a time, about ")));
  std::ofstream(folder_ / "gate") << "open";
  const Finished second = run(file, {"--oversubscribe"});
  EXPECT_EQ(second.status, 0) << second.err;
  EXPECT_THAT(began(), ElementsAre(StartsWith("arguments.hold 1, live, repetition 1"),
                                   StartsWith("arguments.hold 0, live, repetition 2"),
                                   StartsWith("arguments.hold 1, live, repetition 2")));
  EXPECT_THAT(rows("live.csv"), SizeIs(1 + 4));
}

TEST_F(LiveStudy, WrongResultsAndFailuresAreToldAndTriedAgain) {
  const std::string file = study({std::string(kEntry) + ", arguments: [--says=verified]",
                                  std::string(kEntry) + ", arguments: [--says=WRONG]"},
                                 "engine: live\nrepetitions: 1\n");
  const Finished done = run(file, {"--oversubscribe"});
  EXPECT_EQ(done.status, 1);
  EXPECT_THAT(done.err, AllOf(HasSubstr("1 of 2 live runs failed:"), HasSubstr("computed a wrong result")));
  ASSERT_THAT(rows("live.csv"), SizeIs(1 + 2));
  EXPECT_THAT(rows("live.csv")[1], HasSubstr(",60000,12,3456,yes,,"));
  EXPECT_THAT(rows("live.csv")[2], HasSubstr(",,,,no,computed a wrong result,"));
  EXPECT_EQ(summary()["failed"][0]["why"], "computed a wrong result");
  began();
  EXPECT_EQ(run(file, {"--oversubscribe"}).status, 1);
  EXPECT_THAT(began(), ElementsAre(HasSubstr("live, repetition 1")));
}

TEST_F(LiveStudy, WithoutProcessorsForAnyThereIsNothingToDo) {
  const std::string file = study({kEntry}, "engine: live\nvary: [{clusters: [600, 1000]}]\n");
  const Finished done = run(file);
  EXPECT_EQ(done.status, 78);
  EXPECT_THAT(done.err,
              AllOf(HasSubstr("key 'engine': no point can run live"),
                    HasSubstr("600 clusters x (2 compute nodes + 1 proxy) are 1800 threads, and there "),
                    HasSubstr("--oversubscribe")));
  EXPECT_THAT(began(), IsEmpty());
  EXPECT_THAT(run(study({""}, ""), {"--oversubscribe"}).err,
              HasSubstr("--oversubscribe: is for live runs, and study.yaml has no 'engine: live'"));
}

TEST_F(LiveStudy, BuildForLiveRunsIsNamedWhereItIsNotBesideTheOther) {
  const Finished done = run(study({""}, "engine: live\n"), {"--oversubscribe"});
  EXPECT_EQ(done.status, 78);
  EXPECT_THAT(done.err, HasSubstr("is the build for simulation, and no live one is beside it; name that with "
                                  "'live' in the study's entry"));
}

TEST_F(StudyRun, ListingChangesNothing) {
  std::filesystem::remove_all(out());
  const Finished done = testing::run(line(study({""}, ""), {"--list"}), variables());
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_FALSE(std::filesystem::exists(out()));
}

#ifdef BRAID_SIMULATED_JACOBI
// With the real engine, whose programs are separate processes: run() expects that none is left.
TEST_F(StudyRun, ProgramsEndWithAPointBeyondItsLimit) {
  std::ofstream(folder_ / "long.yaml")
      << "applications:\n"
         "- {application: jacobi, arguments: [--size, 512, --iterations, 100000]}\n"
         "- {application: jacobi, arguments: [--size, 32, --iterations, 1]}\n"
         "limit_s: 3\n";
  Command command(line(folder_ / "long.yaml"));
  const Finished& done = command.wait();
  EXPECT_EQ(done.status, 1);
  EXPECT_THAT(done.err, AllOf(HasSubstr("1 of 2 failed:"), HasSubstr("it took longer than 3 s")));
  EXPECT_THAT(command.left_over(), IsEmpty());
  EXPECT_THAT(table(), SizeIs(2));
}

// With the real engine: a point's result equals that of `braid sim`, to the last event.
TEST_F(StudyRun, PointHasTheResultOfTheEngine) {
  std::ofstream(folder_ / "jacobi.yaml")
      << "applications: [{application: jacobi, arguments: [--size, 64]}]\n"
         "vary: [{proxies: [1, 2]}, {simulation.mode: [real, no-contention]}]\n";
  const Finished done = testing::run(line(folder_ / "jacobi.yaml"));
  ASSERT_EQ(done.status, 0) << done.err;
  ASSERT_THAT(table(), SizeIs(5));
  const Json points = everything()["points"];
  std::size_t intervals = 0;
  for (const Json& point : points) {
    for (const Json& proxy : point["report"]["proxies"]) intervals += proxy["queue_over_time"]["mean"].size();
    const std::string report = folder_ / "alone.json";
    const Finished alone = testing::run({BRAID_COMMAND, "sim", "--quiet", "--report", report, "--proxies",
                                         point["settings"]["proxies"].dump(), "--mode",
                                         point["settings"]["simulation.mode"], "jacobi", "--size", "64"});
    ASSERT_EQ(alone.status, 0) << alone.err;
    const Json expected = Json::parse(text_of(report));
    EXPECT_EQ(point["report"]["trace_hash"], expected["trace_hash"]) << point["settings"];
    EXPECT_EQ(point["report"]["parallel_cycles"], expected["parallel_cycles"]);
    EXPECT_EQ(point["report"]["deterministic"], true);
    EXPECT_GT(point["report"]["messages"]["count"], 0);
    EXPECT_THAT(text_of(out() + "/points/" + std::string(point["point"]) + ".log"), HasSubstr("verified"));
  }
  // The queue's lengths over time are stored with the point, so they are printed again without another run.
  const std::string queues = text_of(out() + "/queues.csv");
  EXPECT_THAT(lines_of(queues), SizeIs(1 + intervals));
  EXPECT_GT(intervals, 2u * (1 + 2) * 32u) << "of two clusters' proxies, in mode real";
  fs::remove(out() + "/queues.csv");
  const Finished again = testing::run(line(folder_ / "jacobi.yaml"));
  EXPECT_THAT(again.err, HasSubstr("4 are finished already"));
  EXPECT_EQ(text_of(out() + "/queues.csv"), queues);
}
#endif

}  // namespace
}  // namespace braid::cli
