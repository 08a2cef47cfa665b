#include "tools/braid/run/costs.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/json.h"

namespace braid::cli {

namespace {

using Json = nlohmann::ordered_json;

std::optional<ByteRange> range(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array() || it->size() != 2) return {};
  const Json& first = (*it)[0];
  const Json& last = (*it)[1];
  if (!first.is_number_unsigned() || !last.is_number_unsigned()) return {};
  return ByteRange(first.get<unsigned>(), last.get<unsigned>());
}

// The text of the member; empty: there is none.
std::string text_in(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// What a page or a lock lies in.
struct Owner {
  bool is_global = false;
  std::string name;  // of the global, or of the place in the program that allocated the memory
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in it

  std::string text() const { return is_global ? "global " + name : name; }
};
// None: the cluster does not know. Memory that a compute node allocated alone is known to its cluster only.
std::optional<Owner> owner_of(const Json& given) {
  const auto it = given.find("allocated");
  if (it == given.end() || !it->is_object()) return {};
  const Owner owner = {.is_global = text_in(*it, "kind") == "global",
                       .name = text_in(*it, "place"),
                       .bytes = count_in(*it, "bytes"),
                       .offset = count_in(*it, "offset")};
  return owner.name.empty() ? std::optional<Owner>() : owner;
}

template <class Visit>
void for_each_object(const Json& object, const char* key, Visit&& visit) {
  if (!object.is_object()) return;
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) return;
  for (const Json& item : *list) {
    if (item.is_object()) visit(item);
  }
}

Json json_of(const std::optional<ByteRange>& bytes) {
  return bytes ? Json::array({bytes->first, bytes->second}) : Json();
}

bool is_full(const Json& cluster) {
  const auto it = cluster.is_object() ? cluster.find("costly_pages_full") : cluster.end();
  return it != cluster.end() && it->is_boolean() && it->get<bool>();
}

std::vector<CostlyPage> pages_of(std::span<const Json> clusters) {
  std::map<std::uint64_t, CostlyPage> pages;
  std::vector<bool> full;
  for (const Json& cluster : clusters) full.push_back(is_full(cluster));
  const auto all_full = std::count(full.begin(), full.end(), true);
  for (std::uint32_t k = 0; k < clusters.size(); ++k) {
    for_each_object(clusters[k], "costly_pages", [&](const Json& given) {
      CostlyPage& page = pages[count_in(given, "page")];
      page.page = static_cast<std::uint32_t>(count_in(given, "page"));
      page.faults_ns += count_in(given, "faults_ns");
      page.uses.push_back({.cluster = k,
                           .read_faults = count_in(given, "read_faults"),
                           .write_faults = count_in(given, "write_faults"),
                           .read = range(given, "read"),
                           .written = range(given, "written")});
      const std::optional<Owner> owner = owner_of(given);
      if (!owner || !page.place.empty()) return;
      page.place = owner->text();
      page.bytes = owner->bytes;
    });
  }
  std::vector<CostlyPage> list;
  for (auto& [id, page] : pages) {
    const auto told = std::count_if(page.uses.begin(), page.uses.end(),
                                    [&](const PageUse& use) { return full[use.cluster]; });
    page.may_have_other_uses = told < all_full;
    list.push_back(std::move(page));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const CostlyPage& a, const CostlyPage& b) { return a.faults_ns > b.faults_ns; });
  return list;
}

std::vector<CostlyMemory> memory_of(const std::vector<CostlyPage>& pages) {
  struct Sum {
    CostlyMemory memory;
    std::array<std::uint64_t, 5> ns_of_sharing{};
  };
  std::map<std::string, Sum> sums;
  for (const CostlyPage& page : pages) {
    Sum& sum = sums[page.place];
    sum.memory.place = page.place;
    sum.memory.faults_ns += page.faults_ns;
    for (const PageUse& use : page.uses) {
      sum.memory.read_faults += use.read_faults;
      sum.memory.write_faults += use.write_faults;
    }
    ++sum.memory.pages;
    sum.ns_of_sharing[static_cast<std::size_t>(page.sharing())] += page.faults_ns;
  }
  std::vector<CostlyMemory> list;
  for (auto& [place, sum] : sums) {
    const auto unknown = sum.ns_of_sharing.begin() + static_cast<std::size_t>(Sharing::kUnknown);
    const auto most = std::max_element(sum.ns_of_sharing.begin(), unknown);
    sum.memory.sharing = *most == 0 && *unknown > 0 ? Sharing::kUnknown
                                                    : static_cast<Sharing>(most - sum.ns_of_sharing.begin());
    list.push_back(sum.memory);
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const CostlyMemory& a, const CostlyMemory& b) { return a.faults_ns > b.faults_ns; });
  return list;
}

