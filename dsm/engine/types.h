// The vocabulary of the page engine, its drivers and the programs'
// calls: pages and their access, locks, barriers and variables,
// the configuration, the counters, and why a message is refused.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "dsm/engine/page_length.h"

namespace braid::dsm {

// An object's address is a multiple of this (object_names.h).
inline constexpr std::size_t kAddressBytes = 4;
constexpr std::uint32_t addresses_per_page(PageLength length) {
  return static_cast<std::uint32_t>(length.bytes() / kAddressBytes);
}

enum class Access : std::uint8_t { kNone, kRead, kWrite };

using LockId = Id<struct LockTag, std::uint32_t>;
using BarrierId = Id<struct BarrierTag, std::uint32_t>;

// The operation that combines the values that nodes pass to a barrier. The nodes'
// numbers determine the order, so sums of doubles are the same in every run.
enum class Reduction : std::uint8_t {
  kNone,
  kSumDouble,
  kMinDouble,
  kMaxDouble,
  kSumInt64,
  kMinInt64,
  kMaxInt64,
  kSumUint64,
  kMinUint64,
  kMaxUint64,
  kDisagreement,  // nodes called different ones at the same barrier; never passed in
};

// The operations on a variable at its home.
enum class SyncOp : std::uint8_t {
  // A word of 64 bits; each operation returns the former value.
  kWordLoad,
  kWordStore,            // first
  kWordExchange,         // first
  kWordAdd,              // first, modulo 2^64
  kWordCompareExchange,  // if the word is first, it becomes second
  // A flag is set or cleared; initially cleared. Setting it wakes all waiting nodes.
  kFlagSet,
  kFlagClear,
  kFlagWait,
  // A semaphore counts from 0. A wait takes one, in the order of the calls.
  kSemaphorePost,  // first: how many
  kSemaphoreWait,
  // A condition variable. The waiting node has `lock`, frees it
  // once the wait is queued, and has it again when the wait ends.
  kConditionWait,
  kConditionSignal,     // the node that has waited longest
  kConditionBroadcast,  // all
  kSemaphoreSet,        // first: its value from now on
  kSemaphoreTry,        // takes one if there is one, and does not wait; returns the value before
  // A gathering: the nodes wait until `first` of them have come, then all go on, and it begins again. Returns 1 to a node that
  // comes with another `first` than the nodes that wait there, which does not wait.
  kGather,
};
inline constexpr SyncOp kLastSyncOp = SyncOp::kGather;

// What a node waits for in the program's words, where a runtime on top of the machine makes the call. For texts and the watchdog only.
struct WaitedFor {
  enum class Kind : std::uint8_t {
    kVariable,       // the call's own
    kThreadEnd,      // what: the thread's number
    kAllThreadEnds,  // of the others
    kThreadToRun,
    kBarrier,  // what: the address, here and below
    kMutex,
    kSpinLock,
    kReadWriteLock,
    kSemaphore,
    kCondition,
    kOnce,
    kProcessEnd,  // of one that CREATE has made
    kFreeNode,    // for CREATE
    kProcessToRun,
  };
  Kind kind = Kind::kVariable;
  std::uint64_t what = 0;
};

struct SyncCall {
  SyncOp op = SyncOp::kWordLoad;
  std::uint32_t id = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool releases = false;  // the cluster's earlier writes are visible everywhere before the home acts
  LockId lock{0};         // kConditionWait
  WaitedFor waits_for = {};
};

// Where the master copies of an allocation's pages are.
struct Homes {
  enum class Kind : std::uint8_t {
    kBlock,       // cluster k of n has the k-th n-th of the pages
    kCyclic,      // one after the other
    kCluster,     // all in `cluster`
    kFirstTouch,  // each at the cluster that accesses it first
  };
  Kind kind = Kind::kBlock;
  ClusterId cluster{0};
};

// No page has this number.
inline constexpr std::uint32_t kNoPages = ~std::uint32_t{0};

// The pages of this cluster; implemented live with mprotect over a memfd, elsewhere with arrays.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  // Sets the access of compute nodes to pages [first, first + count). Takes effect
  // before it returns: afterwards no sibling can write through an older permission.
  virtual void protect(PageId first, std::uint32_t count, Access access) = 0;
  // The same for pages that may never be used: what an access costs may wait for the first one.
  virtual void protect_later(PageId first, std::uint32_t count, Access access) {
    protect(first, count, access);
  }
  // The page's bytes, always readable and writable without a fault, and behind them the next page's. Equal in all
  // clusters before its first use (PG-22).
  virtual std::byte* page(PageId page) = 0;
};

