// Which processor each proxy and each compute node of a host runs on. Pure: from the host's processors (topology.h) and what
// its clusters need to a plan, and from a plan to a drawing. docs/OPERATIONS.md (Placement) has the rules.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace braid::cli {

// One that may be used. The other members say what it shares with others: two with an equal `core` are siblings.
struct Processor {
  unsigned number;  // as the kernel counts
  unsigned core;    // the lowest number of a processor of its core, usable or not
  unsigned cache;   // of the last level
  unsigned numa;
  unsigned package;
};

struct HostProcessors {
  std::vector<Processor> usable;                   // siblings and neighbours next to each other
  std::optional<double> quota;                     // of processor time, in processors; nothing: no limit
  std::map<std::string, std::set<unsigned>> near;  // of a network interface: the processors at its NUMA node
};

struct ClusterNeeds {
  unsigned cluster;
  unsigned proxies, nodes;
  std::vector<std::string> interfaces{};  // proxy i uses interface i modulo their number; empty names: none
  std::vector<unsigned> processors{};     // that alone it may use, ascending; empty: all
};

struct PlacedCluster {
  unsigned cluster;
  std::vector<unsigned> proxies, nodes;  // the processor of each
  friend bool operator==(const PlacedCluster&, const PlacedCluster&) = default;
};

struct Placement {
  std::vector<PlacedCluster> clusters;  // of the needs; empty: nothing is bound
  std::string why_not;                  // with numbers and cure, in lines; empty: all is bound
};

// `taken`: cores that other runs have. Clusters with the same `processors` are placed or left together, those with the fewest
// first; those that may use all get what no other is confined to.
Placement place(const HostProcessors& host, std::span<const ClusterNeeds> clusters,
                const std::set<unsigned>& taken);

// A line for each core: where it is, its processors, and who runs there.
std::string draw(const HostProcessors& host, const Placement& placement, const std::set<unsigned>& taken);

void to_json(nlohmann::json& json, const PlacedCluster& cluster);
// Throws nlohmann::json::exception for what is none.
void from_json(const nlohmann::json& json, PlacedCluster& cluster);

}  // namespace braid::cli
