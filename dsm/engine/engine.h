// The page protocol and the synchronisation of one cluster, as a value: eager release consistency over pages
// of 4 KiB with a home per page, many writers by twin and byte-granular diff, and invalidation of the other
// copies when a writer releases; locks whose token stays in a cluster while somebody there wants it; barriers
// that gather in the cluster first and then over a tree, and reduce values on their way; atomic words, flags,
// semaphores and condition variables served at a home; allocation by any compute node.
//
// It decides and never acts: faults, lock calls and messages come in; messages come out of poll_transmit();
// protections and bytes of pages go through PageMemory. It knows no thread, clock or socket, and allocates
// only in its constructor. All calls are serialised by the caller (live: the cluster's combiner lock).
//
// Messages may arrive in any order. Each arrives once: the service below sees to that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.h"
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
  // A flag is set or not; it starts cleared. Setting lets all go who wait.
  kFlagSet,
  kFlagClear,
  kFlagWait,
  // A semaphore counts from 0. Waiting takes one, in the order of the calls.
  kSemaphorePost,  // first: how many
  kSemaphoreWait,
  // A condition variable. Who waits holds `lock`, gives it up once it is in the queue, and has it again when
  // the wait is done.
  kConditionWait,
  kConditionSignal,     // the one who has waited longest
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
  // Pages that one cluster's release has under way at once, as writer or as home: bounds the output queues.
  std::uint32_t flush_window = 64;
  // Times that a lock's token passes between compute nodes of a cluster while another cluster waits for it.
  std::uint32_t local_handoffs = 16;
  // Pages homed elsewhere that this cluster can have written and not flushed yet, 4 KiB each (64 MiB of
  // address space, used as it is needed). When all are taken the oldest dirty page is flushed early and the
  // fault waits for that. Two per compute node is the least that always gets on: one store can need two pages
  // at once. Local, not shared.
  std::uint32_t twins = 16384;
  // A page's home moves to a cluster that alone has written it in so many rounds one after the other, while
  // nobody touched it at its home; 0: never. Two: the first of them closes the page at its home, to see
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

class StateSink;

class Engine {
 public:
  Engine(const EngineConfig& config, PageMemory& memory);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Sets the home of pages [first, first + count). Before the pages' first use, the same calls in every
  // cluster. A page's home starts with the only copy (zeroes), writable there and inaccessible elsewhere; the
  // call protects accordingly. Pages never given a home are homed cyclically, page % clusters, and opened at
  // their home by the first fault there. A request that arrives from a cluster that made the call earlier
  // waits until this one makes it.
  void set_home(PageId first, std::uint32_t count, ClusterId home);

  // Pages [first, first + count), which nobody has used, are all zeros: the first cluster that touches one
  // becomes its home. Cluster page % clusters decides who that was. Before the pages' first use, the same
  // calls in every cluster.
  void set_first_touch(PageId first, std::uint32_t count);

  // --- What compute node `node` (0 .. compute_nodes-1 of this cluster) does. One operation at a time per
  // node: true = complete at once; false = under way, ask done(node) after each message or operation.

  // The node touched `page` and lacked `wanted`. Complete when the protection allows it, or did already (a
  // sibling was faster); the node then simply tries its access again, and may fault again.
  [[nodiscard]] bool fault(std::uint16_t node, PageId page, Access wanted);
  [[nodiscard]] bool lock(std::uint16_t node, LockId lock);
  // A release. Never waits: the token leaves this cluster only when what was written before has reached the
  // homes and every other copy of it is gone. The node must hold the lock.
  void unlock(std::uint16_t node, LockId lock);
  // Waits for all compute nodes of all clusters; a release and an acquire. Every node of the machine comes to
  // the same barriers in the same order.
  // `value` is the bits of what the node brings to the reduction; result() is the reduction's, and
  // reduction() kDisagreement if not all nodes called the same.
  [[nodiscard]] bool barrier(std::uint16_t node, BarrierId barrier, Reduction reduction = Reduction::kNone,
                             std::uint64_t value = 0);
  // result() is the word's value before, where there is one.
  [[nodiscard]] bool sync(std::uint16_t node, const SyncCall& call);
  // `count` fresh pages, at least one, for this node alone to name: result() is the first one, or kNoPages.
  // Every cluster knows them and their homes when it is complete.
  [[nodiscard]] bool allocate(std::uint16_t node, std::uint32_t count, Homes homes);
  // The same by all clusters together, each for itself, with the same arguments and while no node allocates;
  // nobody may use the pages before all have returned.
  std::optional<PageId> allocate_together(std::uint32_t count, Homes homes);
  // Of the node's last barrier, sync() or allocate(), when it is done.
  std::uint64_t result(std::uint16_t node) const;
  Reduction reduction(std::uint16_t node) const;
  bool holds(std::uint16_t node, LockId lock) const;
  // The node waits for nothing. Turns true inside any call above or in on_message(), never in
  // poll_transmit().
  bool done(std::uint16_t node) const;

  // --- What the network does.

  // What another cluster's engine wrote. Never fails and never waits: what no engine sends is counted and
  // dropped. But then what was meant is lost, and somebody may wait for it: see refusal().
  void on_message(ClusterId from, ByteView message);
  // The first message that was dropped, if any was. The network did not keep its promise (PG-27): nothing
  // that is computed from now on can be trusted, so whoever drives the engine ends the program and says why.
  const std::optional<Refusal>& refusal() const;
  // Writes what is ready for `to` (another cluster) into `room` (at least kMaxMessageBytes) and returns its
  // length; 0 when there is nothing, else ask again. May call protect(): pages close as their bytes are
  // taken. The driver takes room in its channel first, so a message that was written is a message that was
  // sent.
  std::size_t poll_transmit(ClusterId to, MutableBytes room);
  bool has_output(ClusterId to) const;
  // Clusters with output, a bit each: what a driver loops over.
  std::uint64_t output_clusters() const;

  // --- What a watcher asks.
  const NodeCounts& node_counts(std::uint16_t node) const;
  const ClusterCounts& counts() const;
  // As far as this cluster knows: another one's home may have moved on.
  ClusterId home(PageId page) const;
  std::uint32_t free_pages() const;  // that no allocation has taken
  // What `node` of this cluster waits for and what this cluster knows of it, for a person: "waits for lock 5,
  // which compute node 3 has"; empty when it waits for nothing. Compute nodes are named by their numbers in
  // the machine. Allocates.
  std::string explain_wait(std::uint16_t node) const;
  // The locks that `node` has: "3, 5". Allocates.
  std::string locks_of(std::uint16_t node) const;
  // Nothing under way and nothing to send: for tests and for the end of a program.
  bool quiet() const;
  // States the invariants as assertions.
  void check() const;
  // Tells all that decides what the engine does from now on, pages' bytes included (state_sink.h).
  void describe(StateSink& sink) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace braid::dsm
