// How many processors' time the control groups of this process grant it: in containers often less than the processors that it may run on.
#pragma once

#include <optional>
#include <string>

namespace braid::cli {

// `own_groups`: the text of /proc/self/cgroup; `root`: where the groups are mounted, /sys/fs/cgroup. The least quota of the own group and
// those above it: cpu.max of version 2, or cpu.cfs_quota_us of version 1. nullopt: there is none.
std::optional<double> processor_quota(const std::string& own_groups, const std::string& root);

// Of this process.
std::optional<double> processor_quota();

}  // namespace braid::cli
