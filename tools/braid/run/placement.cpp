#include "tools/braid/run/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/check.h"
#include "base/json.h"
#include "base/processors.h"
#include "tools/braid/counted.h"

namespace braid::cli {
namespace {

// A core that no other run has, by its first usable processor.
using Core = Processor;
using Cores = std::vector<const Core*>;

// How much two cores share.
enum class Closeness { kNothing, kPackage, kNuma, kCache };
constexpr Closeness kLevels[] = {Closeness::kCache, Closeness::kNuma, Closeness::kPackage,
                                 Closeness::kNothing};

Closeness closeness(const Core& a, const Core& b) {
  if (a.cache == b.cache) return Closeness::kCache;
  if (a.numa == b.numa) return Closeness::kNuma;
  return a.package == b.package ? Closeness::kPackage : Closeness::kNothing;
}

class Placer {
 public:
  // `taken`: cores of other runs. `reserved`: of other clusters of this one.
  Placer(const HostProcessors& host, const std::set<unsigned>& taken, const std::set<unsigned>& reserved)
      : host_(host) {
    std::set<unsigned> seen;
    for (const Processor& p : host.usable) {
      if (!seen.insert(p.core).second) continue;
      if (taken.contains(p.core))
        ++taken_;
      else if (reserved.contains(p.core))
        ++reserved_;
      else
        free_.push_back(&p);
    }
    cores_ = static_cast<unsigned>(seen.size());
  }

  Placement place(std::span<const ClusterNeeds> clusters) {
    unsigned threads = 0;
    for (const ClusterNeeds& c : clusters) threads += c.proxies + c.nodes;
    if (threads > available()) return {{}, refusal(clusters, threads)};
    std::vector<Work> all;
    for (const ClusterNeeds& c : clusters) all.push_back({c, {c.cluster, {}, {}}, {}});
    for (Work& work : all) place_near_interfaces(work);
    for (Work& work : all) place_cluster(work);
    Placement placement;
    for (Work& work : all) placement.clusters.push_back(std::move(work.placed));
    return placement;
  }

 private:
  struct Work {
    const ClusterNeeds& needs;
    PlacedCluster placed;
    Cores cores;  // that it has
  };

  // Whole cores: half of one is not enough for a thread that polls.
  unsigned available() const {
    const auto free = static_cast<double>(free_.size());
    return static_cast<unsigned>(std::min(free, std::floor(host_.quota.value_or(free))));
  }

  static std::string text_of_proxies(std::span<const ClusterNeeds> clusters) {
    const auto [least, most] = std::minmax_element(
        clusters.begin(), clusters.end(),
        [](const ClusterNeeds& a, const ClusterNeeds& b) { return a.proxies < b.proxies; });
    return counted_between(least->proxies, most->proxies, "proxy", "proxies");
  }

  std::string refusal(std::span<const ClusterNeeds> clusters, unsigned threads) const {
    std::string there = fmt::format("there {} {}", cores_ == 1 ? "is" : "are", cores_);
    if (const std::vector<unsigned>& only = clusters.front().processors; !only.empty())
      there += fmt::format(" (of {})", text_of_processor_set(only));
    if (taken_ > 0) there += fmt::format(", of which other runs have {}", taken_);
    if (reserved_ > 0) there += fmt::format(", of which other hosts of the host file have {}", reserved_);
    if (host_.quota && *host_.quota < static_cast<double>(cores_))
      there += fmt::format(", and the cgroup's quota is {:.1f}", *host_.quota);
    return fmt::format(
        "{} threads ({} of {} and {}) want a core each, and {}: none is bound to a core, and threads wait for each "
        "other; take fewer clusters, --compute or --proxies, or give the run more cores (--bind none: without "
        "this warning)",
        threads, counted(clusters.size(), "cluster"), counted(clusters.front().nodes, "compute node"),
        text_of_proxies(clusters), there);
  }

