// What control groups grant, from files like the kernel's.
#include "tools/braid/process/processor_quota.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace braid::cli {
namespace {

namespace fs = std::filesystem;

class Quota : public ::testing::Test {
 protected:
  ~Quota() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> quota(const std::string& own) const {
    return processor_quota(own, folder_ / "groups");
  }
};

TEST_F(Quota, IsTheLeastOfTheGroupAndThoseAboveIt) {
  EXPECT_EQ(quota("0::/a/b\n"), std::nullopt);
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), std::nullopt);
  write("a/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 2.5);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/a/b\n"), 0.5);
  EXPECT_EQ(quota("0::/a/b/c\n"), 0.5);
  EXPECT_EQ(quota("0::/elsewhere\n"), std::nullopt);
  write("cpu.max", "300000 100000\n");
  EXPECT_EQ(quota("0::/elsewhere/on/the/host\n"), 3) << "of the container itself";
  EXPECT_EQ(quota(""), std::nullopt);
}

TEST_F(Quota, OfVersionOneIsThatOfTheProcessorsController) {
  write("cpu/a/cpu.cfs_quota_us", "150000\n");
  write("cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("7:memory:/a\n5:cpu,cpuacct:/a\n"), 1.5);
  EXPECT_EQ(quota("7:memory:/a\n5:cpuset:/a\n"), std::nullopt);
  write("cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota("5:cpu:/a\n"), std::nullopt);
}

}  // namespace
}  // namespace braid::cli
