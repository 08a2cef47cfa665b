// The UDP ports that runs which this machine starts have, in blocks of kMaxProxies (name_claim.h). Runs that other machines start may
// have the same ones on a host that they share: a bind tells.
#pragma once

#include <string>
#include <vector>

#include "tools/braid/process/descriptor.h"

namespace braid::cli {

class PortClaims {
 public:
  // A name that no other run has, with `blocks` consecutive blocks of ports from first_udp_port() on (plan.h) that nobody else has
  // claimed, and this has as long as it lives. Where there are hardly any such, they are claimed by others, too. Once.
  std::string claim_run(unsigned blocks);

 private:
  bool claim(const std::string& run, unsigned blocks);

  std::vector<Descriptor> held_;
};

}  // namespace braid::cli
