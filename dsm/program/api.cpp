// The calls of dsm/api.h, which use the one host of the process.
#include "dsm/api.h"

#include <pthread.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "dsm/program/failure.h"
#include "dsm/program/forked_host.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/system_calls.h"
#include "dsm/threads.h"

namespace braid::dsm {

namespace {

// Not destroyed at exit: a program that calls exit() without finish() may have running compute nodes.
Host* the_host = nullptr;
// Becomes the_host in a child of fork(). Made beforehand, because the child must not allocate.
ForkedHost* host_of_child = nullptr;

void enter_child() {
  if (the_host == nullptr || is_forked_child()) return;
  the_host->abandon_in_child();
  the_host = host_of_child;
}

Homes homes_of(Placement placement) {
  const ClusterId cluster(static_cast<std::uint16_t>(placement.cluster));
  switch (placement.kind) {
    case Placement::Kind::kBlock:
      return {Homes::Kind::kBlock, {}};
    case Placement::Kind::kCyclic:
      return {Homes::Kind::kCyclic, {}};
    case Placement::Kind::kCluster:
      return {Homes::Kind::kCluster, cluster};
    case Placement::Kind::kFirstTouch:
      return {Homes::Kind::kFirstTouch, {}};
  }
  return {};
}

std::uint32_t pages_of(std::size_t bytes, std::uint32_t heap_pages) {
  const PageLength length = page_length();
  const std::size_t pages =
      length.pages_in(bytes) + (length.offset_in_page(bytes) != 0 || bytes == 0 ? 1 : 0);
  return static_cast<std::uint32_t>(std::min<std::size_t>(pages, std::size_t{heap_pages} + 1));
}

}  // namespace

bool is_forked_child() {
  return the_host != nullptr && the_host == host_of_child;
}

const Host* current_host() {
  return the_host;
}

void check_not_joined() {
  if (is_forked_child()) ForkedHost::refuse("init()");
  if (the_host != nullptr) fail("braid::dsm::init() was called twice");
}

void join(std::unique_ptr<Host> host) {
  check_not_joined();
  static const int prepared = ::pthread_atfork(nullptr, nullptr, enter_child);
  CHECK_EQ(prepared, 0);
  begin_sharing(host->shape().heap_pages);
  delete host_of_child;
  host_of_child = new ForkedHost(host->shape());
  the_host = host.release();
}

namespace {

// Also in a child of fork(): the machine's shape does not change.
const Shape& shape(const char* call) {
  if (the_host == nullptr) fail("{} was called before braid::dsm::init(), or after finish()", call);
  return the_host->shape();
}

}  // namespace

Host& joined_host(const char* call) {
  (void)shape(call);
  if (is_forked_child()) ForkedHost::refuse(call);
  return *the_host;
}

unsigned clusters() {
  return shape("clusters()").clusters;
}
unsigned cluster() {
  return shape("cluster()").cluster;
}
unsigned nodes_per_cluster() {
  return shape("nodes_per_cluster()").compute;
}
std::size_t page_bytes() {
  return page_length().bytes();
}

void* allocate_bytes(std::size_t bytes, Placement placement) {
  Host& host = joined_host("allocate()");
  const Shape& shape = host.shape();
  if (placement.kind == Placement::Kind::kCluster && placement.cluster >= shape.clusters) {
    fail("allocate() was called for cluster {}, which does not exist: there are {}, counted from 0",
         placement.cluster, shape.clusters);
  }
  const bool alone = host.in_parallel();
  const int local = host.current_node();
  if (!alone && local != 0)
    fail("allocate() was called outside parallel() by a thread that is not the initial one");
  if (local < 0) fail("allocate() was called by a thread that is not a compute node");
  const Allocation allocation = {.bytes = bytes,
                                 .placement = placement,
                                 .pages = pages_of(bytes, shape.heap_pages),
                                 .homes = homes_of(placement)};
  const std::optional<PageId> first = alone ? host.allocate_alone(static_cast<unsigned>(local), allocation)
                                            : host.allocate_together(allocation);
  if (!first) {
    fail("the shared heap of {} MiB is full: {} bytes were requested, {} are free; {}",
         shape.heap_bytes() >> 20, bytes, shape.page_length.bytes_of(host.free_pages()),
         host.cure_for_full_heap());
  }
  return application_address(*first);
}

void* allocate_array(std::size_t count, std::size_t element_bytes, Placement placement) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element_bytes, &bytes)) {
    fail("allocate() was called for {} elements of {} bytes: that exceeds the address space", count,
         element_bytes);
  }
  return allocate_bytes(bytes, placement);
}