// When other clusters' copies of a page that a release has written are invalidated (docs/protocol_dsm.md).
enum class Protocol : std::uint8_t {
  kEager,  // before the release is complete, by the page's home
  kLazy,   // at the next acquire, by the acquiring cluster
  kMgs,    // kEager with EngineConfig::of(kMgs), for simulations; an engine that runs it has kEager
};

// Shared by all clusters of a machine; both ends must agree (hashed into the hello).
struct EngineConfig {
  ClusterId cluster{0};             // this cluster
  std::uint16_t clusters = 1;       // 1 .. kMaxClusters (base/limits.h)
  std::uint16_t compute_nodes = 1;  // per cluster, 1 .. kMaxComputeNodes
  Protocol protocol = Protocol::kEager;
  PageLength page_length = PageLength();
  std::uint32_t pages = 65536;  // 256 MiB of heap where they have 4 KiB
  std::uint32_t locks = 4096;
  std::uint32_t barriers = 64;
  // Pages that one cluster's release has in progress at once, as writer or as home: bounds the output queues.
  std::uint32_t flush_window = 64;
  // How often a lock's token passes between compute nodes of a cluster while another cluster waits for it.
  std::uint32_t local_handoffs = 16;
  // How often nodes of a cluster may take a lock again while another cluster waits for it, until that has answered a
  // probe; 0: such a token leaves at once. A hand-over takes 50 to 300 us where clusters share processors, and so
  // many empty sections 100.
  std::uint32_t lease_uses = 1024;
  // The most probes of a lease: each further one needs nodes that locked again twice since the one before. 0: 4 divided by
  // the number of the other clusters, at least 1. More of them pay for programs that lock often and take from others'
  // share of 100 ms (docs/decisions/0025).
  std::uint8_t lease_rounds = 0;
  // How long a token may stay since it came, with as many rounds as it takes, where the cluster's nodes soon want it again
  // whenever it has left (LK-15); 0: no longer than the rounds above. Engine::set_time() tells the time. Local, not shared.
  Duration lease_time{};
  // Pages homed elsewhere that this cluster can have written and not flushed yet, a page's length
  // each (64 MiB of address space for 4 KiB, used as it is needed). When all are in use the oldest
  // dirty page is flushed early and the fault waits for that. At least two per compute
  // node are needed for progress: one store can need two pages at once. Local, not shared.
  std::uint32_t twins = 16384;
  // A page's home moves to a cluster that was its only writer in this many consecutive
  // rounds, while no node accessed it at its home; 0: never. With two, the first round
  // closes the page at its home to detect whether it is used there. Local, not shared.
  std::uint32_t migrate_after = 2;
  // For each node, the pages that are fetched before a node that reads or writes pages a constant stride apart
  // needs them; 0: none. While a round trip brings fewer pages than that, more would help.
  std::uint32_t fetch_ahead = 32;
  // The same once a node has read many pages in order (Scan::kLong), where that is more. Nothing without fetch_ahead.
  std::uint32_t scan_ahead = 128;
  // Consecutive pages that share a request, or a reply as far as they fit; 1: none do. Local, not shared.
  std::uint32_t run_pages = 16;
  // Messages that are ready for a cluster are packed into one
  // as far as they fit (max_message_bytes()). Local, not shared.
  bool pack = true;
  // A node that unlocks waits until its cluster's writes so far are visible everywhere, and frees the lock then, also where
  // the token stays (LK-14). Otherwise writes become visible when the token leaves. Local, not shared; for simulations.
  bool release_at_unlock = false;
  // Locks that can be open at once, which the nodes' threads take and free past the engine (lock_words.h): a power of two, or
  // 0: none. Local, not shared.
  std::uint32_t lock_words = 0;
  std::uint32_t words = 0;
  std::uint32_t flags = 0;
  std::uint32_t semaphores = 0;
  std::uint32_t conditions = 0;
  // Further locks, words, flags, semaphores and conditions, and all gatherings: one of each kind for each of the first so many
  // addresses of the heap (object_names.h). All numbers are below 2^32 - 1.
  std::uint32_t addresses = 0;
  std::uint64_t heap_address = 0;  // for texts
  // Children of a cluster in a barrier's tree, and in that of allocations; more than 63 are 63. A message takes about eight
  // times as long to arrive as it
  // takes to be handled (docs/PERFORMANCE.md: 5 us one way, 0.6 us each), so a level more pays off beyond
  // that.
  std::uint32_t barrier_fan_out = 8;

