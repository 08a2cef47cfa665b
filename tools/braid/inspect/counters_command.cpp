#include "tools/braid/inspect/counters_command.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "dsm/live/environment.h"
#include "proxy/channel/node_counters.h"
#include "proxy/client/socket_service.h"
#include "tools/braid/process/descriptor.h"

namespace braid::cli {

Result<std::string> service_of_process(int pid) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return error("process {}: {} cannot be read ({}); name an application process of a run that is yours",
                 pid, path, std::strerror(errno));
  const std::string name = std::string(dsm::variable::kService) + "=";
  for (std::string variable; std::getline(text, variable, '\0');) {
    if (variable.starts_with(name)) return variable.substr(name.size());
  }
  return error("process {} has no {} in its environment; name an application process of 'braid run'", pid,
               dsm::variable::kService);
}

Result<std::vector<CounterValues>> read_counters(const std::string& service) {
  Result<std::unique_ptr<proxy::Service>> connected = proxy::connect_to_service(service);
  if (!connected) return connected.error();
  proxy::control::Message request;
  request.kind = proxy::control::Kind::kCounters;
  int received = -1;
  const Result<proxy::control::Message> answer = (*connected)->call(request, 5_s, &received);
  const Descriptor memory(received);
  if (!answer) return answer.error();
  struct stat status {};
  if (!memory || ::fstat(memory.get(), &status) != 0 ||
      status.st_size < static_cast<off_t>(sizeof(proxy::NodeCounters)))
    return error("{}: answered without its counters; build braid and braidd from the same source", service);
  void* const mapped = ::mmap(nullptr, sizeof(proxy::NodeCounters), PROT_READ, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED)
    return error("{}: its counters cannot be mapped: {}", service, std::strerror(errno));

  const auto* const node = static_cast<const proxy::NodeCounters*>(mapped);
  const bool known = node->magic == proxy::NodeCounters::kMagic;
  std::vector<CounterValues> proxies(std::min(node->proxies, proxy::kMaxProxies));
  for (std::size_t p = 0; p < proxies.size(); ++p) {
    proxy::for_each_counter(node->proxy[p], [&](const char* name, const char*, std::uint64_t value) {
      proxies[p].emplace_back(name, value);
    });
  }
  ::munmap(mapped, sizeof(proxy::NodeCounters));
  if (!known)
    return error("{}: has other counters than ours; build braid and braidd from the same source", service);
  return proxies;
}

std::string render_counters(const std::vector<CounterValues>& proxies, bool all) {
  if (proxies.empty()) return "";
  std::string text = fmt::format("{:<26}", "");
  for (std::size_t p = 0; p < proxies.size(); ++p)
    text += fmt::format("  {:>14}", fmt::format("proxy {}", p));
  text += "\n";
  for (std::size_t c = 0; c < proxies.front().size(); ++c) {
    const bool zero = std::all_of(proxies.begin(), proxies.end(),
                                  [&](const CounterValues& values) { return values[c].second == 0; });
    if (zero && !all) continue;
    text += fmt::format("{:<26}", proxies.front()[c].first);
    for (const CounterValues& values : proxies) text += fmt::format("  {:>14}", values[c].second);
    text += "\n";
  }
  return text;
}

}  // namespace braid::cli
