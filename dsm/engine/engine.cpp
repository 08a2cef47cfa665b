// Connects pages, locks, barriers, variables and allocation: dispatches messages, delivers the messages of this
// cluster to itself, and continues what waited for a release.
#include "dsm/engine/engine.h"

#include <fmt/core.h>
#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/limits.h"
#include "dsm/engine/acquires.h"
#include "dsm/engine/allocations.h"
#include "dsm/engine/barriers.h"
#include "dsm/engine/lock_words.h"
#include "dsm/engine/locks.h"
#include "dsm/engine/messages.h"
#include "dsm/engine/nodes.h"
#include "dsm/engine/object_names.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/pages.h"
#include "dsm/engine/refusals.h"
#include "dsm/engine/sparse_table.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/sync_variables.h"
#include "dsm/engine/write_notices.h"

namespace braid::dsm {
namespace {

const EngineConfig& checked(const EngineConfig& c) {
  CHECK(c.clusters >= 1 && c.clusters <= kMaxClusters);
  CHECK(c.compute_nodes >= 1 && c.compute_nodes <= kMaxComputeNodes);
  CHECK_LT(c.cluster.value(), c.clusters);
  const std::uint32_t most = std::max({c.locks, c.words, c.flags, c.semaphores, c.conditions});
  CHECK_LT(std::uint64_t{most} + c.addresses, std::uint64_t{SparseTable<int>::kNoNumber});
  CHECK_GE(c.barrier_fan_out, 1u);
  CHECK(c.run_pages >= 1 && c.run_pages <= kMaxRunPages);
  return c;
}

}  // namespace

struct Engine::State {
  State(const EngineConfig& c, PageMemory& memory)
      : config(checked(c)),
        refusals(counts),
        nodes(config.compute_nodes),
        words(config.lock_words),
        taken(config.compute_nodes),
        addresses{.heap = config.heap_address},
        outbox(config),
        notices(config),
        acquires(config),
        pages(config, memory, outbox, nodes, counts, refusals, notices),
        locks(config, outbox, nodes, pages, words, addresses),
        barriers(config, outbox, nodes, pages, notices),
        sync(config, outbox, nodes, pages, locks, addresses),
        allocations(config, outbox, nodes, pages) {}

  bool lazy() const { return config.protocol == Protocol::kLazy; }

  // A well-formed message from another cluster. False: it is invalid now.
  bool receive(ClusterId from, const Header& h, ByteView payload) {
    if (h.kind == Kind::kWriteNotice) {
      const ByteView others = payload.subspan(kNoticePlaceBytes);
      if (!pages.contains(h.id, RunVersions{h.number, others}.pages())) return false;
      if (!acquires.on_notice(from, load<std::uint32_t>(payload.data()))) return false;
      return dispatch(from, h, others);
    }
    if (!can_acquire_by(h)) return dispatch(from, h, payload);
    if (has_place(h, payload) != lazy()) return false;
    return lazy() ? acquires.on_message(from, h, payload) : dispatch(from, h, payload);
  }
  // LZ-3: what that cluster has sent and can be handled now.
  void handle_held(ClusterId from) {
    if (!lazy()) return;
    while (const auto held = acquires.pop(from)) {
      if (!dispatch(from, held->header, held->payload()))
        refusals.add(refusal_of(from, held->header, kHeaderBytes + held->length));
      run_local_work();
    }
  }