  // The most pages that are fetched ahead for a node.
  constexpr std::uint32_t most_ahead() const {
    return fetch_ahead == 0 ? 0 : std::max(fetch_ahead, scan_ahead);
  }

  // The defaults of programs with this protocol.
  static constexpr EngineConfig of(Protocol protocol);
};

constexpr EngineConfig EngineConfig::of(Protocol protocol) {
  EngineConfig c;
  // A move costs the other clusters their copies, which this protocol spares them otherwise (docs/decisions/0024).
  if (protocol == Protocol::kLazy) {
    c.protocol = Protocol::kLazy;
    c.migrate_after = 4;
  }
  if (protocol != Protocol::kMgs) return c;
  // MGS as far as Jiang & Yeung 1997 tells: an interrupt for each message, no word of any of what follows. "Assumed": it is
  // not described there, and systems of its time (Munin, 1991) had it so.
  c.release_at_unlock =
      true;            // assumed: release consistency, and the next node inside the cluster is not told apart
  c.flush_window = 1;  // assumed: a release sends a page and waits for its answer, one page after the other
  c.fetch_ahead = 0;   // assumed: a page is fetched when a node faults
  c.scan_ahead = 0;
  c.run_pages = 1;       // assumed: a message is about one page
  c.pack = false;        // the paper counts messages of a few hundred bytes, and each is an Active Message
  c.migrate_after = 0;   // assumed: a page's home stays
  c.local_handoffs = 0;  // assumed: another cluster that waits for a lock comes before this cluster's nodes
  c.lease_uses = 0;      // a lease answers hosts whose clusters share processors
  return c;
}

// Counts of one compute node's operations; the driver measures times.
struct NodeCounts {
  std::uint64_t read_faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t fetches = 0;  // faults that needed a request to the page's home
  std::uint64_t lock_calls = 0;
  std::uint64_t remote_locks = 0;  // lock calls that had to wait for the token from another cluster
  std::uint64_t barriers = 0;
  std::uint64_t sync_calls = 0;  // of words, flags, semaphores and conditions

  bool did_nothing() const { return (read_faults | write_faults | lock_calls | barriers | sync_calls) == 0; }
};

// What was counted between the two moments. Both structs are counts and nothing else.
template <class Counts>
Counts difference(const Counts& now, const Counts& before) {
  using All = std::array<std::uint64_t, sizeof(Counts) / sizeof(std::uint64_t)>;
  All counts = std::bit_cast<All>(now);
  const All subtracted = std::bit_cast<All>(before);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= subtracted[i];
  return std::bit_cast<Counts>(counts);
}

