// The home's side of the page protocol: where the homes of pages are, replies to requests,
// arriving changes, the rounds that make them visible, and the home's own writes.
//
// Directory (directory.h) has the sets of clusters, KeptRequests the requests that cannot
// be answered yet; this class changes protections, applies diffs and queues messages.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/engine/directory.h"
#include "dsm/engine/flushes.h"
#include "dsm/engine/kept_requests.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/page_table.h"
#include "dsm/engine/refusals.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"
#include "dsm/engine/write_notices.h"

namespace braid::dsm {

class Masters {
 public:
  // All of them must outlive it.
  struct Parts {
    const EngineConfig& config;
    PageTable& table;
    Flushes& flushes;
    Outbox& outbox;
    ClusterCounts& counts;
    Refusals& refusals;
    WriteNotices& notices;
  };
  explicit Masters(const Parts& parts);

  // --- Placement: engine.h describes the calls.
  void set_home(PageId first, std::uint32_t count, ClusterId home);
  void set_first_touch(PageId first, std::uint32_t count);
  // Whether the page may still be given this home: not after it was used here. Others
  // may have a copy if this cluster was its home before and remains it (PG-20).
  bool can_place(PageId page, ClusterId home) const;
  // This cluster becomes the page's home. The page's bytes are here already.
  void take(std::uint32_t page, std::uint32_t version);
  // Answers or forwards the kept requests for the page, if its home is known now.
  void serve_kept(std::uint32_t page);

  // --- The home's own use of its pages
  // A compute node accessed a page of which this cluster is the home: opens it.
  void fault(std::uint32_t page, Access wanted);
  // Begins the flush of a dirty page that Flushes::next() returned.
  void flush(std::uint32_t page);
  bool unshared(std::uint32_t page) const { return directory_.unshared(page); }

  // --- Messages. False: the message is invalid now; nothing was changed.
  // For `page` and so many `following` ones.
  [[nodiscard]] bool on_page_request(ClusterId from, PageId page, std::uint32_t following);
  [[nodiscard]] bool on_page_forward(ClusterId from, PageId page, std::uint32_t number);
  [[nodiscard]] bool on_diff(ClusterId from, const Header& header, ByteView diff);
  [[nodiscard]] bool on_invalidate_ack(ClusterId from, PageId first, const Header& header, ByteView others);

  // --- A descriptor becomes a message.
  // Completes the header, writes the payload, returns its length.
  std::size_t write_pages(ClusterId to, std::uint32_t first, std::uint32_t count, Header& header,
                          MutableBytes room);
  void forward_sent(const Header& header);
  void diff_done_sent(ClusterId to) { directory_.change_answered(to); }
  void invalidation_sent(std::uint32_t page, ClusterId to);

  bool quiet() const { return directory_.rounds() == 0 && kept_.empty(); }
  void check_page(std::uint32_t page) const;
  void check() const;
  void describe_page(std::uint32_t page, StateSink& sink) const;
  void describe(StateSink& sink) const;

 private:
  void place(std::uint32_t page, ClusterId home);
  Access access_when_placed(std::uint32_t page, ClusterId home) const;
  bool may_request(ClusterId asks, std::uint32_t first, std::uint32_t count) const;
  void request(ClusterId asks, PageId page, std::uint32_t hops, bool begins_run);
  void close_for_writing(std::uint32_t first, std::uint32_t count);
  bool must_keep(std::uint32_t page) const;
  void forward(ClusterId asks, std::uint32_t page, std::uint32_t hops);
  void answer(ClusterId asks, std::uint32_t page, bool begins_run);
  void advance_rounds(std::uint32_t page);
  bool tell_initiators(std::uint32_t page, const Directory::RoundEnded& ended);
  bool moves_to(ClusterId writer, std::uint32_t page);
  void give(std::uint32_t page, ClusterId to);

  const EngineConfig& config_;
  const ClusterId self_;
  PageTable& table_;
  Flushes& flushes_;
  Outbox& outbox_;
  ClusterCounts& counts_;
  Refusals& refusals_;
  WriteNotices& notices_;
  Directory directory_;
  KeptRequests kept_;
};

}  // namespace braid::dsm
