// The programs that users may name, and the errors for wrong names.
#include "tools/braid/find_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

// A folder of programs like that of a build.
class FindProgram : public ::testing::Test {
 protected:
  FindProgram() : folder_(fs::path(testing::TempDir()) / ("braid-programs-" + std::to_string(::getpid()))) {
    for (const char* name :
         {"braid", "braidd", "braid-c++", "jacobi", "water", "cli_test", "fault_simulation"})
      make(folder_ / name);
  }
  ~FindProgram() override { fs::remove_all(folder_); }

  static void make(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  std::string answer_to(const std::string& name) const {
    return find_application(name, folder_, "").error().text;
  }

  const fs::path folder_;
};

TEST_F(FindProgram, ApplicationsAreTheProgramsThatAreBuiltForSimulationToo) {
  for (const char* name : {"jacobi", "water"}) make(folder_ / "sim" / name);
  EXPECT_EQ(applications_in(folder_), (std::vector<std::string>{"jacobi", "water"}));
  EXPECT_EQ(applications_in(folder_ / "sim"), (std::vector<std::string>{"jacobi", "water"}));
}

TEST_F(FindProgram, WithoutSimulatedApplicationsOnlyCommandsAndTestsAreExcluded) {
  fs::create_directories(folder_ / "sim");
  EXPECT_EQ(applications_in(folder_), (std::vector<std::string>{"fault_simulation", "jacobi", "water"}));
}

TEST_F(FindProgram, ErrorHasTheNearestNameAndAllApplications) {
  for (const char* name : {"jacobi", "water"}) make(folder_ / "sim" / name);
  EXPECT_EQ(answer_to("jakobi"), "application 'jakobi' is not in " + folder_.string() +
                                     "; did you mean 'jacobi'? there are: jacobi, water. A path such as "
                                     "./jakobi works too");
}

}  // namespace
}  // namespace braid::cli
