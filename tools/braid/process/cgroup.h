// Limits of the cgroup of this process, version 1 or 2 (the kernel's Documentation/admin-guide/cgroup-v2.rst: cpu.max, memory.max,
// memory.events; scheduler/sched-bwc.rst: cpu.cfs_quota_us; cgroup-v1/memory.rst).
//
// `groups`: the text of /proc/PID/cgroup. `root`: where the file systems of cgroups are mounted. A group limits all groups below it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace braid::cli {

// Of processor time, in processors, 1.5 for instance. Nothing: there is no limit.
std::optional<double> cpu_quota(const std::string& groups, const std::string& root);
std::optional<double> own_cpu_quota();

struct MemoryLimit {
  std::uint64_t limit_bytes;
  std::uint64_t free_bytes;  // what the kernel can take back counts, as pages of files
  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};
// That of the group with the least free memory. Nothing: there is no limit.
std::optional<MemoryLimit> memory_limit(const std::string& groups, const std::string& root);
std::optional<MemoryLimit> own_memory_limit();

// How many processes of the group the kernel has killed because there was no memory. Nothing: it does not count them there.
std::optional<std::uint64_t> memory_kills(const std::string& groups, const std::string& root);
// Of the host, where they are not counted of the group.
std::uint64_t own_memory_kills();

}  // namespace braid::cli