  // Proxies whose interface is near some cores come before everything else, as long as there are such cores.
  void place_near_interfaces(Work& work) {
    const std::vector<std::string>& interfaces = work.needs.interfaces;
    if (interfaces.empty()) return;
    for (unsigned p = 0; p < work.needs.proxies; ++p) {
      const auto near = host_.near.find(interfaces[p % interfaces.size()]);
      Cores nearby;
      for (const Core* core : free_) {
        if (near != host_.near.end() && near->second.contains(core->number)) nearby.push_back(core);
      }
      // The first that has none ends this: proxies are placed in their order.
      if (nearby.empty()) return;
      take(closest(nearby, work.cores), work.cores, work.placed.proxies);
    }
  }

  void place_cluster(Work& work) {
    const std::size_t proxies = work.needs.proxies - work.placed.proxies.size();
    const Domain domain = choose_domain(proxies + work.needs.nodes, work.cores);
    for (std::size_t i = 0; i < proxies; ++i)
      take(closest(free_cores(domain), work.cores), work.cores, work.placed.proxies);
    for (unsigned i = 0; i < work.needs.nodes; ++i)
      take(closest(free_cores(domain), work.cores), work.cores, work.placed.nodes);
  }

  // A part of the host: what is as close to the anchor as `level`.
  struct Domain {
    const Core* anchor;
    Closeness level;
    bool has(const Core* core) const { return closeness(*core, *anchor) >= level; }
  };
  Cores free_cores(const Domain& domain) const {
    Cores all;
    std::copy_if(free_.begin(), free_.end(), std::back_inserter(all),
                 [&](const Core* core) { return domain.has(core); });
    return all;
  }

  // The smallest part with `count` free cores: one that has cores of the cluster already, or else the one with the most free
  // cores, so that clusters spread over caches and memories.
  Domain choose_domain(std::size_t count, const Cores& own) const {
    for (const Closeness level : kLevels) {
      std::optional<Domain> best;
      std::pair<bool, std::size_t> best_rank{};
      for (const Core* core : free_) {
        const Domain domain{core, level};
        const std::size_t free = free_cores(domain).size();
        const std::pair rank{
            std::any_of(own.begin(), own.end(), [&](const Core* c) { return domain.has(c); }), free};
        if (free < count || (best && rank <= best_rank)) continue;
        best = domain;
        best_rank = rank;
      }
      if (best) return *best;
    }
    CHECK(false);  // the whole host is one
  }

  // The one of them that shares most with the cluster's cores; then one whose cache has most free cores; then the first.
  const Core* closest(const Cores& candidates, const Cores& own) const {
    const Core* best = nullptr;
    std::pair<Closeness, std::size_t> best_rank{};
    for (const Core* core : candidates) {
      Closeness most = Closeness::kNothing;
      for (const Core* c : own) most = std::max(most, closeness(*core, *c));
      const std::pair rank{most, free_cores({core, Closeness::kCache}).size()};
      if (best != nullptr && rank <= best_rank) continue;
      best = core;
      best_rank = rank;
    }
    CHECK(best != nullptr);
    return best;
  }

  void take(const Core* core, Cores& own, std::vector<unsigned>& threads) {
    threads.push_back(core->number);
    own.push_back(core);
    std::erase(free_, core);
  }

  const HostProcessors& host_;
  unsigned cores_ = 0, taken_ = 0, reserved_ = 0;
  Cores free_;  // in the host's order
};

// Clusters that may use the same processors, in the order in which they are placed.
std::vector<std::vector<ClusterNeeds>> groups_of(std::span<const ClusterNeeds> clusters) {
  std::vector<std::vector<ClusterNeeds>> groups;
  for (const ClusterNeeds& c : clusters) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const std::vector<ClusterNeeds>& g) {
      return g.front().processors == c.processors;
    });
    if (same == groups.end())
      groups.push_back({c});
    else
      same->push_back(c);
  }
  const auto choice = [](const std::vector<ClusterNeeds>& group) {
    const std::size_t size = group.front().processors.size();
    return size == 0 ? std::size_t{kMaxProcessors} + 1 : size;
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const auto& a, const auto& b) { return choice(a) < choice(b); });
  return groups;
}