// Messages between engines by kind, in the order of their numbers (messages.h), as reports name those that were sent.
inline constexpr std::array<const char*, 22> kSentNames = {
    "sent_page_request", "sent_page_reply",     "sent_diff",           "sent_diff_done",
    "sent_invalidate",   "sent_invalidate_ack", "sent_lock_request",   "sent_lock_grant",
    "sent_lock_recall",  "sent_lock_probe",     "sent_barrier_arrive", "sent_barrier_depart",
    "sent_sync_call",    "sent_sync_result",    "sent_allocate",       "sent_allocated",
    "sent_region",       "sent_region_known",   "sent_page_forward",   "sent_lock_probe_reply",
    "sent_write_notice", "sent_lock_busy",
};

// Counts of the cluster's operations.
struct ClusterCounts {
  std::uint64_t fetched_ahead = 0;  // pages fetched before a node needed them
  std::uint64_t diffs_sent = 0;
  std::uint64_t diff_bytes_sent = 0;
  std::uint64_t diffs_applied = 0;
  std::uint64_t pages_sent = 0;
  std::uint64_t invalidations_sent = 0;
  std::uint64_t invalidations_received = 0;
  std::uint64_t stale_replies = 0;  // replies older than an invalidation; requested again
  std::uint64_t homes_given = 0;    // pages whose home this cluster gave to another one
  std::uint64_t forwarded = 0;      // requests for pages that this cluster was the home of
  std::uint64_t bad_messages = 0;   // invalid messages, dropped
  // To other clusters, by kind. Several may leave in one message of the transport (PG-26), and one may be about
  // several pages (PG-21, PG-28).
  std::array<std::uint64_t, kSentNames.size()> sent{};
};

// Calls use(name, value) for each, with its name in reports.
template <class Use>
void for_each_count(const ClusterCounts& c, Use&& use) {
  use("fetched_ahead", c.fetched_ahead);
  use("diffs_sent", c.diffs_sent);
  use("diff_bytes_sent", c.diff_bytes_sent);
  use("diffs_applied", c.diffs_applied);
  use("pages_sent", c.pages_sent);
  use("invalidations_sent", c.invalidations_sent);
  use("invalidations_received", c.invalidations_received);
  use("stale_replies", c.stale_replies);
  use("homes_given", c.homes_given);
  use("forwarded", c.forwarded);
  use("bad_messages", c.bad_messages);
  for (std::size_t kind = 0; kind < c.sent.size(); ++kind) use(kSentNames[kind], c.sent[kind]);
  static_assert(sizeof c == 11 * sizeof c.bad_messages + sizeof c.sent, "none is forgotten");
}

// A message that is invalid, or invalid now. The texts are static.
struct Refusal {
  ClusterId from;
  const char* what = "";     // "a page"; "bytes that are not a message"
  std::uint32_t id = 0;      // of the page, lock, barrier or variable; as it is written there, like `number`
  std::uint32_t number = 0;  // a version, a generation, or as its kind defines (messages.h)
  std::size_t bytes = 0;     // from there to the end of the received bytes
  const char* why = "";      // why it is invalid
};

// The room that poll_transmit() needs: for a page with its byte mask and header, or several shorter messages.
constexpr std::size_t min_room_bytes(PageLength length) {
  return length.bytes() + length.mask_bytes() + 64;
}
// So many short messages, or pages, leave as one: 64 KiB of pages with their versions, if the driver has that much room.
inline constexpr std::size_t kMaxPackedMessageBytes = 65 * 1024;
// The room that an engine asks for whose pages share no message: 32 KiB with the drivers' headers.
inline constexpr std::size_t kRoomWithoutRuns = 32 * 1024 - 64;
// The longest message that poll_transmit() writes: that, or one page that is longer.
constexpr std::size_t max_message_bytes(PageLength length) {
  return std::max(kMaxPackedMessageBytes, min_room_bytes(length));
}

}  // namespace braid::dsm
