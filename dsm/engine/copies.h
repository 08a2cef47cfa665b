// The protocol of pages whose homes are other clusters: fetches, twins, diffs and invalidations.
#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/engine/flushes.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/page_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/twins.h"
#include "dsm/engine/types.h"
#include "dsm/engine/write_notices.h"

namespace braid::dsm {

class Copies {
 public:
  // All of them must outlive it.
  struct Parts {
    const EngineConfig& config;
    PageTable& table;
    Flushes& flushes;
    Outbox& outbox;
    ComputeNodes& nodes;
    ClusterCounts& counts;
    WriteNotices& notices;
  };
  explicit Copies(const Parts& parts);

  // The node lacks the access that it wants (ComputeNode::wanted) to a page with
  // another home. True if it has it now; otherwise it waits for the page or for a twin.
  bool fault(std::uint16_t node);
  // Requests those of the pages that this cluster has no copy of, as far as there is room.
  void prefetch(std::uint32_t first, std::uint32_t count);
  // Begins the flush of a dirty page that Flushes::next() returned.
  void flush(std::uint32_t page);

  // Returns a node that waited for a twin and may retry; it no longer waits. nullopt if there is none.
  std::optional<std::uint16_t> pop_twin_waiter();
  bool nodes_wait_for_twins() const { return twins_.waiters() != 0; }
  // PG-8: whether early flushes have begun for all waiting nodes, as far as
  // there are dirty pages. False: one more has been prepared and may begin.
  bool twins_are_coming();

  // --- Messages.
  enum class Outcome : std::uint8_t {
    kRefused,   // the message is invalid now; nothing was changed
    kDone,      // the transaction is over, and the page's home is known
    kHomeHere,  // likewise, and this cluster is the page's home from now on: Masters::take() comes next
  };
  // A fetch that continues afterwards has requested its page again.
  [[nodiscard]] bool on_page_reply(ClusterId from, PageId first, const RunOfPages& run);
  // Without bytes: the cluster is the page's home.
  Outcome on_home_reply(ClusterId from, const Header& header, ByteView payload);
  Outcome on_diff_done(ClusterId from, PageId page, const Header& header);
  [[nodiscard]] bool on_invalidate(ClusterId from, PageId first, std::uint32_t version, ByteView others);
  // LZ-4: copies that are older than the versions are out of date.
  void on_notices(std::uint32_t first, const RunVersions& versions) { drop_outdated(first, versions); }
  // Lets the nodes that wait for the page retry, after kHomeHere.
  void wake_waiters(std::uint32_t page);

  // --- A descriptor becomes a message.
  void request_sent(std::uint32_t page) { table_[page].fetch = Fetch::kSent; }
  // Completes the header, writes the diff and returns its length. If the
  // diff is longer than the room, returns nullopt and changes nothing.
  std::optional<std::size_t> write_diff(std::uint32_t page, Header& header, MutableBytes room);

  bool quiet() const { return ahead_ == 0 && twins_.waiters() == 0; }
  void check_page(std::uint32_t page) const;
  void check() const;
  void describe_page(std::uint32_t page, StateSink& sink) const;
  void describe(StateSink& sink) const { twins_.describe(sink); }

 private:
  bool wait_for(std::uint16_t node, Wait what);
  void want_fetch(std::uint32_t page);
  void ask_home(std::uint32_t page, std::uint32_t begins_run = kBeginsRun);
  void fetch_ahead(std::uint16_t node, std::uint32_t page);
  bool room_ahead() const;
  bool can_fetch_ahead(std::uint32_t page) const;
  void fetch_one_ahead(std::uint32_t page, std::uint32_t begins_run);
  void end_fetch(std::uint32_t page);
  bool waits_for(const ComputeNode& node, std::uint32_t page) const;
  bool anybody_waits_for(std::uint32_t page) const;
  bool stale(std::uint32_t page, std::uint32_t version) const;
  void drop_stale(std::uint32_t page);
  void install(std::uint32_t first, std::uint32_t count, const RunOfPages& run, std::uint32_t at);
  void open_installed(std::uint32_t first, std::uint32_t count);
  bool make_dirty(std::uint32_t page);
  void drop_twin(std::uint32_t page);
  bool has_all_before(std::uint32_t page, std::uint32_t version) const;
  bool owes_changes(std::uint32_t page) const;
  bool outdated(std::uint32_t page, std::uint32_t version) const;
  void drop_outdated(std::uint32_t first, const RunVersions& versions);
  void forget_copy(std::uint32_t page);

  const EngineConfig& config_;
  const ClusterId self_;
  PageTable& table_;
  Flushes& flushes_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  ClusterCounts& counts_;
  WriteNotices& notices_;
  Twins twins_;
  std::uint32_t ahead_ = 0;  // pages that are fetched ahead (PG-25)
};

}  // namespace braid::dsm
