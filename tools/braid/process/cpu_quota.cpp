#include "tools/braid/process/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

namespace braid::cli {
namespace {

// "150000 100000" of cpu.max; version 1 has a file for each of the two. "max" and -1 mean no limit.
std::optional<double> quota_in(const std::string& folder) {
  double quota_us = 0, period_us = 0;
  if (std::ifstream both(folder + "/cpu.max"); both >> quota_us >> period_us && period_us > 0)
    return quota_us / period_us;
  std::ifstream quota(folder + "/cpu.cfs_quota_us"), period(folder + "/cpu.cfs_period_us");
  if (quota >> quota_us && period >> period_us && quota_us > 0 && period_us > 0) return quota_us / period_us;
  return {};
}

// A container may see its own group as the root of the file system, by another path: what is not there limits nothing.
std::optional<double> least_quota(const std::string& mounted, std::string path) {
  std::optional<double> least;
  for (;;) {
    const std::optional<double> quota = quota_in(mounted + path);
    if (quota) least = std::min(*quota, least.value_or(*quota));
    if (path.empty()) return least;
    path.erase(path.rfind('/'));
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');)
    if (name == "cpu") return true;
  return false;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& groups, const std::string& root) {
  std::optional<double> least;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    // "4:cpu,cpuacct:/path"; of version 2 "0::/path".
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    if (path.empty() || path.front() != '/') continue;
    if (path == "/") path.clear();
    std::optional<double> quota;
    if (controllers.empty()) {
      quota = least_quota(root, path);
    } else if (names_cpu(controllers)) {
      quota = least_quota(root + "/" + controllers, path);
      if (!quota) quota = least_quota(root + "/cpu", path);
    }
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

std::optional<double> own_cpu_quota() {
  std::ifstream file("/proc/self/cgroup");
  const std::string groups{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return cpu_quota(groups, "/sys/fs/cgroup");
}

}  // namespace braid::cli