// The processors of the host that a group may use (empty: all), and the quota without that of `placed` threads of other groups.
HostProcessors part_of(const HostProcessors& host, const std::vector<unsigned>& processors, double placed) {
  HostProcessors part = host;
  std::erase_if(part.usable, [&](const Processor& p) {
    return !processors.empty() && !std::binary_search(processors.begin(), processors.end(), p.number);
  });
  if (part.quota) *part.quota = std::max(0.0, *part.quota - placed);
  return part;
}

}  // namespace

Placement place(const HostProcessors& host, std::span<const ClusterNeeds> clusters,
                const std::set<unsigned>& taken) {
  Placement all;
  std::set<unsigned> bound, confined;  // cores: with a thread of a group; to which a group is confined
  for (const std::vector<ClusterNeeds>& group : groups_of(clusters)) {
    const std::vector<unsigned>& processors = group.front().processors;
    const HostProcessors part = part_of(host, processors, static_cast<double>(bound.size()));
    if (part.usable.empty()) continue;  // braid-node refuses that by name (host_cores.h)
    Placement placed = Placer(part, taken, processors.empty() ? confined : bound).place(group);
    std::set<unsigned> numbers;
    for (const PlacedCluster& c : placed.clusters) {
      numbers.insert(c.proxies.begin(), c.proxies.end());
      numbers.insert(c.nodes.begin(), c.nodes.end());
    }
    for (const Processor& p : part.usable) {
      if (numbers.contains(p.number)) bound.insert(p.core);
      confined.insert(p.core);
    }
    std::move(placed.clusters.begin(), placed.clusters.end(), std::back_inserter(all.clusters));
    if (!placed.why_not.empty()) all.why_not += (all.why_not.empty() ? "" : "\n") + placed.why_not;
  }
  return all;
}

std::string draw(const HostProcessors& host, const Placement& placement, const std::set<unsigned>& taken) {
  std::map<unsigned, std::string> who;  // by processor
  for (const PlacedCluster& c : placement.clusters) {
    for (std::size_t p = 0; p < c.proxies.size(); ++p)
      who[c.proxies[p]] = fmt::format("proxy {} of cluster {}", p, c.cluster);
    for (std::size_t n = 0; n < c.nodes.size(); ++n)
      who[c.nodes[n]] = fmt::format("compute node {} of cluster {}", n, c.cluster);
  }
  constexpr const char* kRow = "{:>7}  {:>4}  {:>5}  {:>4}  {:<10}  {}\n";
  std::string text = fmt::format(kRow, "package", "NUMA", "cache", "core", "processors", "who");
  for (std::size_t i = 0; i < host.usable.size();) {
    const Processor& first = host.usable[i];
    std::vector<unsigned> siblings;
    std::string runs = taken.contains(first.core) ? "another run" : "-";
    for (; i < host.usable.size() && host.usable[i].core == first.core; ++i) {
      siblings.push_back(host.usable[i].number);
      if (const auto one = who.find(siblings.back()); one != who.end())
        runs = fmt::format("{} (processor {})", one->second, one->first);
    }
    text += fmt::format(kRow, first.package, first.numa, first.cache, first.core,
                        text_of_processors(siblings), runs);
  }
  if (host.quota) text += fmt::format("The cgroup's quota: {:.1f} processors.\n", *host.quota);
  return text;
}

void to_json(nlohmann::json& json, const PlacedCluster& c) {
  json = {{"cluster", c.cluster}, {"proxies", c.proxies}, {"nodes", c.nodes}};
}
void from_json(const nlohmann::json& json, PlacedCluster& c) {
  c = {json.at("cluster").get<unsigned>(), json.at("proxies").get<std::vector<unsigned>>(),
       json.at("nodes").get<std::vector<unsigned>>()};
}

}  // namespace braid::cli
