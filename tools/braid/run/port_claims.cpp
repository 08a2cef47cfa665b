#include "tools/braid/run/port_claims.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "tools/braid/process/name_claim.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/run/shared_files.h"

namespace braid::cli {
namespace {

// If all blocks but one are claimed, that one is missed once in 20,000.
constexpr unsigned kTries = 10 * kUdpPorts / kMaxProxies;

}  // namespace

std::string PortClaims::claim_run(unsigned blocks) {
  std::string run = unique_run_name();
  for (unsigned tries = 1; !claim(run, blocks) && tries < kTries; ++tries) run = unique_run_name();
  return run;
}

bool PortClaims::claim(const std::string& run, unsigned blocks) {
  std::vector<Descriptor> names;
  for (unsigned b = 0; b < blocks; ++b) {
    std::optional<Descriptor> name =
        claim_name(fmt::format("braid-udp-{}", first_udp_port(run) + b * kMaxProxies));
    if (!name) return false;
    names.push_back(std::move(*name));
  }
  held_ = std::move(names);
  return true;
}

}  // namespace braid::cli
