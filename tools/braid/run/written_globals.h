// The globals that clusters of a run wrote, each a copy of its own, and that main() or another cluster may miss: joined from the
// reports of all clusters. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace braid::cli {

struct WrittenGlobal {
  std::string name;
  std::vector<std::uint32_t> clusters;  // in order
};

struct GlobalsOfClusters {
  std::vector<WrittenGlobal> by_several;  // at least two clusters; in the order of their addresses
  // By one cluster that is not main()'s, cluster 0; in the same order. Empty if not all is known that cluster 0 wrote.
  std::vector<WrittenGlobal> by_one;
  bool have_names = true;             // false: a program is stripped, so nothing is known of it
  std::uint64_t not_told = 0;         // further globals that clusters wrote, without their names
  std::uint64_t unwatched_bytes = 0;  // of globals, in the cluster with most
};

// `clusters`: the report that each cluster's application gave; what is no such report is left out.
GlobalsOfClusters globals_of(std::span<const nlohmann::ordered_json> clusters);

// Sentences that name them, with the cure; none if there is nothing to say.
std::vector<std::string> warnings(const GlobalsOfClusters& globals);
nlohmann::ordered_json json_of(const GlobalsOfClusters& globals);

}  // namespace braid::cli
