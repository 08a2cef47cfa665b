// Limits as cgroups of both versions tell them, in folders made for it.
#include "tools/braid/process/cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tools/braid/process/process.h"

namespace braid::cli {
namespace {

class Cgroup : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  std::optional<double> quota(const std::string& groups) const { return cpu_quota(groups, root_.path()); }

  std::optional<MemoryLimit> memory(const std::string& groups) const {
    return memory_limit(groups, root_.path());
  }
  std::optional<std::uint64_t> kills(const std::string& groups) const {
    return memory_kills(groups, root_.path());
  }

  TemporaryFolder root_;
};

TEST_F(Cgroup, QuotaOfVersion2) {
  write("jobs/one/cpu.max", "150000 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 1.5);
  EXPECT_EQ(quota("0::/jobs\n"), std::nullopt);
  write("jobs/two/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/jobs/two\n"), std::nullopt);
}

TEST_F(Cgroup, QuotaOfAGroupAbove) {
  write("jobs/cpu.max", "200000 50000");
  write("jobs/one/cpu.max", "max 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 4.0);
  write("jobs/one/cpu.max", "1000000 100000");
  EXPECT_EQ(quota("0::/jobs/one\n"), 4.0) << "the least of both";
}

TEST_F(Cgroup, AContainerSeesItsGroupAsTheRoot) {
  write("cpu.max", "50000 100000");
  EXPECT_EQ(quota("0::/outside/docker/1234\n"), 0.5);
}

TEST_F(Cgroup, QuotaOfVersion1) {
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

TEST_F(Cgroup, NonsenseLimitsNothing) {
  write("cpu.max", "lots");
  for (const char* const groups : {"", "0\n", "0::\n", "0::/\n", "::::\n", "0::relative\n"})
    EXPECT_EQ(quota(groups), std::nullopt) << groups;
  write("memory.max", "lots");
  write("memory.current", "1");
  EXPECT_EQ(memory("0::/"), std::nullopt);
  write("memory.events", "oom_kill many");
  EXPECT_EQ(kills("0::/"), std::nullopt);
}

TEST_F(Cgroup, MemoryOfVersion2) {
  write("jobs/one/memory.max", "1000000");
  write("jobs/one/memory.current", "700000");
  EXPECT_EQ(memory("0::/jobs/one\n"), (MemoryLimit{1000000, 300000}));
  write("jobs/one/memory.stat", "anon 100000\ninactive_file 150000\nactive_file 50000\n");
  EXPECT_EQ(memory("0::/jobs/one\n"), (MemoryLimit{1000000, 500000})) << "pages of files can be taken back";
  write("jobs/one/memory.max", "max");
  EXPECT_EQ(memory("0::/jobs/one\n"), std::nullopt);
}

TEST_F(Cgroup, MemoryOfTheGroupWithTheLeastFree) {
  write("jobs/one/memory.max", "1000000");
  write("jobs/one/memory.current", "100000");
  write("jobs/memory.max", "5000000");
  write("jobs/memory.current", "4900000");
  EXPECT_EQ(memory("0::/jobs/one\n"), (MemoryLimit{5000000, 100000}));
  write("jobs/memory.current", "5100000");
  EXPECT_EQ(memory("0::/jobs/one\n"), (MemoryLimit{5000000, 0})) << "more than the limit, for a moment";
}

TEST_F(Cgroup, MemoryOfVersion1) {
  const char* const groups = "5:memory:/slurm\n4:cpu,cpuacct:/slurm\n0::/\n";
  write("memory/slurm/memory.limit_in_bytes", "1000000");
  write("memory/slurm/memory.usage_in_bytes", "400000");
  write("memory/slurm/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 0\n");
  EXPECT_EQ(memory(groups), (MemoryLimit{1000000, 700000}));
  write("memory/slurm/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(memory(groups), std::nullopt);
}

TEST_F(Cgroup, MemoryKillsOfTheOwnGroup) {
  write("jobs/memory.events", "low 0\noom 9\noom_kill 9\n");
  write("jobs/one/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  EXPECT_EQ(kills("0::/jobs/one\n"), 3u);
  EXPECT_EQ(kills("0::/none\n"), std::nullopt);
  write("memory/slurm/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(kills("5:memory:/slurm\n"), 2u);
}

TEST_F(Cgroup, ThisProcessHasAtLeastOneCore) {
  EXPECT_GE(usable_cores(), 1u);
}

}  // namespace
}  // namespace braid::cli