void parallel(const std::function<void(Node&)>& body) {
  Host& host = joined_host("parallel()");
  if (host.in_parallel())
    fail("parallel() was called inside parallel(): compute nodes cannot be divided further");
  host.parallel(body);
}

void run_on_cluster(const std::function<void(unsigned local)>& body) {
  Host& host = joined_host("run_on_cluster()");
  if (host.in_parallel()) fail("run_on_cluster() was called inside parallel(), or inside itself");
  if (host.current_node() != 0) fail("run_on_cluster() was called by a thread that is not the initial one");
  host.run_on_cluster(body);
}

void barrier() {
  Host& host = joined_host("barrier()");
  if (host.in_parallel())
    fail("braid::dsm::barrier() was called inside parallel(): call Node::barrier() there");
  if (host.current_node() != 0)
    fail("braid::dsm::barrier() was called by a thread that is not the initial one");
  host.barrier_of_clusters();
}

int finish(int status) {
  Host& leaving = joined_host("finish()");
  if (leaving.in_parallel())
    fail("finish() was called inside parallel(): call it when parallel() has returned");
  leaving.finish();
  the_host = nullptr;
  end_sharing();
  delete &leaving;
  return status;
}

unsigned calling_node(const char* call, const char* cure) {
  const Host& host = joined_host(call);
  const int local = host.current_node();
  if (!host.in_parallel() || local < 0)
    fail("{} was called outside parallel(), or by a thread that is not a compute node{}", call, cure);
  return static_cast<unsigned>(local);
}

Node self() {
  return Node(calling_node("self()"));
}

unsigned Node::id() const {
  return the_host->node_id(local_);
}
unsigned Node::count() const {
  return the_host->node_count();
}
unsigned Node::cluster() const {
  return the_host->shape().cluster;
}

Range Node::share(std::size_t n) const {
  // 128 bits: n times the number of nodes may exceed 64.
  const auto edge = [&](std::size_t node) {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(n) * node / count());
  };
  return {edge(id()), edge(id() + 1)};
}

// --- A node's synchronisation

namespace {

void check_id(const char* what, unsigned id, unsigned count) {
  if (id >= count) fail("{} {} does not exist: there are {}, counted from 0", what, id, count);
}

std::uint64_t sync(unsigned local, SyncOp op, unsigned id, std::uint64_t first = 0, std::uint64_t second = 0,
                   MemoryOrder order = MemoryOrder::kRelaxed) {
  return the_host->sync(local, {.op = op,
                                .id = id,
                                .first = first,
                                .second = second,
                                .releases = order == MemoryOrder::kAcquireRelease});
}

std::int64_t word(unsigned local, SyncOp op, unsigned id, std::int64_t first, std::int64_t second,
                  MemoryOrder order) {
  check_id("word", id, kWords);
  return static_cast<std::int64_t>(
      sync(local, op, id, static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(second), order));
}

std::uint64_t come_to_barrier(unsigned local, unsigned which, Reduction reduction, std::uint64_t value) {
  const Reduced reduced = the_host->barrier(local, BarrierId(which), reduction, value);
  if (reduced.reduction != reduction) {
    fail(
        "barrier {}: compute nodes called different reductions, or some barrier() and some reduce(): all "
        "call the same, for the same type",
        which);
  }
  return reduced.value;
}

}  // namespace

void Node::barrier(unsigned which) {
  check_id("barrier", which, kBarriers);
  come_to_barrier(local_, which, Reduction::kNone, 0);
}

// Between the two barriers no node does anything else, so nothing is in progress that the figures would be of.
void Node::reset_figures(unsigned which) {
  barrier(which);
  the_host->reset_figures(local_);
  barrier(which);
}

