#include "dsm/live/report.h"

#include <nlohmann/json.hpp>

namespace braid::dsm {

std::string report_json(std::uint16_t cluster, const char* protection, std::span<const NodeReport> nodes,
                        const ClusterCounts& c, const NetworkCounts& e) {
  nlohmann::ordered_json report;
  report["cluster"] = cluster;
  report["protection"] = protection;
  report["nodes"] = nlohmann::ordered_json::array();
  for (const NodeReport& n : nodes) {
    report["nodes"].push_back({{"node", n.node},
                               {"read_faults", n.counts.read_faults},
                               {"write_faults", n.counts.write_faults},
                               {"fetches", n.counts.fetches},
                               {"lock_calls", n.counts.lock_calls},
                               {"remote_locks", n.counts.remote_locks},
                               {"barriers", n.counts.barriers},
                               {"sync_calls", n.counts.sync_calls},
                               {"faults_ns", n.times.faults_ns},
                               {"locks_ns", n.times.locks_ns},
                               {"barriers_ns", n.times.barriers_ns},
                               {"syncs_ns", n.times.syncs_ns}});
  }
  auto& cluster_counts = report["cluster_counts"] = nlohmann::ordered_json::object();
  for_each_count(c, [&](const char* name, std::uint64_t value) { cluster_counts[name] = value; });
  report["endpoint"] = {{"messages_sent", e.messages_sent}, {"messages_received", e.messages_received},
                        {"duplicates", e.duplicates},       {"bad_arrivals", e.bad_arrivals},
                        {"no_credit", e.no_credit},         {"channel_full", e.channel_full}};
  return report.dump();
}

}  // namespace braid::dsm
