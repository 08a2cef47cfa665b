#include "dsm/live/report.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "dsm/live/allocation_sites.h"
#include "dsm/program/heap.h"
#include "dsm/program/object_ids.h"
#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

using Json = nlohmann::ordered_json;

// `braid run` adds those of all clusters, so each reports more than are printed.
constexpr std::size_t kReported = 64;

// The sum over the nodes of what each waited for, at least.
template <class Costs, class Choose>
Costs sum_of(std::span<const NodeReport> nodes, Choose&& choose) {
  Costs sum;
  for (const NodeReport& n : nodes) {
    if (n.costs == nullptr) continue;
    for (const auto& entry : choose(*n.costs).heaviest(kReported))
      sum.add(entry.key, entry.least()).add(entry.value);
  }
  return sum;
}

Json range_json(AccessRange range) {
  return range.empty() ? Json() : Json::array({range.first, range.last});
}

// What the byte at `address` belongs to: a global where these are shared, or an allocation.
Json owner_json(std::uintptr_t address) {
  const auto json = [&](const char* kind, const std::string& name, std::uintptr_t first, std::size_t bytes) {
    return Json{{"kind", kind}, {"place", name}, {"bytes", bytes}, {"offset", address - first}};
  };
  if (in_globals(address)) {
    const DataSymbol symbol = data_symbol(address);
    return symbol.name.empty() ? Json() : json("global", symbol.name, symbol.first, symbol.bytes);
  }
  const AllocationSite site = allocation_site(address);
  return site.bytes == 0 ? Json() : json("allocation", site.place, site.first, site.bytes);
}

Json costly_pages(std::span<const NodeReport> nodes) {
  Json pages = Json::array();
  const auto sum = sum_of<NodeCosts::Pages>(
      nodes, [](const NodeCosts& c) -> const auto& { return c.pages(); });
  for (const auto& entry : sum.heaviest(kReported)) {
    const auto page = reinterpret_cast<std::uintptr_t>(application_address(entry.key));
    const PageFaults& faults = entry.value;
    // An allocation need not begin where its page does.
    const std::uint16_t used = std::min(faults.read.first, faults.written.first);
    pages.push_back({{"page", entry.key.value()},
                     {"faults_ns", entry.least()},
                     {"read_faults", faults.reads},
                     {"write_faults", faults.writes},
                     {"read", range_json(faults.read)},
                     {"written", range_json(faults.written)},
                     {"allocated", owner_json(page + used)}});
  }
  return pages;
}

Json costly_locks(std::span<const NodeReport> nodes) {
  Json locks = Json::array();
  const auto sum = sum_of<NodeCosts::Locks>(
      nodes, [](const NodeCosts& c) -> const auto& { return c.locks(); });
  for (const auto& entry : sum.heaviest(kReported)) {
    const std::uintptr_t address = address_of_lock(entry.key);
    const OwnLocks* const own = own_locks(entry.key);
    locks.push_back({{"lock", entry.key.value()},
                     {"name", name_of_lock(entry.key)},
                     {"cure", own == nullptr ? Json() : Json(own->cure)},
                     {"allocated", address == 0 ? Json() : owner_json(address)},
                     {"locks_ns", entry.least()},
                     {"waits", entry.value.count},
                     {"longest_ns", entry.value.longest.ns()}});
  }
  return locks;
}

}  // namespace

std::string report_json(std::uint16_t cluster, const char* protection, Duration parallel,
                        std::span<const NodeReport> nodes, const ClusterCounts& all_of_cluster,
                        const NetworkCounts& all_of_endpoint, const CountsBefore& before,
                        const WrittenGlobals& globals) {
  const ClusterCounts c = difference(all_of_cluster, before.cluster);
  const NetworkCounts e = difference(all_of_endpoint, before.endpoint);
  Json report;
  report["cluster"] = cluster;
  report["protection"] = protection;
  report["parallel_ns"] = parallel.ns();
  report["nodes"] = Json::array();
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
  report["page_bytes"] = page_length().bytes();
  auto& pages = report["costly_pages"] = costly_pages(nodes);
  // Then the cluster may have waited for pages that are not among them.
  report["costly_pages_full"] = pages.size() == kReported;
  report["costly_locks"] = costly_locks(nodes);
  auto& cluster_counts = report["cluster_counts"] = Json::object();
  for_each_count(c, [&](const char* name, std::uint64_t value) { cluster_counts[name] = value; });
  report["endpoint"] = {{"messages_sent", e.messages_sent}, {"messages_received", e.messages_received},
                        {"duplicates", e.duplicates},       {"bad_arrivals", e.bad_arrivals},
                        {"no_credit", e.no_credit},         {"channel_full", e.channel_full}};
  if (!before.proxies.empty()) {
    auto& proxies = report["proxies_before"] = Json::array();
    for (const CounterValues& counters : before.proxies) {
      Json values = Json::object();
      for (const auto& [name, value] : counters) values[name] = value;
      proxies.push_back(std::move(values));
    }
  }
  if (globals.are_watched) {
    report["globals"] = {{"have_names", globals.have_names},
                         {"written", globals.names},
                         {"more", globals.more},
                         {"unwatched_bytes", globals.unwatched_bytes}};
  }
  // Names of variables may be any bytes.
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace braid::dsm
