#include "tools/braid/inspect/counters_command.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "proxy/channel/node_counters.h"
#include "proxy/client/socket_service.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/inspect/node_choice.h"
#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/report.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "Reading does not slow the node down: the counters are in shared memory.\n"
    "\n"
    "Examples:\n"
    "  braid counters --cluster 0\n"
    "  braid counters --process $(pgrep -n jacobi)\n"
    "  braid counters --service @braidd-0 --every 1\n";

struct Arguments {
  NodeChoice node;
  bool all = false;
  double every_seconds = 0;
};

struct NodeValues {
  std::vector<CounterValues> proxies;
  std::uint64_t refused_connections = 0;
};

// Of the node whose braidd listens at `service`.
Result<NodeValues> read_counters(const std::string& service) {
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
    return error("{}: the answer has no counters; build braid and braidd from the same source", service);
  void* const mapped = ::mmap(nullptr, sizeof(proxy::NodeCounters), PROT_READ, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED)
    return error("{}: its counters cannot be mapped: {}", service, std::strerror(errno));

  const auto* const node = static_cast<const proxy::NodeCounters*>(mapped);
  const bool known = node->magic == proxy::NodeCounters::kMagic;
  NodeValues values;
  values.refused_connections = node->refused_connections.get();
  values.proxies.resize(std::min(node->proxies, proxy::kMaxProxies));
  for (std::size_t p = 0; p < values.proxies.size(); ++p)
    values.proxies[p] = proxy::values_of(*node, static_cast<unsigned>(p));
  ::munmap(mapped, sizeof(proxy::NodeCounters));
  if (!known)
    return error("{}: its counters differ from this command's; build braid and braidd from the same source",
                 service);
  return values;
}

// A line for each counter that is not zero at every proxy (`all`: for every counter), a column for each proxy.
// Then those of the node.
std::string render_counters(const NodeValues& node, bool all) {
  const std::vector<CounterValues>& proxies = node.proxies;
  if (proxies.empty()) return "";
  std::string text = fmt::format("{:<30}", "");
  for (std::size_t p = 0; p < proxies.size(); ++p)
    text += fmt::format("  {:>14}", fmt::format("proxy {}", p));
  text += "\n";
  for (std::size_t c = 0; c < proxies.front().size(); ++c) {
    const bool zero = std::all_of(proxies.begin(), proxies.end(),
                                  [&](const CounterValues& values) { return values[c].second == 0; });
    if (zero && !all) continue;
    text += fmt::format("{:<30}", proxies.front()[c].first);
    for (const CounterValues& values : proxies) text += fmt::format("  {:>14}", values[c].second);
    text += "\n";
  }
  if (node.refused_connections != 0 || all)
    text += fmt::format("{:<30}  {:>14}  connections that the node refused\n", "refused_connections",
                        node.refused_connections);
  return text;
}

int show_counters(const Arguments& arguments) {
  const std::string service = arguments.node.address("counters");
  for (bool first = true;; first = false) {
    const Result<NodeValues> node = read_counters(service);
    // From the second time on, the end of the node ends the command.
    if (!node && !first) return 0;
    if (!node) refuse(kLostDaemonStatus, node.error().text);
    print(render_counters(*node, arguments.all));
    if (arguments.every_seconds <= 0) return 0;
    print("\n");
    ::usleep(static_cast<useconds_t>(std::min(arguments.every_seconds, 1000.0) * 1e6));
  }
}

}  // namespace

Result<std::vector<ProtocolTotals>> protocol_totals(const std::string& service) {
  const Result<NodeValues> node = read_counters(service);
  if (!node) return node.error();
  std::vector<ProtocolTotals> totals;
  for (const CounterValues& values : node->proxies)
    for (const auto& [counter, value] : values) {
      const std::size_t dot = counter.find('.');
      if (dot == std::string::npos) continue;
      const std::string name = counter.substr(0, dot);
      auto of = std::find_if(totals.begin(), totals.end(), [&](const auto& t) { return t.protocol == name; });
      if (of == totals.end()) of = totals.insert(totals.end(), {.protocol = name});
      const std::string what = counter.substr(dot + 1);
      if (what == "sent") of->sent += value;
      if (what == "received") of->received += value;
      if (what == "refused") of->refused += value;
      if (what == "returned") of->returned += value;
    }
  return totals;
}

Result<std::vector<std::uint64_t>> counter_by_proxy(const std::string& service, const std::string& name) {
  const Result<NodeValues> node = read_counters(service);
  if (!node) return node.error();
  std::vector<std::uint64_t> by_proxy;
  for (const CounterValues& values : node->proxies)
    for (const auto& [counter, value] : values)
      if (counter == name) by_proxy.push_back(value);
  return by_proxy;
}

Subcommand counters_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{.name = "counters",
                     .about = "Show a node's counters while it runs",
                     .usage = "braid counters (--cluster K | --process PID | --service ADDRESS) [options]",
                     .footer = kFooter,
                     .options = arguments->node.options(),
                     .run = [arguments](const Given&) { return show_counters(*arguments); }};
  command.options.push_back(
      {.names = "--all", .help = "print counters that are zero too", .target = &arguments->all});
  command.options.push_back({.names = "--every",
                             .value_text = "SECONDS",
                             .help = "print again after so many seconds, until the node ends",
                             .target = NumberTarget<double>{&arguments->every_seconds, 0.01, 86400.0}});
  return command;
}

}  // namespace braid::cli