  // Handles a well-formed message from another cluster or from this one. False: it is invalid now.
  bool dispatch(ClusterId from, const Header& h, ByteView payload) {
    switch (h.kind) {
      case Kind::kPageRequest:
      case Kind::kPageReply:
      case Kind::kDiff:
      case Kind::kDiffDone:
      case Kind::kInvalidate:
      case Kind::kInvalidateAck:
      case Kind::kPageForward:
      case Kind::kWriteNotice:
        return pages.on_message(from, h, payload);
      case Kind::kLockRequest:
        return locks.on_request(from, LockId(h.id), h.format != 0);
      case Kind::kLockGrant:
        return locks.on_grant(from, LockId(h.id));
      case Kind::kLockRecall:
        return locks.on_recall(from, LockId(h.id), h.number, h.format != 0);
      case Kind::kLockBusy:
        return locks.on_busy(from, LockId(h.id));
      case Kind::kLockProbe:
        return locks.on_probe(from, LockId(h.id));
      case Kind::kLockProbeReply:
        return locks.on_probe_reply(from, LockId(h.id));
      case Kind::kBarrierArrive:
        return barriers.on_arrive(from, h, payload);
      case Kind::kBarrierDepart:
        return barriers.on_depart(from, h, payload);
      case Kind::kSyncCall:
        return sync.on_call(from, h, payload);
      case Kind::kSyncResult:
        return sync.on_result(from, h, payload);
      case Kind::kAllocate:
        return allocations.on_request(from, h, payload);
      case Kind::kAllocated:
        return allocations.on_result(from, h);
      case Kind::kRegion:
        return allocations.on_region(from, h, payload);
      case Kind::kRegionKnown:
        return allocations.on_region_known(from, PageId(h.id));
    }
    return false;
  }

  // Turns a descriptor into a message: completes the header, writes the payload, returns its length; nullopt if
  // it is a diff and longer than the room.
  std::optional<std::size_t> write_payload(ClusterId to, Header& header, MutableBytes payload) {
    switch (header.kind) {
      case Kind::kPageRequest:
      case Kind::kPageReply:
      case Kind::kDiff:
      case Kind::kDiffDone:
      case Kind::kInvalidate:
      case Kind::kInvalidateAck:
      case Kind::kPageForward:
      case Kind::kWriteNotice:
        return pages.write(to, header, payload);
      case Kind::kLockRequest:
      case Kind::kLockGrant:
      case Kind::kLockRecall:
      case Kind::kLockProbe:
      case Kind::kLockProbeReply:
      case Kind::kLockBusy:
        locks.sent(to, header);
        return 0;
      case Kind::kBarrierArrive:
      case Kind::kBarrierDepart:
        return barriers.write(header, payload);
      case Kind::kSyncCall:
      case Kind::kSyncResult:
        return sync.write(to, header, payload);
      case Kind::kAllocate:
      case Kind::kAllocated:
      case Kind::kRegion:
      case Kind::kRegionKnown:
        return allocations.write(to, header, payload);
    }
    return 0;
  }

  // Carries out everything that needs no message from another cluster. Each turn of the loop ends a release or
  // delivers a message of this cluster to itself, and both are bounded.
  void run_local_work() {
    do {
      while (!outbox.empty(config.cluster)) {
        Header header = outbox.pop(config.cluster);
        std::array<std::byte, kMaxOwnPayloadBytes> payload;
        const std::optional<std::size_t> length = write_payload(config.cluster, header, payload);
        CHECK(length && dispatch(config.cluster, header, ByteView(payload).first(*length)));
      }
      pages.pump();
      while (const auto release = pages.pop_complete()) {
        switch (release->what) {
          case ReleaseFor::What::kLock:
            locks.released(LockId(release->id));
            break;
          case ReleaseFor::What::kBarrier:
            barriers.released(BarrierId(release->id));
            break;
          case ReleaseFor::What::kSync:
            sync.released(static_cast<std::uint16_t>(release->id));
            break;
          case ReleaseFor::What::kUnlock:
            locks.released_for_unlock(static_cast<std::uint16_t>(release->id));
            break;
        }
      }
    } while (!outbox.empty(config.cluster));
  }

  // The next message for `to`, its length; 0 when there is none, or none for which there is room.
  std::size_t write_next(ClusterId to, MutableBytes room) {
    if (outbox.empty(to) || room.size() < kHeaderBytes + payload_room(config.page_length, outbox.front(to)))
      return 0;
    const bool places = lazy() && can_acquire_by(outbox.front(to));
    if (places) {
      // A token that no node waits for (LK-10) can leave for a cluster just before a departure.
      const bool departs = outbox.pending(to, Kind::kBarrierDepart) != 0;
      const std::uint32_t page = notices.next(to, departs);
      if (page != kNoPages) return write_notices(to, departs, page, room);
    }
    Header header = outbox.pop(to);
    const std::optional<std::size_t> payload = write_payload(to, header, room.subspan(kHeaderBytes));
    if (!payload) {
      outbox.put_back(to, header);
      return 0;
    }
    count_sent(header.kind);
    write_header(room, header);
    const std::size_t bytes = kHeaderBytes + *payload;
    return places ? bytes + acquires.write_place(to, room.subspan(bytes)) : bytes;
  }

