#include "tools/braid/simulate/thread_variables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace of_the_test {
thread_local int counter = 1;
static thread_local std::string text = "constructed at its first use";
int an_ordinary_variable = 2;
}  // namespace of_the_test
namespace braid::of_the_test {
thread_local int of_the_runtime = 3;
}

namespace braid::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ThreadVariables, AreThoseThatTheProgramDefines) {
  ++::of_the_test::counter;
  ::of_the_test::text += "!";
  ++::of_the_test::an_ordinary_variable;
  ++braid::of_the_test::of_the_runtime;
  const std::vector<std::string> names = thread_variables("/proc/self/exe");
  EXPECT_THAT(names, Contains("of_the_test::counter"));
  EXPECT_THAT(names, Contains("of_the_test::text"));
  EXPECT_THAT(names, Not(Contains(HasSubstr("an_ordinary_variable"))));
  EXPECT_THAT(names, Not(Contains(HasSubstr("of_the_runtime"))));
  EXPECT_THAT(names, Not(Contains(HasSubstr("guard"))));
}

TEST(ThreadVariables, FileThatIsNoProgramHasNone) {
  EXPECT_THAT(thread_variables(testing::TemporaryFile("#!/bin/sh\n").path()), IsEmpty());
  EXPECT_THAT(thread_variables(testing::TemporaryFile("").path()), IsEmpty());
  EXPECT_THAT(thread_variables(testing::TemporaryFile("\x7f"
                                                      "ELF, but not really")
                                   .path()),
              IsEmpty());
  EXPECT_THAT(thread_variables("/does/not/exist"), IsEmpty());
  EXPECT_THAT(thread_variables("/"), IsEmpty());
}

}  // namespace
}  // namespace braid::cli
