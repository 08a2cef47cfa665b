// The processors of this host and what they share, by hwloc.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/run/placement.h"

namespace braid::cli {

// What hwloc examines instead of this host, for tests: a description as of lstopo's --input ("pack:2 core:4 pu:2"), or the path
// of an XML file. At most one is given.
struct TopologySource {
  std::string synthetic{};
  std::string xml{};
};

// `usable`: the numbers of the processors that count; empty: all. `interfaces`: the network interfaces whose place is wanted; one
// that is not known here is near nothing. Without a quota. Takes some milliseconds for each hundred processors.
Result<HostProcessors> read_topology(std::span<const unsigned> usable,
                                     const std::set<std::string>& interfaces,
                                     const TopologySource& source = {});

// Of this host, with what this process may use and its quota.
Result<HostProcessors> own_processors(const std::set<std::string>& interfaces);

}  // namespace braid::cli
