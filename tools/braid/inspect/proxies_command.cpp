#include "tools/braid/inspect/proxies_command.h"

#include <cstdio>
#include <memory>
#include <optional>

#include "proxy/channel/channel.h"
#include "proxy/client/socket_service.h"
#include "tools/braid/inspect/node_choice.h"

namespace braid::cli {
namespace {

constexpr const char* kFooter =
    "What a proxy has begun it finishes; what comes after goes over those that are active. No message "
    "is\n"
    "lost, doubled or reordered. The others keep their sub-connections, sleep, and can be made active "
    "again.\n"
    "\n"
    "Examples:\n"
    "  braid proxies --cluster 0\n"
    "  braid proxies --cluster 0 --set 1\n";

struct Arguments {
  NodeChoice node;
  unsigned set = 0;  // 0: only asked
};

struct ActiveProxies {
  unsigned active = 0;
  unsigned all = 0;  // that it was started with
};

// Asks the braidd at `service`, after telling it to let `set` be active.
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

int show_proxies(const Arguments& arguments) {
  const Result<ActiveProxies> now =
      active_proxies(arguments.node.address("proxies"),
                     arguments.set > 0 ? std::optional<unsigned>(arguments.set) : std::nullopt);
  if (!now) refuse(kLostDaemonStatus, now.error().text);
  std::printf("%u of %u proxies are active\n", now->active, now->all);
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
                             .help = "let so many be active; 1 to what it was started with",
                             .target = NumberTarget<unsigned>{&arguments->set, 1, proxy::kMaxProxies}});
  return command;
}

}  // namespace braid::cli
