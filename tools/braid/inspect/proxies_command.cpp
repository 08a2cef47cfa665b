#include "tools/braid/inspect/proxies_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "proxy/channel/channel.h"
#include "proxy/channel/node_counters.h"
#include "proxy/client/socket_service.h"
#include "tools/braid/command_line/output_file_option.h"
#include "tools/braid/inspect/counters_command.h"
#include "tools/braid/inspect/node_choice.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "A proxy finishes the messages that it has begun; later messages take the active proxies. No message is lost, duplicated\n"
    "or reordered. Inactive proxies keep their sub-connections, sleep, and can be made active again.\n"
    "\n"
    "Without --set it also shows how the packets of handshakes so far are protected (docs/SECURITY.md), and what the proxies have\n"
    "counted for each protocol.\n"
    "\n"
    "Examples:\n"
    "  braid proxies --cluster 0\n"
    "  braid proxies --cluster 0 --set 1\n";

struct Arguments {
  NodeChoice node;
  unsigned set = 0;  // 0: the number is not changed
};

struct ActiveProxies {
  unsigned active = 0;
  unsigned all = 0;  // at start
};

// Sets the number of active proxies of the braidd at `service`, if `set` has one, and returns the numbers.
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

// Of all proxies; 0 also where the node keeps its counters to itself.
std::uint64_t sum_of(const std::string& service, const char* counter) {
  const Result<std::vector<std::uint64_t>> counts = counter_by_proxy(service, counter);
  return counts ? std::accumulate(counts->begin(), counts->end(), std::uint64_t{0}) : 0;
}

// "12 AES-256-GCM, 3 plain"; empty: there were none, or the node keeps its counters to itself.
std::string handshakes_of(const std::string& service) {
  std::string text;
  for (const char* const name : {"handshakes_aes_gcm", "handshakes_chacha20", "handshakes_plain"}) {
    const std::uint64_t all = sum_of(service, name);
    if (all > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", all, proxy::protection_of(name));
  }
  return text;
}

int show_proxies(const Arguments& arguments) {
  const Result<ActiveProxies> now =
      active_proxies(arguments.node.address("proxies"),
                     arguments.set > 0 ? std::optional<unsigned>(arguments.set) : std::nullopt);
  if (!now) refuse(kLostDaemonStatus, now.error().text);
  print(fmt::format("{} of {} proxies are active\n", now->active, now->all));
  const Result<std::vector<std::uint64_t>> polls =
      counter_by_proxy(arguments.node.address("proxies"), "polls_asleep");
  if (!polls) return 0;  // a node can keep its counters to itself
  const auto polling = std::count(polls->begin(), polls->end(), 1u);
  if (polling > 0)
    print(fmt::format(
        "{} of them poll while they are idle: a link, the kernel or idle.wakeups lets nobody wake "
        "them\n",
        polling));
  if (arguments.set > 0) return 0;
  if (const std::string handshakes = handshakes_of(arguments.node.address("proxies")); !handshakes.empty())
    print(fmt::format("handshakes: {}\n", handshakes));
  if (const std::uint64_t unread = sum_of(arguments.node.address("proxies"), "hellos_unread"); unread > 0)
    print(fmt::format("{} hellos were dropped unread: somebody sends more than proxies read\n", unread));
  const Result<std::vector<ProtocolTotals>> protocols = protocol_totals(arguments.node.address("proxies"));
  if (!protocols) return 0;
  print(fmt::format("{:<22}  {:>12}  {:>12}  {:>9}  {:>9}\n", "protocol", "sent", "received", "refused",
                    "returned"));
  for (const ProtocolTotals& p : *protocols)
    print(fmt::format("{:<22}  {:>12}  {:>12}  {:>9}  {:>9}\n", p.protocol, p.sent, p.received, p.refused,
                      p.returned));
  return 0;
}

}  // namespace

Subcommand proxies_command() {
  const auto arguments = std::make_shared<Arguments>();
  Subcommand command{.name = "proxies",
                     .about = "Show or change how many proxies of a running cluster are active",
                     .usage = "braid proxies (--cluster K | --process PID | --service ADDRESS) [--set N]",
                     .footer = kFooter,
                     .options = arguments->node.options(),
                     .run = [arguments](const Given&) { return show_proxies(*arguments); }};
  command.options.push_back({.names = "--set",
                             .value_text = "N",
                             .help = "set the number of active proxies; 1 to the number at start",
                             .target = NumberTarget<unsigned>{&arguments->set, 1, proxy::kMaxProxies}});
  return command;
}

}  // namespace braid::cli
