#include "tools/braid/process/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

namespace braid::cli {
namespace {

constexpr const char* kRoot = "/sys/fs/cgroup";
// Version 1 writes the largest number of whole pages where there is no limit.
constexpr std::uint64_t kNoLimit = 1ull << 60;

std::string own_groups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool names(const std::string& controllers, std::string_view controller) {
  std::istringstream all(controllers);
  for (std::string name; std::getline(all, name, ',');)
    if (name == controller) return true;
  return false;
}

// The folders of the process's group and of all groups above it, wherever this controller can be, the nearest first. A container
// may see its own group as the root of the file system, by another path: what is not there limits nothing.
std::vector<std::string> folders_of(const std::string& groups, const std::string& root,
                                    std::string_view controller) {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& mounted, std::string path) {
    for (;;) {
      folders.push_back(mounted + path);
      if (path.empty()) return;
      path.erase(path.rfind('/'));
    }
  };
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    // "4:cpu,cpuacct:/path"; of version 2 "0::/path".
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (path == "/") path.clear();
    if (controllers.empty()) {
      add(root, path);
    } else if (names(controllers, controller)) {
      add(root + "/" + controllers, path);
      if (controllers != controller) add(root + "/" + std::string(controller), path);
    }
  }
  return folders;
}

// "150000 100000" of cpu.max; version 1 has a file for each of the two. "max" and -1 mean no limit.
std::optional<double> quota_in(const std::string& folder) {
  double quota_us = 0, period_us = 0;
  if (std::ifstream both(folder + "/cpu.max"); both >> quota_us >> period_us && period_us > 0)
    return quota_us / period_us;
  std::ifstream quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
  if (quota >> quota_us && period >> period_us && quota_us > 0 && period_us > 0) return quota_us / period_us;
  return {};
}

std::optional<std::uint64_t> number_in(const std::string& file) {
  std::uint64_t number = 0;
  std::ifstream stream(file);
  return stream >> number ? std::optional(number) : std::nullopt;
}

// Of a file with a name and a number in each line.
std::optional<std::uint64_t> number_named(const std::string& file, std::string_view name) {
  std::ifstream lines(file);
  std::uint64_t number = 0;
  for (std::string word; lines >> word >> number;)
    if (word == name) return number;
  return {};
}

std::optional<MemoryLimit> memory_limit_in(const std::string& folder) {
  struct Version {
    const char *limit, *used, *inactive_files, *active_files;
  };
  constexpr Version kVersions[] = {
      {"/memory.max", "/memory.current", "inactive_file", "active_file"},
      {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file", "total_active_file"}};
  for (const Version& version : kVersions) {
    const std::optional<std::uint64_t> limit = number_in(folder + version.limit),
                                       used = number_in(folder + version.used);
    if (!limit || !used || *limit >= kNoLimit) continue;
    const std::string stat = folder + "/memory.stat";
    const std::uint64_t files = number_named(stat, version.inactive_files).value_or(0) +
                                number_named(stat, version.active_files).value_or(0);
    const std::uint64_t kept = *used - std::min(*used, files);
    return MemoryLimit{*limit, *limit - std::min(*limit, kept)};
  }
  return {};
}

}  // namespace

std::optional<double> cpu_quota(const std::string& groups, const std::string& root) {
  std::optional<double> least;
  for (const std::string& folder : folders_of(groups, root, "cpu")) {
    const std::optional<double> quota = quota_in(folder);
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

std::optional<double> own_cpu_quota() {
  return cpu_quota(own_groups(), kRoot);
}

std::optional<MemoryLimit> memory_limit(const std::string& groups, const std::string& root) {
  std::optional<MemoryLimit> least;
  for (const std::string& folder : folders_of(groups, root, "memory")) {
    const std::optional<MemoryLimit> limit = memory_limit_in(folder);
    if (limit && (!least || limit->free_bytes < least->free_bytes)) least = limit;
  }
  return least;
}

std::optional<MemoryLimit> own_memory_limit() {
  return memory_limit(own_groups(), kRoot);
}

std::optional<std::uint64_t> memory_kills(const std::string& groups, const std::string& root) {
  for (const std::string& folder : folders_of(groups, root, "memory")) {
    for (const char* const file : {"/memory.events", "/memory.oom_control"})
      if (const auto kills = number_named(folder + file, "oom_kill")) return kills;
  }
  return {};
}

std::uint64_t own_memory_kills() {
  const std::optional<std::uint64_t> kills = memory_kills(own_groups(), kRoot);
  return kills ? *kills : number_named("/proc/vmstat", "oom_kill").value_or(0);
}

}  // namespace braid::cli
