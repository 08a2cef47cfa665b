#include "bench/against.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Against, OptionsAreLeftOutWithTheirValues) {
  const char* words[] = {"bench", "--rounds", "9", "--trips", "5", "--json=x", "--busy", "--rounds-more"};
  EXPECT_THAT(arguments_without(8, const_cast<char**>(words), {"--rounds", "--json"}),
              ElementsAre("--trips", "5", "--busy", "--rounds-more"));
}

}  // namespace
}  // namespace braid::bench
