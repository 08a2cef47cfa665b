// The placement of clusters on this host: what they need, from their plans (plan.h), and where it is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "proxy/daemon/node_config.h"
#include "settings/run.h"
#include "tools/braid/run/core_claims.h"
#include "tools/braid/run/hosts.h"
#include "tools/braid/run/placement.h"

namespace braid::cli {

// `hosts`: those that this machine is; their cores are those of their clusters.
std::vector<ClusterNeeds> needs_of(const settings::RunConfig& config,
                                   std::span<const proxy::NodeConfig> plans,
                                   std::span<const Host> hosts = {});

// For a run, which has the cores as long as `claims` lives. With bind none, and where nothing is known of the host's processors,
// nothing is bound. `plans`: of all clusters of the run that are on this machine.
Placement place_here(const settings::RunConfig& config, std::span<const proxy::NodeConfig> plans,
                     CoreClaims& claims, std::span<const Host> hosts = {});

// A warning if this host has too little memory for so many clusters to begin; else empty.
std::string warn_of_memory(const settings::RunConfig& config, std::size_t clusters);

// Draws what place_here() would do. Lines below say what is not bound and why, and whether memory is short. The error: the processors
// are not known.
Result<std::string> draw_here(const settings::RunConfig& config, std::span<const proxy::NodeConfig> plans,
                              std::span<const Host> hosts = {});

}  // namespace braid::cli