std::string name_of_lock(const Json& given, std::uint32_t number) {
  std::string name = text_in(given, "name");
  if (name.empty()) return fmt::format("lock {}", number);
  const std::optional<Owner> owner = owner_of(given);
  if (!owner) return name;
  name += owner->offset == 0 ? ", the beginning of " : fmt::format(", {} bytes into ", owner->offset);
  return name + (owner->is_global ? owner->text() : "what was allocated in " + owner->name);
}

std::vector<CostlyLock> locks_of(std::span<const Json> clusters) {
  std::map<std::uint64_t, CostlyLock> locks;
  for (const Json& cluster : clusters) {
    for_each_object(cluster, "costly_locks", [&](const Json& given) {
      CostlyLock& lock = locks[count_in(given, "lock")];
      lock.lock = static_cast<std::uint32_t>(count_in(given, "lock"));
      // The longer name is that of a cluster that knows what the lock lies in.
      if (std::string name = name_of_lock(given, lock.lock); name.size() > lock.name.size())
        lock.name = std::move(name);
      lock.cure = text_in(given, "cure");
      lock.waits += count_in(given, "waits");
      lock.locks_ns += count_in(given, "locks_ns");
      lock.longest_ns = std::max(lock.longest_ns, count_in(given, "longest_ns"));
    });
  }
  std::vector<CostlyLock> list;
  for (const auto& [id, lock] : locks) list.push_back(lock);
  std::stable_sort(list.begin(), list.end(),
                   [](const CostlyLock& a, const CostlyLock& b) { return a.locks_ns > b.locks_ns; });
  return list;
}

// A node whose calls of words, flags, semaphores and conditions take such a part of the run on average waits for what others
// compute, as a thread that joins others does: fewer of these calls would not shorten it.
constexpr double kLongCall = 0.05;

// The waiting of compute nodes, by kind. Not of those that only wait for others to compute.
struct Waiting {
  double faults = 0, locks = 0, barriers = 0, syncs = 0;
  unsigned nodes = 0;
  // At barriers: of the node that waited least, and of the one that waited most.
  std::pair<std::uint64_t, std::uint64_t> least{}, most{};  // number and nanoseconds

  double sum() const { return faults + locks + barriers + syncs; }
};

Waiting waiting_of(std::span<const Json> clusters, Duration run_time) {
  const auto run = static_cast<double>(run_time.ns());
  Waiting sum;
  for (const Json& cluster : clusters) {
    for_each_object(cluster, "nodes", [&](const Json& node) {
      const std::uint64_t barriers = count_in(node, "barriers_ns");
      const auto faults = static_cast<double>(count_in(node, "faults_ns"));
      const auto locks = static_cast<double>(count_in(node, "locks_ns"));
      const auto syncs = static_cast<double>(count_in(node, "syncs_ns"));
      const auto calls = static_cast<double>(count_in(node, "sync_calls"));
      const bool waits_long = calls > 0 && syncs > kLongCall * run * calls;
      if (waits_long && faults + locks + static_cast<double>(barriers) < kLongCall * run) return;
      sum.faults += faults;
      sum.locks += locks;
      sum.barriers += static_cast<double>(barriers);
      if (!waits_long) sum.syncs += syncs;
      const std::pair<std::uint64_t, std::uint64_t> own(count_in(node, "node"), barriers);
      if (sum.nodes == 0 || own.second < sum.least.second) sum.least = own;
      if (sum.nodes == 0 || own.second >= sum.most.second) sum.most = own;
      ++sum.nodes;
    });
  }
  return sum;
}

// Pages of this length take fewer faults than shorter ones where a program uses neighbouring bytes together.
constexpr std::uint64_t kLongerPageBytes = 16384;

std::string advice_for(const CostlyMemory& memory, std::uint64_t page_bytes) {
  const std::string name = memory.place.empty() ? "one allocation" : memory.place;
  switch (memory.sharing) {
    case Sharing::kOneCluster:
      return fmt::format(
          "allocate the memory of {} where it is used (Placement): clusters fetch pages that no other one needs",
          name);
    case Sharing::kReaders:
      return fmt::format(
          "read less often, or in order, what one cluster writes in the memory of {}: pages that are read in order are fetched ahead",
          name);
    case Sharing::kSamePlaces:
      return fmt::format(
          "write the memory of {} less often from several clusters: sum up in private memory and call reduce(), or use a word (fetch_add()) for a counter",
          name);
    case Sharing::kOtherPlaces:
      return fmt::format(
          "give each cluster whole pages ({} bytes, aligned) in the memory of {}: clusters write different bytes of the same pages",
          page_bytes, name);
    case Sharing::kUnknown:
      return fmt::format(
          "use fewer pages of the memory of {} in several clusters{}; how these share them a run with a smaller input tells: "
          "there are more pages than reports hold",
          name,
          page_bytes < kLongerPageBytes ? fmt::format(", or longer ones (--page-bytes {})", kLongerPageBytes)
                                        : "");
  }
  return {};
}

}  // namespace

std::uint64_t count_in(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() && *it >= 0 ? it->get<std::uint64_t>() : 0;
}

