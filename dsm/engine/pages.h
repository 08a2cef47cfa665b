// The page protocol of one cluster: takes faults, releases and messages to the part that each concerns, and
// carries the parts' decisions to each other.
//
//   PageTable      access, content and home of every page
//   Copies         pages homed elsewhere: fetches, twins, diffs, invalidations
//   Masters        pages homed here: placement, requests, rounds, moves; over Directory and KeptRequests
//   Flushes        what was written and not flushed, the window of flushes, releases
//
// The protocol is eager: a release makes what was written visible by rounds (Directory) that invalidate copies
// (Copies::on_invalidate), so an acquire needs no message about pages. All else holds for any home-based
// protocol.
//
// Rules PG-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
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

namespace braid::dsm {

class Pages {
 public:
  Pages(const EngineConfig& config, PageMemory& memory, Outbox& outbox, ComputeNodes& nodes,
        ClusterCounts& counts, Refusals& refusals);

  // Placement: engine.h and masters.h say what each promises.
  void set_home(PageId first, std::uint32_t count, ClusterId home) { masters_.set_home(first, count, home); }
  void set_first_touch(PageId first, std::uint32_t count) { masters_.set_first_touch(first, count); }
  bool can_place(PageId page, ClusterId home) const { return masters_.can_place(page, home); }
  ClusterId home(PageId page) const { return table_.home(page.value()); }

  // True when the access is allowed now; otherwise the node waits.
  bool fault(std::uint16_t node, PageId page, Access wanted);

  // A release begins: when it is complete, pop_complete() returns `why`.
  void begin_release(ReleaseFor why);
  std::optional<ReleaseFor> pop_complete() { return flushes_.pop_complete(); }

  // Starts what may start now: flushes into the window, write faults into free twins.
  void pump();

  // A message whose header is a page's. False: no engine sends that now; nothing was changed.
  [[nodiscard]] bool on_message(ClusterId from, const Header& header, ByteView payload);

  // A descriptor of ours becomes a message now: completes the header, writes the payload, returns its length.
  // Nothing, and nothing of that is done, if it is a diff and longer than the room.
  std::optional<std::size_t> write(ClusterId to, Header& header, MutableBytes payload);

  bool quiet() const { return flushes_.quiet() && copies_.quiet() && masters_.quiet(); }
  void check() const;
  void describe(StateSink& sink) const;

 private:
  bool attempt(std::uint16_t node);
  void start_flushes();
  void close_run(std::uint32_t page);
  bool follow(Copies::Outcome outcome, const Header& header);
  std::size_t write_run(ClusterId to, const Header& header, MutableBytes room);

  const EngineConfig config_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  PageTable table_;
  Flushes flushes_;
  Copies copies_;
  Masters masters_;
};

}  // namespace braid::dsm