  // LZ-3: of the page and its neighbours that come next, as many as fit; 0 if none does.
  std::size_t write_notices(ClusterId to, bool departs, std::uint32_t page, MutableBytes room) {
    const bool for_all = notices.for_all(page);
    const Header header{
        .kind = Kind::kWriteNotice, .format = for_all, .id = page, .number = notices.version(page)};
    std::size_t bytes = kHeaderBytes + kNoticePlaceBytes;
    if (room.size() < bytes) return 0;
    count_sent(header.kind);
    write_header(room, header);
    store(&room[kHeaderBytes], acquires.notice_sent(to));
    notices.tell(to, page);
    const std::uint32_t end = page + kMaxRunPages;
    while (++page < end && bytes + sizeof header.number <= room.size()) {
      if (notices.next(to, departs) != page || notices.for_all(page) != for_all) break;
      store(&room[bytes], notices.version(page));
      bytes += sizeof header.number;
      notices.tell(to, page);
    }
    return bytes;
  }

  void count_sent(Kind kind) { ++counts.sent[static_cast<std::size_t>(kind) - 1]; }

  ComputeNode& idle_node(std::uint16_t node) {
    CHECK_LT(node, nodes.size());
    CHECK(nodes[node].wait == Wait::kNothing);
    return nodes[node];
  }

  // Since the node's scans were used last.
  bool took_open_lock(std::uint16_t node) const { return taken.of(node) != nodes[node].taken_before; }