Sharing CostlyPage::sharing() const {
  std::vector<const PageUse*> writers;
  for (const PageUse& use : uses) {
    if (use.write_faults > 0 && use.written) writers.push_back(&use);
  }
  if (uses.size() < 2) return may_have_other_uses ? Sharing::kUnknown : Sharing::kOneCluster;
  if (writers.size() < 2) return Sharing::kReaders;
  std::sort(writers.begin(), writers.end(),
            [](const PageUse* a, const PageUse* b) { return *a->written < *b->written; });
  for (std::size_t i = 1; i < writers.size(); ++i) {
    if (writers[i]->written->first <= writers[i - 1]->written->second) return Sharing::kSamePlaces;
  }
  return Sharing::kOtherPlaces;
}

RunCosts costs_of(std::span<const Json> clusters) {
  RunCosts costs;
  costs.pages = pages_of(clusters);
  costs.memory = memory_of(costs.pages);
  costs.locks = locks_of(clusters);
  return costs;
}

std::string to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::kOneCluster:
      return "one cluster";
    case Sharing::kReaders:
      return "one writer, several readers";
    case Sharing::kSamePlaces:
      return "several writers";
    case Sharing::kOtherPlaces:
      return "several writers, each in other bytes";
    case Sharing::kUnknown:
      return "not known";
  }
  return {};
}

Json json_of(const RunCosts& costs) {
  Json json = Json::object();
  Json& memory = json["memory"] = Json::array();
  for (const CostlyMemory& m : costs.memory) {
    memory.push_back({{"allocated", m.place},
                      {"pages", m.pages},
                      {"faults_ns", m.faults_ns},
                      {"read_faults", m.read_faults},
                      {"write_faults", m.write_faults},
                      {"sharing", to_string(m.sharing)}});
  }
  Json& pages = json["pages"] = Json::array();
  for (const CostlyPage& p : costs.pages) {
    Json page = {{"page", p.page},
                 {"faults_ns", p.faults_ns},
                 {"allocated", p.place},
                 {"allocated_bytes", p.bytes},
                 {"sharing", to_string(p.sharing())},
                 {"clusters", Json::array()}};
    for (const PageUse& use : p.uses) {
      page["clusters"].push_back({{"cluster", use.cluster},
                                  {"read_faults", use.read_faults},
                                  {"write_faults", use.write_faults},
                                  {"read", json_of(use.read)},
                                  {"written", json_of(use.written)}});
    }
    pages.push_back(std::move(page));
  }
  Json& locks = json["locks"] = Json::array();
  for (const CostlyLock& l : costs.locks) {
    locks.push_back({{"lock", l.lock},
                     {"name", l.name},
                     {"waits", l.waits},
                     {"locks_ns", l.locks_ns},
                     {"longest_ns", l.longest_ns}});
  }
  return json;
}

std::string advice(const RunCosts& costs, std::span<const Json> clusters, Duration run_time) {
  const Waiting waiting = waiting_of(clusters, run_time);
  const double all = static_cast<double>(run_time.ns()) * waiting.nodes;
  if (all <= 0 || waiting.sum() < 0.1 * all) return {};
  const auto percent = [&](double ns) { return fmt::format("{:.0f} %", 100 * ns / all); };
  // While one node waits for a page the others may wait for it at a barrier.
  const double others = std::max({waiting.locks, waiting.syncs, waiting.barriers / 2});
  const std::uint64_t page_bytes = clusters.empty() ? 0 : count_in(clusters.front(), "page_bytes");
  if (waiting.faults >= others && !costs.memory.empty())
    return fmt::format("compute nodes spent {} of the time in page faults: {}", percent(waiting.faults),
                       advice_for(costs.memory.front(), page_bytes));
  const double greatest = std::max({waiting.locks, waiting.syncs, waiting.barriers});
  if (greatest == waiting.locks && !costs.locks.empty()) {
    const CostlyLock& lock = costs.locks.front();
    return fmt::format("compute nodes spent {} of the time waiting for locks, most for {}: {}",
                       percent(waiting.locks), lock.name,
                       lock.cure.empty()
                           ? "divide what it protects among several locks, or use a word (fetch_add()) for "
                             "a counter"
                           : lock.cure);
  }
  if (greatest == waiting.barriers)
    return fmt::format(
        "compute nodes spent {} of the time at barriers, node {} {:.1f} ms and node {} {:.1f} ms: give those that "
        "wait least less to do",
        percent(waiting.barriers), waiting.most.first, static_cast<double>(waiting.most.second) / 1e6,
        waiting.least.first, static_cast<double>(waiting.least.second) / 1e6);
  if (greatest == waiting.syncs)
    return fmt::format(
        "compute nodes spent {} of the time in calls of words, flags, semaphores and conditions: make fewer of them, or "
        "relaxed ones (MemoryOrder) where they publish nothing",
        percent(waiting.syncs));
  return {};
}

}  // namespace braid::cli
