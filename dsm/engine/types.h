// The vocabulary of the page engine: what its parts, its drivers and the programs' calls all speak of. Pages and
// how they may be touched, locks, barriers and variables, the configuration, the counters, and why a message is
// refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"

namespace braid::dsm {

inline constexpr std::size_t kPageBytes = 4096;

enum class Access : std::uint8_t { kNone, kRead, kWrite };

using LockId = Id<struct LockTag, std::uint32_t>;
using BarrierId = Id<struct BarrierTag, std::uint32_t>;

// What the values that nodes bring to a barrier are combined to. The order of the combination is fixed by the
// nodes' numbers, so sums of doubles are the same in every run.
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
  kDisagreement,  // nodes called different ones at the same barrier; never called
};

// What a home can be asked to do with a variable of its own.
enum class SyncOp : std::uint8_t {
  // A word of 64 bits; each returns what the word was before.
  kWordLoad,
  kWordStore,            // first
  kWordExchange,         // first
  kWordAdd,              // first, modulo 2^64
  kWordCompareExchange,  // if the word is first, it becomes second
  // A flag is set or not; it starts cleared. Setting it wakes all that wait.
  kFlagSet,
  kFlagClear,
  kFlagWait,
  // A semaphore counts from 0. Waiting takes one, in the order of the calls.
  kSemaphorePost,  // first: how many
  kSemaphoreWait,
  // A condition variable. The waiting node has `lock`, frees it once it is queued, and has it again when the wait
  // ends.
  kConditionWait,
  kConditionSignal,     // the node that has waited longest
  kConditionBroadcast,  // all
};

struct SyncCall {
  SyncOp op = SyncOp::kWordLoad;
  std::uint32_t id = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  bool releases = false;  // what this cluster wrote before is visible everywhere before the home acts
  LockId lock{0};         // kConditionWait
};

// Where the master copies of an allocation's pages are.
struct Homes {
  enum class Kind : std::uint8_t {
    kBlock,       // cluster k of n has the k-th n-th of the pages
    kCyclic,      // one after the other
    kCluster,     // all in `cluster`
    kFirstTouch,  // each where it is touched first
  };
  Kind kind = Kind::kBlock;
  ClusterId cluster{0};
};

// No page has this number.
inline constexpr std::uint32_t kNoPages = ~std::uint32_t{0};

// The pages of this cluster, implemented live with mprotect over a memfd, elsewhere with arrays.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  // What compute nodes may do with pages [first, first + count) from now on. Takes effect before it returns:
  // no sibling can write through an older permission afterwards.
  virtual void protect(PageId first, std::uint32_t count, Access access) = 0;
  // The same for pages that may never be used: what an access costs may wait for the first one.
  virtual void protect_later(PageId first, std::uint32_t count, Access access) {
    protect(first, count, access);
  }
  // The page's bytes through the second mapping: always readable and writable, never faults.
  virtual std::byte* page(PageId page) = 0;
};

// Shared by all clusters of a machine; both ends must agree (hashed into the hello).
struct EngineConfig {
  ClusterId cluster{0};             // this one
  std::uint16_t clusters = 1;       // 1 .. 64: copy sets are one word
  std::uint16_t compute_nodes = 1;  // per cluster, 1 .. 64
  std::uint32_t pages = 65536;      // 256 MiB of heap
  std::uint32_t locks = 4096;
  std::uint32_t barriers = 64;
  // Pages that one cluster's release has in progress at once, as writer or as home: bounds the output queues.
  std::uint32_t flush_window = 64;
  // Times that a lock's token passes between compute nodes of a cluster while another cluster waits for it.
  std::uint32_t local_handoffs = 16;
  // Pages homed elsewhere that this cluster can have written and not flushed yet, 4 KiB each (64 MiB of
  // address space, used as it is needed). When all are taken the oldest dirty page is flushed early and the
  // fault waits for that. Two per compute node is the least that always gets on: one store can need two pages
  // at once. Local, not shared.
  std::uint32_t twins = 16384;
  // A page's home moves to a cluster that alone has written it in so many rounds one after the other, while
  // no node touched it at its home; 0: never. Two: the first of them closes the page at its home, to see
  // whether anybody there uses it. Local, not shared.
  std::uint32_t migrate_after = 2;
  // Pages that are asked for before a compute node that reads page after page needs them, for each node; 0:
  // none. As long as a round trip brings less than that many pages, more would help.
  std::uint32_t fetch_ahead = 16;
  // What is ready for a cluster travels in one message as far as it fits (kMaxMessageBytes). Local, not
  // shared.
  bool pack = true;
  std::uint32_t words = 0;
  std::uint32_t flags = 0;
  std::uint32_t semaphores = 0;
  std::uint32_t conditions = 0;
  // Children of a cluster in a barrier's tree. A message takes about eight times as long to arrive as it
  // takes to be handled (docs/PERFORMANCE.md: 5 us one way, 0.6 us each), so a level more pays off beyond
  // that.
  std::uint32_t barrier_fan_out = 8;
};

// What one compute node did; times are the driver's matter.
struct NodeCounts {
  std::uint64_t read_faults = 0;
  std::uint64_t write_faults = 0;
  std::uint64_t fetches = 0;  // faults that had to ask the page's home in another cluster
  std::uint64_t lock_calls = 0;
  std::uint64_t remote_locks = 0;  // lock calls that had to wait for the token from another cluster
  std::uint64_t barriers = 0;
  std::uint64_t sync_calls = 0;  // of words, flags, semaphores and conditions
};

// What the cluster did.
struct ClusterCounts {
  std::uint64_t fetched_ahead = 0;  // pages asked for before anybody needed them
  std::uint64_t diffs_sent = 0;
  std::uint64_t diff_bytes_sent = 0;
  std::uint64_t diffs_applied = 0;
  std::uint64_t pages_sent = 0;
  std::uint64_t invalidations_sent = 0;
  std::uint64_t invalidations_received = 0;
  std::uint64_t stale_replies = 0;  // replies older than an invalidation, asked for again
  std::uint64_t homes_given = 0;    // pages whose home this cluster was and gave to another one
  std::uint64_t forwarded = 0;      // requests for pages whose home this cluster was
  std::uint64_t bad_messages = 0;   // messages that no engine sends: dropped
};

// use(name, value) of each, under the names that reports have for them.
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
  static_assert(sizeof c == 11 * sizeof c.bad_messages, "none is forgotten");
}

// A message that no engine sends, or not now. The texts last for ever.
struct Refusal {
  ClusterId from;
  const char* what = "";     // "a page"; "bytes that are no message"
  std::uint32_t id = 0;      // of the page, lock, barrier or variable; as it is written there, like `number`
  std::uint32_t number = 0;  // a version, a generation or what its kind says (messages.h)
  std::size_t bytes = 0;     // to the end of what it came in
  const char* why = "";      // what is wrong with it
};

// The longest message poll_transmit() writes: a page, a byte mask of it, and the header; or several that are
// shorter.
inline constexpr std::size_t kMaxMessageBytes = kPageBytes + kPageBytes / 8 + 64;

}  // namespace braid::dsm
