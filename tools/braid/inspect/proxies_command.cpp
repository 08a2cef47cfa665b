#include "tools/braid/inspect/proxies_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "dsm/live/environment.h"
#include "proxy/client/socket_service.h"

namespace braid::cli {

Result<std::string> service_of_cluster(unsigned cluster) {
  const std::string wanted = fmt::format("{}={}", dsm::variable::kCluster, cluster);
  const std::string service = std::string(dsm::variable::kService) + "=";
  std::map<std::string, std::string> found;  // process of each service
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", problem)) {
    const std::string process = entry.path().filename();
    if (process.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);  // of others: not ours to read
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

Result<ActiveProxies> active_proxies(const std::string& service, std::optional<unsigned> set) {
  Result<std::unique_ptr<proxy::Service>> connected = proxy::connect_to_service(service);
  if (!connected) return connected.error();
  proxy::control::Message request;
  request.kind = proxy::control::Kind::kSetProxies;
  request.set_proxies.active = set.value_or(0);
  const Result<proxy::control::Message> answer = (*connected)->call(request, 5_s);
  if (!answer) return answer.error();
  return ActiveProxies{answer->set_proxies.active, answer->set_proxies.all};
}

}  // namespace braid::cli