  const EngineConfig config;
  ClusterCounts counts;
  Refusals refusals;
  ComputeNodes nodes;
  LockWords words;
  TakenLocks taken;
  ObjectAddresses addresses;
  Outbox outbox;
  WriteNotices notices;
  Acquires acquires;
  Pages pages;
  Locks locks;
  Barriers barriers;
  SyncVariables sync;
  Allocations allocations;
};

Engine::Engine(const EngineConfig& config, PageMemory& memory)
    : state_(std::make_unique<State>(config, memory)) {}
Engine::~Engine() = default;

void Engine::set_home(PageId first, std::uint32_t count, ClusterId home) {
  state_->pages.set_home(first, count, home);
}

void Engine::set_first_touch(PageId first, std::uint32_t count) {
  state_->pages.set_first_touch(first, count);
}

bool Engine::fault(std::uint16_t node, PageId page, Access wanted) {
  ComputeNode& n = state_->idle_node(node);
  ++(wanted == Access::kWrite ? n.counts.write_faults : n.counts.read_faults);
  if (state_->took_open_lock(node)) {
    n.taken_before = state_->taken.of(node);
    n.scans.end();  // PG-25
  }
  if (state_->pages.fault(node, page, wanted)) return true;
  state_->run_local_work();
  return done(node);
}

void Engine::prefetch(PageId first, std::uint32_t count) {
  state_->pages.prefetch(first, count);
  state_->run_local_work();
}

void Engine::set_time(Instant now) {
  state_->locks.set_time(now);
}

bool Engine::lock(std::uint16_t node, LockId lock) {
  ComputeNode& n = state_->idle_node(node);
  n.scans.end();  // PG-25
  ++n.counts.lock_calls;
  if (state_->locks.lock(node, lock)) return true;
  state_->run_local_work();
  if (done(node)) return true;
  if (!state_->locks.here(lock)) ++n.counts.remote_locks;
  return false;
}

bool Engine::take_open_lock(std::uint16_t node, LockId lock) {
  if (!state_->words.take(node, lock)) return false;
  state_->taken.count(node);
  return true;
}

bool Engine::free_open_lock(std::uint16_t node, LockId lock) {
  return state_->words.free(node, lock);
}

bool Engine::try_lock(std::uint16_t node, LockId lock) {
  ComputeNode& n = state_->idle_node(node);
  n.scans.end();  // PG-25
  ++n.counts.lock_calls;
  if (state_->locks.try_lock(node, lock)) return true;
  state_->run_local_work();
  if (done(node)) return true;
  ++n.counts.remote_locks;
  return false;
}

bool Engine::unlock(std::uint16_t node, LockId lock) {
  (void)state_->idle_node(node);
  if (state_->config.release_at_unlock)
    state_->locks.release_and_unlock(node, lock);
  else
    state_->locks.unlock(node, lock);
  state_->run_local_work();
  return done(node);
}

bool Engine::barrier(std::uint16_t node, BarrierId barrier, Reduction reduction, std::uint64_t value) {
  ComputeNode& n = state_->idle_node(node);
  n.scans.end();  // PG-25
  ++n.counts.barriers;
  state_->barriers.arrive(node, barrier, reduction, value);
  state_->run_local_work();
  return done(node);
}

bool Engine::sync(std::uint16_t node, const SyncCall& call) {
  ComputeNode& n = state_->idle_node(node);
  n.scans.end();  // PG-25
  ++n.counts.sync_calls;
  state_->sync.begin(node, call);
  state_->run_local_work();
  return done(node);
}

bool Engine::allocate(std::uint16_t node, std::uint32_t count, Homes homes) {
  (void)state_->idle_node(node);
  state_->allocations.begin(node, count, homes);
  state_->run_local_work();
  return done(node);
}

std::optional<PageId> Engine::allocate_together(std::uint32_t count, Homes homes) {
  return state_->allocations.take(count, homes);
}

std::uint64_t Engine::result(std::uint16_t node) const {
  return state_->nodes[node].result;
}

Reduction Engine::reduction(std::uint16_t node) const {
  return state_->nodes[node].reduction;
}

bool Engine::holds(std::uint16_t node, LockId lock) const {
  return state_->locks.held_by(lock, node);
}

bool Engine::done(std::uint16_t node) const {
  return state_->nodes[node].wait == Wait::kNothing;
}

void Engine::on_message(ClusterId from, ByteView message) {
  State& s = *state_;
  for (ByteView rest = message;;) {  // PG-26
    const auto parsed = parse(s.config.page_length, rest);
    // PG-19: an engine sends nothing to itself over the network.
    if (!parsed) {
      s.refusals.add({.from = from,
                      .what = "bytes that are not a message",
                      .bytes = rest.size(),
                      .why = "they are too few, of no kind, or not of their kind's form"});
    } else if (from.value() >= s.config.clusters || from == s.config.cluster ||
               !s.receive(from, parsed->header, parsed->payload)) {
      s.refusals.add(refusal_of(from, parsed->header, rest.size()));
    }
    s.run_local_work();
    if (from.value() < s.config.clusters) s.handle_held(from);
    if (!parsed || parsed->rest.empty()) return;
    rest = parsed->rest;
  }
}

const std::optional<Refusal>& Engine::refusal() const {
  return state_->refusals.first();
}

// PG-26
std::size_t Engine::poll_transmit(ClusterId to, MutableBytes room) {
  State& s = *state_;
  CHECK(to != s.config.cluster);
  CHECK_GE(room.size(), min_room_bytes(s.config.page_length));
  room = room.first(std::min(room.size(), max_message_bytes(s.config.page_length)));
  std::size_t last = 0;
  std::size_t end = s.write_next(to, room);
  // PG-29: a page of 64 KiB is longer than a length can say, so nothing follows it.
  while (end != 0 && s.config.pack && end - last <= kMaxPackedBytes) {
    const std::size_t bytes = s.write_next(to, room.subspan(end));
    if (bytes == 0) break;
    write_length(room.subspan(last), end - last);
    last = end;
    end += bytes;
  }
  return end;
}

bool Engine::has_output(ClusterId to) const {
  return to != state_->config.cluster && !state_->outbox.empty(to);
}

std::size_t Engine::room_wanted(ClusterId to) const {
  const Outbox& outbox = state_->outbox;
  const std::size_t long_ones = outbox.pending(to, Kind::kPageReply) + outbox.pending(to, Kind::kDiff);
  const PageLength length = state_->config.page_length;
  const bool one_by_one = !state_->config.pack && state_->config.run_pages == 1;
  const std::size_t most =
      one_by_one ? std::max(kRoomWithoutRuns, min_room_bytes(length)) : max_message_bytes(length);
  return std::min(most, std::max<std::size_t>(1, long_ones) * min_room_bytes(length));
}

const ClusterBits& Engine::output_clusters() const {
  return state_->outbox.clusters();
}

NodeCounts Engine::node_counts(std::uint16_t node) const {
  NodeCounts counts = state_->nodes[node].counts;
  counts.lock_calls += state_->taken.of(node);
  return counts;
}

const ClusterCounts& Engine::counts() const {
  return state_->counts;
}

ClusterId Engine::home(PageId page) const {
  return state_->pages.home(page);
}

Access Engine::access(PageId page) const {
  return state_->pages.access(page);
}

std::uint32_t Engine::free_pages() const {
  return state_->allocations.free_pages();
}

std::string Engine::explain_wait(std::uint16_t node) const {
  const State& s = *state_;
  const ComputeNode& n = s.nodes[node];
  switch (n.wait) {
    case Wait::kNothing:
      return {};
    case Wait::kFetch:
      return fmt::format("waits for page {} from cluster {}", n.page.value(), s.pages.home(n.page).value());
    case Wait::kTwin:
      return fmt::format("waits for room to write to page {}", n.page.value());
    case Wait::kLock:
      return "waits for " + s.locks.explain(LockId(n.sync));
    case Wait::kBarrier:
      return fmt::format("waits at barrier {}, {}", n.sync, s.barriers.explain(BarrierId(n.sync)));
    case Wait::kSync:
      return "waits " + s.sync.explain(n);
    case Wait::kAllocation:
      return fmt::format("waits for cluster 0 to allocate {} pages", n.sync);
    case Wait::kRelease:
      return fmt::format("waits until its cluster's writes are visible, to free lock {}", n.sync);
  }
  return {};
}

bool Engine::waits_for_work(std::uint16_t node) const {
  const ComputeNode& n = state_->nodes[node];
  const WaitedFor::Kind kind = n.call.waits_for.kind;
  return n.wait == Wait::kSync &&
         (kind == WaitedFor::Kind::kThreadToRun || kind == WaitedFor::Kind::kProcessToRun);
}

void Engine::place_objects(std::uint32_t first, std::uint64_t address) {
  state_->addresses.first_apart = first;
  state_->addresses.apart = address;
}

std::string Engine::locks_of(std::uint16_t node) const {
  return state_->locks.locks_of(node);
}

bool Engine::quiet() const {
  const State& s = *state_;
  return s.outbox.clusters().empty() && s.acquires.quiet() && s.pages.quiet() && s.locks.quiet() &&
         s.barriers.quiet() &&
         std::ranges::all_of(s.nodes, [](const ComputeNode& n) { return n.wait == Wait::kNothing; });
}

void Engine::describe(StateSink& sink) const {
  const State& s = *state_;
  for (std::uint16_t i = 0; i < s.nodes.size(); ++i) {
    const ComputeNode& n = s.nodes[i];
    sink.value(static_cast<std::uint64_t>(n.wait));
    Scans scans = n.scans;
    if (s.took_open_lock(i)) scans.end();
    scans.describe(sink);
    if (n.wait == Wait::kFetch || n.wait == Wait::kTwin) sink.values(n.wanted, n.page.value());
    if (n.wait == Wait::kLock || n.wait == Wait::kBarrier || n.wait == Wait::kRelease) sink.value(n.sync);
    if (n.wait == Wait::kLock) sink.value(n.trying);
    if (n.wait == Wait::kSync || n.wait == Wait::kAllocation)
      sink.values(n.sync, n.call.op, n.call.id, n.call.first, n.call.second, n.call.releases,
                  n.call.lock.value(), n.homes.kind, n.homes.cluster.value(), n.call_sent, n.call_registered,
                  n.call_answered);
    sink.values(n.result, n.reduction);
  }
  s.outbox.describe(sink);
  s.notices.describe(sink);
  s.acquires.describe(sink);
  s.pages.describe(sink);
  s.locks.describe(sink);
  s.barriers.describe(sink);
  s.sync.describe(sink);
  s.allocations.describe(sink);
}

void Engine::check() const {
  state_->outbox.check();
  CHECK(state_->outbox.empty(state_->config.cluster));
  state_->notices.check();
  state_->pages.check();
  state_->locks.check();
  state_->barriers.check();
  state_->sync.check();
  state_->allocations.check();
}

}  // namespace braid::dsm
