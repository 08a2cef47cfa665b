#include "tools/braid/run/place_here.h"

#include <fmt/core.h>

#include <set>

#include "base/interfaces.h"
#include "tools/braid/doctor/findings.h"
#include "tools/braid/run/topology.h"

namespace braid::cli {
namespace {

// The network interface that a link uses here; empty: none, or none that is known. Devices of DPDK name it in their arguments.
std::string interface_of(const proxy::NodeConfig& node, const proxy::LinkConfig& link) {
  if (settings::is_addressed_by_kernel(link.kind))
    return interface_with(link.address.empty() ? node.address : link.address);
  constexpr std::string_view kName = "iface=";
  const std::size_t at = link.device.find(kName);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kName.size();
  return link.device.substr(begin, link.device.find(',', begin) - begin);
}

Finding judge_memory(const settings::RunConfig& config, std::size_t clusters) {
  return judge(read_memory(), {static_cast<unsigned>(clusters), std::uint64_t{config.heap_mib} << 20});
}

std::string line_of(const Finding& finding) {
  return fmt::format("{}: {}; {}", finding.what, finding.found, finding.cure);
}

std::set<std::string> interfaces_of(std::span<const ClusterNeeds> clusters) {
  std::set<std::string> all;
  for (const ClusterNeeds& c : clusters) {
    for (const std::string& interface : c.interfaces)
      if (!interface.empty()) all.insert(interface);
  }
  return all;
}

}  // namespace

std::vector<ClusterNeeds> needs_of(const settings::RunConfig& config,
                                   std::span<const proxy::NodeConfig> plans, std::span<const Host> hosts) {
  std::vector<ClusterNeeds> all;
  for (const proxy::NodeConfig& plan : plans) {
    ClusterNeeds needs{plan.cluster, plan.proxies, config.compute};
    std::size_t nis = config.nis;
    for (const Host& host : hosts) {
      if (plan.cluster < host.first_cluster || plan.cluster >= host.first_cluster + host.clusters) continue;
      needs.processors = host.cores;
      nis = host.addresses.size();
    }
    // Links that lead to a network come first, one for each NI (plan.cpp).
    for (std::size_t n = 0; n < nis && n < plan.links.size(); ++n)
      needs.interfaces.push_back(interface_of(plan, plan.links[n]));
    all.push_back(std::move(needs));
  }
  return all;
}

Placement place_here(const settings::RunConfig& config, std::span<const proxy::NodeConfig> plans,
                     CoreClaims& claims, std::span<const Host> hosts) {
  if (config.bind == settings::Bind::kNone) return {};
  const std::vector<ClusterNeeds> needs = needs_of(config, plans, hosts);
  const Result<HostProcessors> host = own_processors(interfaces_of(needs));
  if (!host) return {{}, host.error().text};
  return claims.place(*host, needs);
}

std::string warn_of_memory(const settings::RunConfig& config, std::size_t clusters) {
  const Finding memory = judge_memory(config, clusters);
  return memory.verdict == Verdict::kBad ? line_of(memory) : "";
}

Result<std::string> draw_here(const settings::RunConfig& config, std::span<const proxy::NodeConfig> plans,
                              std::span<const Host> hosts) {
  const std::vector<ClusterNeeds> needs = needs_of(config, plans, hosts);
  const Result<HostProcessors> host = own_processors(interfaces_of(needs));
  if (!host) return host.error();
  const std::set<unsigned> taken = CoreClaims::taken(*host);
  const bool binds = config.bind == settings::Bind::kCore;
  const Placement placement = binds ? place(*host, needs, taken) : Placement{};
  std::string text = draw(*host, placement, taken);
  if (!binds) text += "--bind none: nothing is bound.\n";
  if (!placement.why_not.empty()) text += placement.why_not + "\n";
  if (const Finding memory = judge_memory(config, plans.size()); memory.verdict != Verdict::kOk)
    text += line_of(memory) + "\n";
  return text;
}

}  // namespace braid::cli
