#include "dsm/live/allocation_sites.h"

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <span>

#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

constexpr std::size_t kMaxSites = 65536;
// Those of the runtime and of the program's own allocator among them.
constexpr std::size_t kCalls = 12;

struct Site {
  std::size_t bytes = 0;
  std::array<std::uintptr_t, kCalls> calls{};
  std::size_t depth = 0;
};

struct Sites {
  std::mutex mutex;
  std::map<std::uintptr_t, Site> by_address;
};

// Not destroyed: threads may allocate while the process ends.
Sites& sites() {
  static Sites* const all = new Sites;
  return *all;
}

}  // namespace

void note_allocation(const void* memory, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(memory);
  Sites& all = sites();
  const std::lock_guard hold(all.mutex);
  if (all.by_address.size() >= kMaxSites) return;
  const auto [site, is_new] = all.by_address.try_emplace(first);
  if (!is_new) return;
  site->second.bytes = bytes;
  site->second.depth = calls_to_here(site->second.calls);
}

AllocationSite allocation_site(std::uintptr_t address) {
  Sites& all = sites();
  const std::lock_guard hold(all.mutex);
  auto site = all.by_address.upper_bound(address);
  if (site == all.by_address.begin()) return {};
  --site;
  if (address - site->first >= site->second.bytes) return {};
  const std::span calls(site->second.calls.data(), site->second.depth);
  return {.place = place_in_program(calls), .first = site->first, .bytes = site->second.bytes};
}

}  // namespace braid::dsm
