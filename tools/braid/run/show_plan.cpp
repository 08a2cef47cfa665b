#include "tools/braid/run/show_plan.h"

#include <fmt/core.h>

#include <iostream>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "settings/views/json.h"
#include "tools/braid/command_line/subcommand.h"
#include "tools/braid/doctor/consulted_host.h"
#include "tools/braid/doctor/host_side.h"
#include "tools/braid/process/process.h"
#include "tools/braid/run/host_cores.h"
#include "tools/braid/run/place_here.h"
#include "tools/braid/run/plan.h"

namespace braid::cli {
namespace {

using Json = nlohmann::json;

// A connection by ssh may take long.
constexpr Duration kAnswer = 60_s;
// Names what would have a name of its own in a run.
constexpr const char* kRun = "plan";

void print_here(const settings::RunConfig& config, std::span<const proxy::NodeConfig> plans,
                std::span<const Host> hosts) {
  std::string cores;
  for (const Host& host : hosts) {
    const Result<std::string> line = describe_cores(host.cores);
    if (!line) refuse(kLostDaemonStatus, fmt::format("host {}: {}", host.name, line.error().text));
    if (!line->empty()) cores += fmt::format("host {}: {}", host.name, *line);
  }
  const Result<std::string> drawing = draw_here(config, plans, hosts);
  if (!drawing) refuse(kLostDaemonStatus, drawing.error().text);
  fmt::print("{}{}", *drawing, cores);
}

}  // namespace

int show_plan(const RunOptions& options) {
  const std::vector<Host>& hosts = options.hosts;
  const std::vector<proxy::NodeConfig> plans = hosts.empty()
                                                   ? plan_nodes(options.config, kRun, usable_cores())
                                                   : plan_nodes_of_hosts(options.config, kRun, hosts);
  if (hosts.empty() || are_this_machine(hosts)) {
    print_here(options.config, plans, hosts);
    return 0;
  }
  std::list<ConsultedHost> asked;
  for (const Host& host : hosts) {
    Result<ConsultedHost> talk = ConsultedHost::start(
        options.launcher->command(host, {options.agent, "--plan"}), options.launcher->inherited(host));
    if (!talk) refuse(kLostDaemonStatus, fmt::format("host {}: {}", host.name, talk.error().text));
    Json question = {{"configuration", settings::json_of(options.config).dump()},
                     {"plans", Json::array()},
                     {"cores", host.cores}};
    for (unsigned k = host.first_cluster; k < host.first_cluster + host.clusters; ++k)
      question["plans"].push_back(proxy::to_json(plans[k]));
    asked.push_back(std::move(talk).value());
    asked.back().say(question);
  }
  auto host = hosts.begin();
  for (ConsultedHost& talk : asked) {
    const Result<Json> answer = talk.next(monotonic_now() + kAnswer);
    if (!answer) refuse(kLostDaemonStatus, fmt::format("host {}: {}", host->name, answer.error().text));
    if (!answer->contains("drawing") || !(*answer)["drawing"].is_string())
      refuse(kLostDaemonStatus, fmt::format("host {}: what its braid-node says is no plan", host->name));
    fmt::print("{}{}\n{}", host == hosts.begin() ? "" : "\n", host->name,
               (*answer)["drawing"].get<std::string>());
    ++host;
  }
  return 0;
}

int serve_plan() {
  std::string line;
  std::getline(std::cin, line);
  try {
    const Json question = Json::parse(line);
    const Result<settings::RunConfig> config = settings::from_json<settings::RunConfig>(
        question.at("configuration").get<std::string>(), "the configuration");
    if (!config) refuse(kConfigStatus, config.error().text);
    std::vector<proxy::NodeConfig> plans;
    for (const Json& text : question.at("plans")) {
      Result<proxy::NodeConfig> plan = read_plan(text.get<std::string>());
      if (!plan) refuse(kConfigStatus, plan.error().text);
      plans.push_back(std::move(*plan));
    }
    const auto cores = question.at("cores").get<std::vector<unsigned>>();
    const Result<std::string> described = describe_cores(cores);
    if (!described) refuse(kLostDaemonStatus, described.error().text);
    if (const Result<std::string> kept = keep_to_cores(cores); !kept)
      refuse(kLostDaemonStatus, kept.error().text);
    const Result<std::string> drawing = draw_here(*config, plans);
    if (!drawing) refuse(kLostDaemonStatus, drawing.error().text);
    fmt::print("\n{}{}\n", kDoctorMark, Json({{"drawing", *drawing + *described}}).dump());
    return 0;
  } catch (const Json::exception& problem) {
    refuse(kUsageStatus,
           fmt::format("what came is no question of braid run --show-plan: {}", problem.what()));
  }
}

}  // namespace braid::cli
