#include "bench/against.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/cli/command.h"

namespace braid::bench {
namespace {

using cli::testing::TemporaryFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program that is stand_in with `factor` before its arguments.
class Program {
 public:
  explicit Program(const std::string& factor)
      : file_("#!/bin/sh\nexec " BENCH_STAND_IN " " + factor + " \"$@\"\n", 0700) {}
  const std::string& path() const { return file_.path(); }

 private:
  const TemporaryFile file_;
};

TEST(Against, NumbersThatBothProgramsWriteAreCompared) {
  const Program ours("1"), other("4");
  const Result<std::vector<Compared>> compared = compare(ours.path(), other.path(), {"--trips", "7"}, 3);
  ASSERT_TRUE(compared.ok()) << compared.error().text;
  ASSERT_EQ(compared->size(), 1u) << "a text, and a number of one program, are left out";
  EXPECT_EQ(compared->front().name, "/group/rate");
  EXPECT_EQ(compared->front().ours, 2);
  EXPECT_EQ(compared->front().other, 8);
}

TEST(Against, ProgramThatFailsIsNamed) {
  const Program ours("1"), other("0");
  const Result<std::vector<Compared>> compared = compare(ours.path(), other.path(), {}, 1);
  ASSERT_FALSE(compared.ok());
  EXPECT_EQ(compared.error().text, other.path() + ": exited with status 3");
  EXPECT_THAT(compare(ours.path(), "/does/not/exist", {}, 1).error().text,
              HasSubstr("/does/not/exist: cannot be run: No such file or directory"));
}

TEST(Against, ProgramThatWritesNoFiguresIsNamed) {
  const Result<std::vector<Compared>> compared = compare("/bin/true", "/bin/true", {}, 1);
  ASSERT_FALSE(compared.ok());
  EXPECT_THAT(compared.error().text, HasSubstr("/bin/true: wrote no figures as JSON"));
}

// Each program is started by the command `braid` of its own folder: a script here, which sees to it that it is `braid run`.
TEST(Against, ProgramsOfARunAreStartedByTheCommandBesideThem) {
  class Build {
   public:
    explicit Build(const std::string& factor)
        : folder_(::testing::TempDir() + "/braid-against-" + factor + "-" + std::to_string(::getpid())) {
      std::filesystem::create_directory(folder_);
      write("braid", "[ \"$1 $2 $3 $4\" = 'run --quiet --clusters 2' ] && shift 4 && STARTED=" + factor +
                         " exec \"$@\"");
      write("bench", "exec " BENCH_STAND_IN " \"$STARTED\" \"$@\"");
    }
    ~Build() { std::filesystem::remove_all(folder_); }
    std::string bench() const { return folder_ + "/bench"; }

   private:
    void write(const std::string& name, const std::string& line) const {
      std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n" << line << "\n";
      std::filesystem::permissions(folder_ + "/" + name, std::filesystem::perms::owner_all);
    }
    const std::string folder_;
  };
  const Build ours("1"), other("5");
  const Result<std::vector<Compared>> compared =
      compare(ours.bench(), other.bench(), {"--pages", "7"}, 1, {"--clusters", "2"});
  ASSERT_TRUE(compared.ok()) << compared.error().text;
  ASSERT_EQ(compared->size(), 1u);
  EXPECT_EQ(compared->front().ours, 2);
  EXPECT_EQ(compared->front().other, 10);
}

TEST(Against, ProgramInARunDoesNotStartOthers) {
  ::setenv("BRAID_CLUSTER", "0", 1);
  ::testing::internal::CaptureStderr();
  const OutputOptions options = {.json = "", .percentiles = "", .against = "/bin/true"};
  EXPECT_EQ(run_against(options, 0, nullptr, 1, {"--clusters", "2"}), 1);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("start this program without `braid run`"));
  ::unsetenv("BRAID_CLUSTER");
  EXPECT_EQ(run_against({}, 0, nullptr, 1), std::nullopt) << "without --against";
}

TEST(Against, OptionsAreLeftOutWithTheirValues) {
  const char* words[] = {"bench", "--rounds", "9", "--trips", "5", "--json=x", "--busy", "--rounds-more"};
  EXPECT_THAT(arguments_without(8, const_cast<char**>(words), {"--rounds", "--json"}),
              ElementsAre("--trips", "5", "--busy", "--rounds-more"));
}

}  // namespace
}  // namespace braid::bench
