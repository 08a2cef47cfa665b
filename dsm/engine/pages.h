// The page protocol of one cluster: passes faults, releases and messages
// to the part that handles them, and the parts' decisions to each other.
//
//   PageTable      access, content and home of every page
//   Copies         pages homed elsewhere: fetches, twins, diffs, invalidations
//   Masters        pages homed here: placement, requests, rounds, moves; over Directory and KeptRequests
//   Flushes        what was written and not flushed, the window of flushes, releases
//
// In the eager protocol a release makes writes visible by rounds (Directory) that invalidate copies
// (Copies::on_invalidate), so an acquire needs no message about pages. In the lazy protocol rounds
// only count a page's versions, as a rule; the acquiring cluster is told of them (WriteNotices) and drops
// older copies itself (Copies::on_notices). All else is the same.
//
// Rules PG-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/check.h"
#include "base/ids.h"
#include "dsm/engine/copies.h"
#include "dsm/engine/flushes.h"
#include "dsm/engine/masters.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/page_table.h"
#include "dsm/engine/refusals.h"
#include "dsm/engine/releases.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"
#include "dsm/engine/write_notices.h"

namespace braid::dsm {

class Pages {
 public:
  Pages(const EngineConfig& config, PageMemory& memory, Outbox& outbox, ComputeNodes& nodes,
        ClusterCounts& counts, Refusals& refusals, WriteNotices& notices);

  // Placement: engine.h and masters.h describe the calls.
  void set_home(PageId first, std::uint32_t count, ClusterId home) { masters_.set_home(first, count, home); }
  void set_first_touch(PageId first, std::uint32_t count) { masters_.set_first_touch(first, count); }
  bool can_place(PageId page, ClusterId home) const { return masters_.can_place(page, home); }
  bool contains(std::uint32_t first, std::uint32_t count) const {
    return inside(first, count, table_.size());
  }
  ClusterId home(PageId page) const { return table_.home(page.value()); }
  Access access(PageId page) const { return table_[page.value()].access; }

  // True if the access is allowed now; otherwise the node waits.
  bool fault(std::uint16_t node, PageId page, Access wanted);

  // PG-25: a node has asked for pages that it will need.
  void prefetch(PageId first, std::uint32_t count) {
    CHECK(contains(first.value(), count));
    copies_.prefetch(first.value(), count);
  }

  // A release begins: when it is complete, pop_complete() returns `why`.
  void begin_release(ReleaseFor why);
  std::optional<ReleaseFor> pop_complete() { return flushes_.pop_complete(); }

  // Starts what can start now: flushes within the window, write faults with free twins.
  void pump();

  // Handles a message of a page's kind. False: it is invalid now; nothing was changed.
  [[nodiscard]] bool on_message(ClusterId from, const Header& header, ByteView payload);

  // A queued descriptor becomes a message: completes the header, writes the payload, returns its
  // length. If it is a diff that is longer than the room, returns nullopt and changes nothing.
  std::optional<std::size_t> write(ClusterId to, Header& header, MutableBytes payload);

  bool quiet() const { return flushes_.quiet() && copies_.quiet() && masters_.quiet(); }
  void check() const;
  void describe(StateSink& sink) const;

 private:
  bool attempt(std::uint16_t node);
  void start_flushes();
  void close_run(std::uint32_t page);
  bool on_notices(ClusterId from, const Header& header, ByteView others);
  bool on_page_reply(ClusterId from, const Header& header, ByteView payload);
  bool follow(Copies::Outcome outcome, const Header& header);
  bool run_continues(ClusterId to, const Header& first, std::uint32_t pages) const;
  std::size_t write_requests(ClusterId to, Header& header);
  std::size_t write_pages(ClusterId to, Header& header, MutableBytes room);
  std::size_t write_run(ClusterId to, const Header& header, MutableBytes room);

  const EngineConfig config_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  PageTable table_;
  Flushes flushes_;
  Copies copies_;
  Masters masters_;
  WriteNotices& notices_;
};

}  // namespace braid::dsm
