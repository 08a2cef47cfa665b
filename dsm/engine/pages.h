// The pages of one cluster: as copies of what is homed elsewhere, and as the master copies that are homed
// here. One class, because a fault, a release and the end of a flush treat both alike up to their last step;
// two files, copies.cpp and homes.cpp, because the protocol has two sides.
//
// Rules PG-1 .. are in docs/protocol_dsm.md.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/refusals.h"
#include "dsm/engine/releases.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

// Is version a older than b? Versions wrap; two that meet lie less than 2^31 rounds apart (PG-16).
constexpr bool older(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

// Versions of a run of pages as a message carries them: the first in the header, the others in the payload.
struct RunVersions {
  std::uint32_t first;
  ByteView others;
  std::uint32_t pages() const { return 1 + static_cast<std::uint32_t>(others.size() / sizeof first); }
  std::uint32_t operator[](std::size_t i) const {
    return i == 0 ? first : load<std::uint32_t>(&others[(i - 1) * sizeof first]);
  }
};

// Where one side lies in a message. Of a memcpy of known length g++ makes `rep movsq`, which takes five times
// as long as the library's copy when the sides are aligned differently (230 against 40 ns).
inline void copy_page(std::byte* to, const std::byte* from) {
  std::size_t bytes = kPageBytes;
  asm("" : "+r"(bytes));
  std::memcpy(to, from, bytes);
}

class Pages {
 public:
  Pages(const EngineConfig& config, PageMemory& memory, Outbox& outbox, ComputeNodes& nodes,
        ClusterCounts& counts, Refusals& refusals);

  void set_home(PageId first, std::uint32_t count, ClusterId home);
  void set_first_touch(PageId first, std::uint32_t count);
  // May the page still be given this home? Not after it was used here. Others may have a copy if this cluster
  // was its home before and stays it (PG-20).
  bool can_place(PageId page, ClusterId home) const;
  ClusterId home(PageId page) const { return ClusterId(pages_[page.value()].home); }

  // True when the access is allowed now; otherwise the node waits.
  bool fault(std::uint16_t node, PageId page, Access wanted);

  // A release begins: it ends with releases().pop_complete() naming `why`.
  void begin_release(ReleaseFor why);
  Releases& releases() { return releases_; }

  // Starts what may start now: flushes into the window, write faults into free twins.
  void pump();

  // Messages. False: no engine sends that now; nothing was changed.
  [[nodiscard]] bool on_page_request(ClusterId from, PageId page);
  [[nodiscard]] bool on_page_forward(ClusterId from, PageId page, std::uint32_t number);
  [[nodiscard]] bool on_page_reply(ClusterId from, PageId page, const Header& header, ByteView bytes);
  [[nodiscard]] bool on_diff(ClusterId from, PageId page, std::uint8_t format, ByteView diff);
  [[nodiscard]] bool on_diff_done(ClusterId from, PageId page, const Header& header);
  [[nodiscard]] bool on_invalidate(ClusterId from, PageId first, std::uint32_t version, ByteView others);
  [[nodiscard]] bool on_invalidate_ack(ClusterId from, PageId first, const Header& header, ByteView others);

  // A descriptor of ours becomes a message now: completes the header, writes the payload, returns its length.
  // Nothing, and nothing of that is done, if it is a diff and longer than the room.
  std::optional<std::size_t> write(ClusterId to, Header& header, MutableBytes payload);

  bool quiet() const;
  void check() const;
  void describe(StateSink& sink) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  // no page, no twin

  // Of a copy (home elsewhere)              Of the master (home here)
  //   kInvalid  no bytes that may be used     -
  //   kClean    readable                      not tracked: read-only, or writable while no copy is out
  //   kDirty    a twin is kept                written since the last round, while copies are out
  enum class Content : std::uint8_t { kInvalid, kClean, kDirty };
  // A transaction's way: wanted but not allowed yet, in the outbox, on its way.
  enum class Stage : std::uint8_t { kNone, kWaiting, kQueued, kSent };
  // Where a dirty page waits for its flush: until a release covers it, or for the next room in the window.
  enum class Listed : std::uint8_t { kNot, kCopies, kMasters, kUrgent };

  struct Page {
    Access access = Access::kNone;  // what protect() was told last
    Content content = Content::kInvalid;
    Stage fetch = Stage::kNone;  // kWaiting: for the own flush (PG-2)
    Stage flush = Stage::kNone;  // never kWaiting: that is a list's, or flush_again
    Listed listed = Listed::kNot;
    bool flush_again = false;  // a second flush waits for the first one's acknowledgement (PG-3)
    bool has_minimum = false;  // an invalidation overtook the reply: `version` is the least to accept (PG-15)
    bool placed = false;       // set_home was called, or the home came here
    bool ahead = false;        // the fetch began before anybody needed the page (PG-25)
    bool untouched = false;    // at its home: nobody has used it, its home is not decided (PG-22)
    std::uint16_t home = 0;    // or who was it when this cluster last heard (PG-24)
    std::uint32_t version = 0;  // of the copy
    std::uint32_t twin = kNone;
    Releases::Epoch dirty_tag = 0;   // kDirty: of the writes that the twin does not have
    Releases::Epoch flight_tag = 0;  // flush kSent: of the writes on their way
    std::uint32_t previous = kNone;  // listed
    std::uint32_t following = kNone;
  };

  // What the home knows of a page. A cluster is a bit.
  struct Master {
    std::uint64_t copies = 0;      // who may hold a valid copy; never this cluster
    std::uint64_t initiators = 0;  // whose writes the running round makes visible; zero: no round runs
    std::uint64_t queued = 0;      // whose writes the next round makes visible
    std::uint64_t pending = 0;     // whose acknowledgement the running round waits for
    std::uint64_t unsent = 0;      // of these, whose invalidation still is in the outbox
    std::uint64_t suspects = 0;    // whose changes may be on their way though it has no copy (PG-23)
    std::uint32_t version = 0;     // of the last round begun
    std::uint16_t replies = 0;     // that have not left
    std::uint16_t writer = 0;      // the only initiator of the last round
    std::int32_t streak = 0;       // such rounds of this writer one after the other; below zero after a touch
  };

  struct List {
    std::uint32_t first = kNone;
    std::uint32_t last = kNone;
    std::uint32_t size = 0;
  };

  struct KeptRequest {
    ClusterId from;  // who asks
    PageId page;
    std::uint32_t hops;  // that it was forwarded
  };
  // More is a request that goes in circles: somebody lies.
  static constexpr std::uint32_t kMostHops = 1 << 16;

  static std::uint64_t bit(ClusterId c) { return std::uint64_t{1} << c.value(); }
  bool here(const Page& p) const { return p.home == self_.value(); }
  // PG-13: nobody but this cluster has, or may still have, a copy.
  static bool unshared(const Master& m) { return m.copies == 0 && m.initiators == 0 && m.queued == 0; }
  bool in_range(PageId page) const { return page.value() < pages_.size(); }
  std::byte* twin(std::uint32_t index) const { return twins_.get() + std::size_t{index} * kPageBytes; }

  // copies.cpp
  bool attempt(std::uint16_t node);
  bool wait_for(std::uint16_t node, Wait what);
  void want_fetch(std::uint32_t page);
  void ask_home(std::uint32_t page);
  void fetch_ahead(std::uint16_t node, std::uint32_t page);
  void end_fetch(Page& p);
  void install(std::uint32_t page, std::uint32_t version, ByteView bytes);
  bool make_dirty(std::uint32_t page);
  void drop_twin(std::uint32_t page);
  bool outdated(std::uint32_t page, std::uint32_t version) const;
  void forget_copy(std::uint32_t page);
  std::optional<std::size_t> write_diff(std::uint32_t page, Header& header, MutableBytes room);

  // both sides: flush.cpp
  void track(std::uint32_t page, Listed list);
  void close_run(std::uint32_t page);
  void start_flushes();
  void start_flush(std::uint32_t page);
  void end_flush(std::uint32_t page);
  bool flush_early();
  void set_access(std::uint32_t first, std::uint32_t count, Access access);
  List& list(Listed which) { return lists_[static_cast<std::size_t>(which)]; }
  void push(Listed which, std::uint32_t page);
  void unlink(std::uint32_t page);

  // homes.cpp
  bool master_fault(std::uint32_t page, Access wanted);
  void flush_master(std::uint32_t page);
  void advance_rounds(std::uint32_t page);
  void place(std::uint32_t page, ClusterId home);
  bool request(ClusterId asks, PageId page, std::uint32_t hops);
  bool must_keep(const Page& p) const;
  void forward(ClusterId asks, std::uint32_t page, std::uint32_t hops);
  void answer(ClusterId asks, std::uint32_t page);
  void serve_kept(std::uint32_t page);
  bool moves_to(ClusterId writer, std::uint32_t page);
  void give_home(std::uint32_t page, ClusterId to);
  void take_home(std::uint32_t page, std::uint32_t version);
  std::size_t write_page(ClusterId to, std::uint32_t page, Header& header, MutableBytes room);

  std::size_t write_run(ClusterId to, const Header& header, MutableBytes room);
  void check_page(std::uint32_t page) const;
  void describe_page(std::uint32_t page, StateSink& sink) const;

  const EngineConfig config_;
  const ClusterId self_;
  PageMemory& memory_;
  Outbox& outbox_;
  ComputeNodes& nodes_;
  ClusterCounts& counts_;
  Refusals& refusals_;
  Releases releases_;

  std::vector<Page> pages_;
  std::vector<Master> masters_;
  List lists_[4];

  std::unique_ptr<std::byte[]> twins_;  // config.twins pages; touched by the system only as they are used
  std::vector<std::uint32_t> free_twins_;
  std::vector<std::uint16_t> twin_waiters_;  // FIFO, at most one entry per compute node

  std::uint32_t in_flight_ = 0;  // flushes in progress, copies and masters; at most flush_window (PG-18)
  std::uint32_t copies_in_flight_ = 0;     // of these, copies
  std::uint32_t ahead_ = 0;                // pages that are fetched ahead (PG-25)
  std::uint32_t rounds_ = 0;               // running at this home
  std::vector<std::uint32_t> diffs_from_;  // per cluster: diffs whose DiffDone has not left
  std::vector<KeptRequest> kept_;          // PG-20, PG-24
  std::vector<std::uint32_t>
      asked_by_;  // per cluster: its requests that are kept, or go on and have not left
};

}  // namespace braid::dsm