std::uint64_t Node::reduce_bits(std::uint64_t bits, Reduce how, Type type, unsigned which) {
  check_id("barrier", which, kBarriers);
  static constexpr Reduction kReductions[3][3] = {
      {Reduction::kSumDouble, Reduction::kSumInt64, Reduction::kSumUint64},
      {Reduction::kMinDouble, Reduction::kMinInt64, Reduction::kMinUint64},
      {Reduction::kMaxDouble, Reduction::kMaxInt64, Reduction::kMaxUint64}};
  const auto row = static_cast<unsigned>(how);
  if (row >= std::size(kReductions)) fail("reduce() was called with reduction {}: there are 3", row);
  return come_to_barrier(local_, which, kReductions[row][static_cast<unsigned>(type)], bits);
}

void Node::lock(unsigned lock) {
  check_id("lock", lock, kLocks);
  the_host->lock(local_, LockId(lock));
}
void Node::unlock(unsigned lock) {
  check_id("lock", lock, kLocks);
  the_host->unlock(local_, LockId(lock));
}

bool Node::try_lock(unsigned lock) {
  check_id("lock", lock, kLocks);
  return the_host->try_lock(local_, LockId(lock));
}

void Node::condition_wait(unsigned condition, unsigned lock) {
  check_id("condition", condition, kConditions);
  check_id("lock", lock, kLocks);
  the_host->sync(local_, {.op = SyncOp::kConditionWait, .id = condition, .lock = LockId(lock)});
}
void Node::condition_signal(unsigned condition) {
  check_id("condition", condition, kConditions);
  sync(local_, SyncOp::kConditionSignal, condition);
}
void Node::condition_broadcast(unsigned condition) {
  check_id("condition", condition, kConditions);
  sync(local_, SyncOp::kConditionBroadcast, condition);
}

void Node::flag_set(unsigned flag) {
  check_id("flag", flag, kFlags);
  sync(local_, SyncOp::kFlagSet, flag, 0, 0, MemoryOrder::kAcquireRelease);
}
void Node::flag_wait(unsigned flag) {
  check_id("flag", flag, kFlags);
  sync(local_, SyncOp::kFlagWait, flag);
}
void Node::flag_clear(unsigned flag) {
  check_id("flag", flag, kFlags);
  sync(local_, SyncOp::kFlagClear, flag);
}

void Node::semaphore_post(unsigned semaphore, std::uint32_t count) {
  check_id("semaphore", semaphore, kSemaphores);
  sync(local_, SyncOp::kSemaphorePost, semaphore, count, 0, MemoryOrder::kAcquireRelease);
}
void Node::semaphore_wait(unsigned semaphore) {
  check_id("semaphore", semaphore, kSemaphores);
  sync(local_, SyncOp::kSemaphoreWait, semaphore);
}

std::int64_t Node::fetch_add(unsigned id, std::int64_t summand, MemoryOrder order) {
  return word(local_, SyncOp::kWordAdd, id, summand, 0, order);
}
std::int64_t Node::exchange(unsigned id, std::int64_t value, MemoryOrder order) {
  return word(local_, SyncOp::kWordExchange, id, value, 0, order);
}
std::int64_t Node::compare_exchange(unsigned id, std::int64_t expected, std::int64_t desired,
                                    MemoryOrder order) {
  return word(local_, SyncOp::kWordCompareExchange, id, expected, desired, order);
}
std::int64_t Node::load(unsigned id) {
  return word(local_, SyncOp::kWordLoad, id, 0, 0, MemoryOrder::kRelaxed);
}
void Node::store(unsigned id, std::int64_t value, MemoryOrder order) {
  word(local_, SyncOp::kWordStore, id, value, 0, order);
}

void* Node::allocate_bytes(std::size_t bytes, Placement placement) {
  return braid::dsm::allocate_bytes(bytes, placement);
}
void* Node::allocate_array(std::size_t count, std::size_t element_bytes, Placement placement) {
  return braid::dsm::allocate_array(count, element_bytes, placement);
}

}  // namespace braid::dsm
