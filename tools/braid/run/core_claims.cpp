#include "tools/braid/run/core_claims.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "tools/braid/process/name_claim.h"

namespace braid::cli {
namespace {

std::string name_of(unsigned core) {
  return fmt::format("braid-core-{}", core);
}

}  // namespace

bool CoreClaims::claim(unsigned core) {
  std::optional<Descriptor> name = claim_name(name_of(core));
  if (!name) return false;
  held_.emplace(core, std::move(*name));
  return true;
}

std::set<unsigned> CoreClaims::taken(const HostProcessors& host) {
  std::set<unsigned> all;
  for (const Processor& p : host.usable)
    if (is_name_claimed(name_of(p.core))) all.insert(p.core);
  return all;
}

Placement CoreClaims::place(const HostProcessors& host, std::span<const ClusterNeeds> clusters) {
  // Each failure adds a core, so it ends.
  for (std::set<unsigned> others = taken(host);;) {
    Placement placement = cli::place(host, clusters, others);
    // In ascending order: of two runs that want the same, one gets all.
    std::set<unsigned> wanted;
    for (const PlacedCluster& c : placement.clusters) {
      for (const std::vector<unsigned>* threads : {&c.proxies, &c.nodes}) {
        for (const Processor& p : host.usable) {
          if (std::find(threads->begin(), threads->end(), p.number) != threads->end()) wanted.insert(p.core);
        }
      }
    }
    const auto refused =
        std::find_if(wanted.begin(), wanted.end(), [&](unsigned core) { return !claim(core); });
    if (refused == wanted.end()) return placement;
    others.insert(*refused);
    held_.clear();
  }
}

}  // namespace braid::cli
