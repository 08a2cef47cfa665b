// The calls of dsm/api.h, on the one runtime that a process has.
#include "dsm/api.h"

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/clock.h"
#include "dsm/live/environment.h"
#include "dsm/live/failure.h"
#include "dsm/live/machine.h"
#include "dsm/live/network.h"
#include "dsm/live/runtime.h"
#include "dsm/live/trace.h"
#include "dsm/threads.h"

namespace braid::dsm {

namespace {

// Not destroyed at exit: a program that calls exit() without finish() may have compute nodes at work.
Runtime* the_runtime = nullptr;

Runtime& runtime(const char* call) {
  if (the_runtime == nullptr) fail("{} was called before braid::dsm::init(), or after finish()", call);
  return *the_runtime;
}

[[noreturn]] void fail_with(const Error& error) {
  fail_with_text(error.text.data(), error.text.size());
}

void write_all(int fd, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // whoever wanted the report has gone: the program's result stands all the same
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

void join_machine(const Environment& environment, std::unique_ptr<Network> network) {
  if (the_runtime != nullptr) fail("braid::dsm::init() was called twice");
  Result<std::unique_ptr<Runtime>> started =
      Runtime::start(environment, std::move(network), ::program_invocation_short_name);
  if (!started) fail_with(started.error());
  the_runtime = std::move(started).value().release();
}

void init() {
  if (the_runtime != nullptr) fail("braid::dsm::init() was called twice");
  // `braid run` reads standard output through a pipe, where the library would keep what is written until the
  // end: lines leave as they are complete, so they are seen at once, and after a crash too.
  if (std::getenv(variable::kCluster) != nullptr) std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Result<Environment> environment = Environment::read();
  if (!environment) fail_with(environment.error());
  std::unique_ptr<Network> network;
  if (environment->clusters > 1) {
    Result<std::unique_ptr<Network>> connected = connect_through_service(*environment);
    if (!connected) fail_with(connected.error());
    network = std::move(connected).value();
  }
  join_machine(*environment, std::move(network));
}

unsigned clusters() {
  return runtime("clusters()").environment().clusters;
}
unsigned cluster() {
  return runtime("cluster()").environment().cluster;
}
unsigned nodes_per_cluster() {
  return runtime("nodes_per_cluster()").environment().compute;
}

void* allocate_bytes(std::size_t bytes, Placement placement) {
  return runtime("allocate()").allocate(bytes, placement);
}

void parallel(const std::function<void(Node&)>& body) {
  runtime("parallel()").parallel(body);
}

void barrier() {
  runtime("barrier()").barrier_of_clusters();
}

AdoptedThread::AdoptedThread(unsigned local) : stack_(std::make_unique<SignalStack>()) {
  runtime("AdoptedThread").adopt(local);
}
AdoptedThread::~AdoptedThread() {
  Runtime::leave();
}

void trace_faults(bool on) {
  runtime("trace_faults()").trace_faults(on);
}
FaultStamps latest_fault() {
  return runtime("latest_fault()").latest_fault();
}

double seconds() {
  return static_cast<double>(monotonic_now().ns()) * 1e-9;
}

int finish(int status) {
  Runtime& leaving = runtime("finish()");
  leaving.finish();
  const int report_fd = leaving.environment().report_fd;
  if (report_fd >= 0) {
    write_all(report_fd, leaving.report());
    ::close(report_fd);
  }
  the_runtime = nullptr;
  delete &leaving;
  return status;
}

unsigned Node::id() const {
  return the_runtime->node_id(local_);
}
unsigned Node::count() const {
  return the_runtime->node_count();
}
unsigned Node::cluster() const {
  return the_runtime->environment().cluster;
}

Range Node::share(std::size_t n) const {
  // 128 bits: n times the number of nodes may not fit 64.
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
  return the_runtime->sync(local, {.op = op,
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

}  // namespace

void Node::barrier(unsigned which) {
  check_id("barrier", which, kBarriers);
  the_runtime->barrier(local_, which);
}

std::uint64_t Node::reduce_bits(std::uint64_t bits, Reduce how, Type type, unsigned which) {
  check_id("barrier", which, kBarriers);
  static constexpr Reduction kReductions[3][3] = {
      {Reduction::kSumDouble, Reduction::kSumInt64, Reduction::kSumUint64},
      {Reduction::kMinDouble, Reduction::kMinInt64, Reduction::kMinUint64},
      {Reduction::kMaxDouble, Reduction::kMaxInt64, Reduction::kMaxUint64}};
  const auto row = static_cast<unsigned>(how);
  if (row >= std::size(kReductions)) fail("reduce() was called with reduction {}: there are 3", row);
  return the_runtime->reduce(local_, which, kReductions[row][static_cast<unsigned>(type)], bits);
}

void Node::lock(unsigned lock) {
  check_id("lock", lock, kLocks);
  the_runtime->lock(local_, lock);
}
void Node::unlock(unsigned lock) {
  check_id("lock", lock, kLocks);
  the_runtime->unlock(local_, lock);
}

void Node::condition_wait(unsigned condition, unsigned lock) {
  check_id("condition", condition, kConditions);
  check_id("lock", lock, kLocks);
  the_runtime->sync(local_, {.op = SyncOp::kConditionWait, .id = condition, .lock = LockId(lock)});
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

}  // namespace braid::dsm
