// Quotas of processor time as cgroups of both versions tell them, in folders made for it.
#include "tools/braid/process/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tools/braid/process/process.h"

namespace braid::cli {
namespace {

class CpuQuota : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::optional<double> quota(const std::string& groups) const { return cpu_quota(groups, root_.path()); }

  TemporaryFolder root_;
};

TEST_F(CpuQuota, Version2) {
  write("jobs/one/cpu.max", "150000 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 1.5);
  EXPECT_EQ(quota("0::/jobs\n"), std::nullopt);
  write("jobs/two/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/jobs/two\n"), std::nullopt);
}

TEST_F(CpuQuota, AGroupAboveLimitsToo) {
  write("jobs/cpu.max", "200000 50000");
  write("jobs/one/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 4.0);
  write("jobs/one/cpu.max", "1000000 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 4.0) << "the least of both";
}

TEST_F(CpuQuota, AContainerSeesItsGroupAsTheRoot) {
  write("cpu.max", "50000 100000");
  EXPECT_EQ(quota("0::/outside/docker/1234\n"), 0.5);
}

TEST_F(CpuQuota, Version1) {
  write("cpu,cpuacct/slurm/cpu.cfs_quota_us", "300000");
  write("cpu,cpuacct/slurm/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("5:memory:/slurm\n4:cpu,cpuacct:/slurm\n0::/\n"), 3.0);
  write("cpu/slurm/cpu.cfs_quota_us", "200000");
  write("cpu/slurm/cpu.cfs_period_us", "100000");
  EXPECT_EQ(quota("4:cpu:/slurm\n"), 2.0);
  EXPECT_EQ(quota("4:cpuset:/slurm\n"), std::nullopt) << "another controller";
  write("cpu/slurm/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(quota("4:cpu:/slurm\n"), std::nullopt);
}

TEST_F(CpuQuota, NonsenseLimitsNothing) {
  write("cpu.max", "lots");
  for (const char* const groups : {"", "0\n", "0::\n", "0::/\n", "::::\n", "0::relative\n"})
    EXPECT_EQ(quota(groups), std::nullopt) << groups;
}

TEST_F(CpuQuota, ThisProcessHasAtLeastOneCore) {
  EXPECT_GE(usable_cores(), 1u);
}

}  // namespace
}  // namespace braid::cli
