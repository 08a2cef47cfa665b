#include "tools/braid/inspect/node_choice.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "base/limits.h"
#include "dsm/live/environment.h"

namespace braid::cli {

std::vector<Option> NodeChoice::options() {
  return {{.names = "--service",
           .value_text = "ADDRESS",
           .help = "the node by the control socket of its braidd: a path, or @name",
           .target = &service},
          {.names = "--process",
           .value_text = "PID",
           .help = "the node by one of its application processes",
           .target = NumberTarget<int>{&process, 0, std::numeric_limits<int>::max()},
           .excludes = {"--service"}},
          {.names = "--cluster",
           .value_text = "K",
           .help = "the node by its cluster's number, if one run on this machine has that cluster",
           .target = NumberTarget<int>{&cluster, 0, static_cast<int>(kMaxClusters) - 1},
           .excludes = {"--service", "--process"}}};
}

std::string NodeChoice::address(const char* command) const {
  if (!service.empty()) return service;
  if (process <= 0 && cluster < 0)
    refuse(kUsageStatus,
           fmt::format("{}: of which node? give --cluster K, --process PID or --service ADDRESS; see "
                       "'braid {} --help'",
                       command, command));
  const Result<std::string> told =
      process > 0 ? service_of_process(process) : service_of_cluster(static_cast<unsigned>(cluster));
  if (!told) refuse(kUsageStatus, told.error().text);
  return *told;
}

Result<std::string> service_of_process(int pid) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return error("process {}: {} cannot be read ({}); name an application process of your own run", pid, path,
                 std::strerror(errno));
  const std::string name = std::string(dsm::variable::kService) + "=";
  for (std::string variable; std::getline(text, variable, '\0');) {
    if (variable.starts_with(name)) return variable.substr(name.size());
  }
  return error("process {} has no {} in its environment; name an application process of 'braid run'", pid,
               dsm::variable::kService);
}

Result<std::string> service_of_cluster(unsigned cluster) {
  const std::string wanted = fmt::format("{}={}", dsm::variable::kCluster, cluster);
  const std::string service = std::string(dsm::variable::kService) + "=";
  std::map<std::string, std::string> found;  // process of each service
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string process = entry.path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);  // unreadable if another user's
    std::stringstream text;
    text << file.rdbuf();
    std::string address;
    bool is_it = false;
    for (std::string variable; std::getline(text, variable, '\0');) {
      if (variable == wanted) is_it = true;
      if (variable.starts_with(service)) address = variable.substr(service.size());
    }
    if (is_it && !address.empty()) found.emplace(address, process);
  }
  if (found.empty())
    return error("no cluster {} runs on this machine for this user; give --process or --service", cluster);
  if (found.size() > 1) {
    std::string processes;
    for (const auto& [address, process] : found) processes += (processes.empty() ? "" : ", ") + process;
    return error("several runs have a cluster {}; say which one with --process (one of {})", cluster,
                 processes);
  }
  return found.begin()->first;
}

}  // namespace braid::cli
