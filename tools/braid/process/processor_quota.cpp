#include "tools/braid/process/processor_quota.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace braid::cli {
namespace {

// "max 100000" or "150000 100000", of version 2.
std::optional<double> quota_of_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota_us = 0, period_us = 0;
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

// A quota of -1 is none.
std::optional<double> quota_of_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us"), period_file(folder + "/cpu.cfs_period_us");
  double quota_us = 0, period_us = 0;
  if (!(quota_file >> quota_us) || !(period_file >> period_us) || quota_us <= 0 || period_us <= 0)
    return std::nullopt;
  return quota_us / period_us;
}

// "cpu,cpuacct" has cpu.
bool has_processors(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');)
    if (one == "cpu") return true;
  return false;
}

}  // namespace

std::optional<double> processor_quota(const std::string& own_groups, const std::string& root) {
  std::optional<double> least;
  std::istringstream lines(own_groups);
  for (std::string line; std::getline(lines, line);) {
    // "0::/path" is version 2, "5:cpu,cpuacct:/path" version 1.
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !has_processors(controllers)) continue;
    // In a container the path can be that of the host, whose groups are not mounted here: what is there counts.
    for (std::string path = line.substr(second + 1);;) {
      const std::optional<double> quota =
          controllers.empty() ? quota_of_v2(root + path) : quota_of_v1(root + "/cpu" + path);
      if (quota) least = std::min(least.value_or(*quota), *quota);
      const std::size_t slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return least;
}

std::optional<double> processor_quota() {
  std::ifstream file("/proc/self/cgroup");
  std::stringstream text;
  text << file.rdbuf();
  return processor_quota(text.str(), "/sys/fs/cgroup");
}

}  // namespace braid::cli
