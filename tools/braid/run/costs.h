// The memory and locks that a run waited for most, and the one change that would help: joined from the reports of all clusters. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"

namespace braid::cli {

// The bytes of a page that faulting accesses began at, first and last.
using ByteRange = std::pair<unsigned, unsigned>;

// How one cluster used a page.
struct PageUse {
  std::uint32_t cluster = 0;
  std::uint64_t read_faults = 0;
  std::uint64_t write_faults = 0;
  std::optional<ByteRange> read;
  std::optional<ByteRange> written;
};

enum class Sharing : std::uint8_t {
  kOneCluster,   // only one cluster had to wait for it
  kReaders,      // several, but at most one of them wrote
  kSamePlaces,   // several clusters wrote, and some of them the same bytes
  kOtherPlaces,  // several clusters wrote, each in bytes of its own: false sharing
  kUnknown,      // one cluster has told of it, and another had to wait for more pages than it told of
};

struct CostlyPage {
  std::uint32_t page = 0;
  std::uint64_t faults_ns = 0;
  std::vector<PageUse> uses;
  // "solve() at solve.cpp:12", which allocated it, or "global table"; empty: not known
  std::string place;
  std::uint64_t bytes = 0;
  bool may_have_other_uses = false;
  Sharing sharing() const;
};

// The costly pages that one place in the program allocated.
struct CostlyMemory {
  std::string place;
  std::uint64_t faults_ns = 0, read_faults = 0, write_faults = 0;
  std::uint64_t pages = 0;
  Sharing sharing{};  // of the pages of which it is known, those that cost most
};

struct CostlyLock {
  std::uint32_t lock = 0;
  // "lock 7", "the lock at 0x600000001040, 64 bytes into what was allocated in solve() at solve.cpp:12".
  std::string name;
  std::string
      cure;  // of a lock of the runtime's own: what the program can change; empty: it is the program's
  std::uint64_t waits = 0, locks_ns = 0, longest_ns = 0;
};

struct RunCosts {
  std::vector<CostlyPage> pages;  // each list: the costliest first
  std::vector<CostlyMemory> memory;
  std::vector<CostlyLock> locks;
};

// A count in an application's report, which may have any form: 0 where there is none.
std::uint64_t count_in(const nlohmann::ordered_json& object, const char* key);

// `clusters`: the report that each cluster's application gave; what is no such report is left out.
RunCosts costs_of(std::span<const nlohmann::ordered_json> clusters);

std::string to_string(Sharing sharing);
nlohmann::ordered_json json_of(const RunCosts& costs);

// The change that would help most, as a sentence; empty if compute nodes waited less than a tenth of the time.
std::string advice(const RunCosts& costs, std::span<const nlohmann::ordered_json> clusters,
                   Duration run_time);

}  // namespace braid::cli
