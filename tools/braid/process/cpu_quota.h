// How much processor time the cgroup of this process permits, version 1 or 2 (Documentation/admin-guide/cgroup-v2.rst,
// cpu.max; scheduler/sched-bwc.rst, cpu.cfs_quota_us).
#pragma once

#include <optional>
#include <string>

namespace braid::cli {

// Processors, 1.5 for instance: the least of the process's group and of all groups above it. Nothing: there is no limit.
// `groups`: the text of /proc/PID/cgroup. `root`: where the file systems of cgroups are mounted.
std::optional<double> cpu_quota(const std::string& groups, const std::string& root);
// Of this process.
std::optional<double> own_cpu_quota();

}  // namespace braid::cli
