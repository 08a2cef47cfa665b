// The cores that runs on this machine have (name_claim.h).
#pragma once

#include <map>
#include <set>
#include <span>

#include "tools/braid/process/descriptor.h"
#include "tools/braid/run/placement.h"

namespace braid::cli {

class CoreClaims {
 public:
  // Places the clusters on cores that no other run has, and claims these as long as this lives. Once.
  Placement place(const HostProcessors& host, std::span<const ClusterNeeds> clusters);
  // The cores (Processor::core) of these processors that other runs have.
  static std::set<unsigned> taken(const HostProcessors& host);

 private:
  // False: another process has it.
  bool claim(unsigned core);

  std::map<unsigned, Descriptor> held_;  // by core
};

}  // namespace braid::cli
