// This cluster's record of every page of the heap: its home, the access of compute nodes here, and
// whether its bytes here are valid. The parts of the page protocol share the record; each field names
// the part that changes it. What only one part needs it stores itself (flushes.h, directory.h, twins.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/ids.h"
#include "base/zeroed_table.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// Whether version a is older than b. Versions wrap; the two lie less than 2^31 rounds apart (PG-16).
constexpr bool older(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

// Of a copy (home elsewhere)              Of the master (home here)
//   kInvalid  no valid bytes                -
//   kClean    readable                      not tracked: read-only, or writable while there is no copy
//   kDirty    a twin is kept                written since the last round, while there are copies
enum class Content : std::uint8_t { kInvalid, kClean, kDirty };

// A fetch: none, delayed until the cluster's own flush is acknowledged (PG-2), in the outbox, in flight.
enum class Fetch : std::uint8_t { kNone, kWaiting, kQueued, kSent };

struct Page {
  bool known = false;             // false: as every page begins (PageTable::begin())
  Access access = Access::kNone;  // the last argument of protect(); changed only by PageTable
  Content content = Content::kInvalid;
  Fetch fetch = Fetch::kNone;    // copies.cpp
  bool has_minimum = false;      // copies.cpp: `version` is the minimum for a reply (PG-15)
  bool ahead = false;            // copies.cpp: the fetch began before a node needed the page (PG-25)
  bool placed = false;           // masters.cpp: set_home() was called, or the home moved here
  bool untouched = false;        // masters.cpp, at the home: not used yet, so its home is not decided (PG-22)
  std::uint16_t home = 0;        // or the last home that this cluster knows of (PG-24)
  std::uint32_t version = 0;     // copies.cpp: of the copy
  std::uint32_t twin = kNoTwin;  // copies.cpp

  static constexpr std::uint32_t kNoTwin = ~std::uint32_t{0};
};

class PageTable {
 public:
  // Every page is homed cyclically and inaccessible. `memory` must outlive the table.
  PageTable(const EngineConfig& config, PageMemory& memory)
      : config_(config), memory_(memory), pages_(config.pages) {
    // One call for all, whatever the homes: the first access at a home opens the page there. Opening every
    // second page here would split the heap into as many mappings as pages.
    memory_.protect(PageId(0), config.pages, Access::kNone);
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(pages_.size()); }
  bool contains(PageId page) const { return page.value() < pages_.size(); }
  Page& operator[](std::uint32_t page) { return begun(page); }
  const Page& operator[](std::uint32_t page) const { return begun(page); }
  // This cluster is the page's home.
  bool here(std::uint32_t page) const { return begun(page).home == config_.cluster.value(); }
  ClusterId home(std::uint32_t page) const { return ClusterId(begun(page).home); }
  PageLength page_length() const { return config_.page_length; }
  // Of this page and those behind it, through the mapping that never faults.
  std::byte* bytes(std::uint32_t page) const { return memory_.page(PageId(page)); }

  // Sets the access of compute nodes to these pages.
  void set_access(std::uint32_t first, std::uint32_t count, Access access) {
    memory_.protect(PageId(first), count, access);
    for (std::uint32_t i = first; i < first + count; ++i) begun(i).access = access;
  }
  // The same for pages that may never be used.
  void set_access_later(std::uint32_t first, std::uint32_t count, Access access) {
    memory_.protect_later(PageId(first), count, access);
    for (std::uint32_t i = first; i < first + count; ++i) begun(i).access = access;
  }

 private:
  // The record is filled in when somebody looks at it first, so that a heap costs what is used of it.
  Page& begun(std::uint32_t page) const {
    Page& p = pages_[page];
    if (!p.known) [[unlikely]]
      begin(p, page);
    return p;
  }
  void begin(Page& p, std::uint32_t page) const {
    p = Page{.known = true};
    p.home = keeper(config_, page).value();
    if (p.home == config_.cluster.value()) p.content = Content::kClean;
  }

  const EngineConfig config_;
  PageMemory& memory_;
  mutable ZeroedTable<Page> pages_;
};

}  // namespace braid::dsm
