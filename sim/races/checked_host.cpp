#include "sim/races/checked_host.h"

#include <cstdlib>
#include <utility>

#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/stack_trace.h"

namespace braid::sim {

namespace {

// nullptr: nothing is checked.
CheckedHost* the_host = nullptr;

}  // namespace

std::unique_ptr<dsm::Host> CheckedHost::around(std::unique_ptr<dsm::Host> shell) {
  const char* const descriptor = std::getenv(variable::kRacesFd);
  if (descriptor == nullptr) return shell;
  Result<std::unique_ptr<RaceDetector>> detector = RaceDetector::map(std::atoi(descriptor), shell->shape());
  if (!detector) dsm::fail_with_text(detector.error());
  return std::unique_ptr<dsm::Host>(new CheckedHost(std::move(shell), std::move(detector).value()));
}

CheckedHost::CheckedHost(std::unique_ptr<dsm::Host> shell, std::unique_ptr<RaceDetector> detector)
    : Host(shell->shape()),
      shell_(std::move(shell)),
      detector_(std::move(detector)),
      barriers_(shape().compute) {
  the_host = this;
}

CheckedHost::~CheckedHost() {
  the_host = nullptr;
}

void CheckedHost::abandon_in_child() {
  the_host = nullptr;
  shell_->abandon_in_child();
}

void CheckedHost::access(const volatile void* memory, std::size_t bytes, AccessKind kind,
                         const void* return_address) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  if (the_host == nullptr || !dsm::in_heap(address, the_host->shape().heap_pages)) return;
  // An access across the heap's end is the shell's to refuse.
  if (bytes == 0 || !dsm::in_heap(address + bytes - 1, the_host->shape().heap_pages)) return;
  const int local = the_host->current_node();
  if (local < 0) return;
  the_host->detector_->access(the_host->node_id(static_cast<unsigned>(local)), address, bytes, kind,
                              reinterpret_cast<std::uintptr_t>(return_address) - 1);
}

// ---------------------------------------------------------------- allocations

void CheckedHost::note_allocation(std::optional<PageId> first, const dsm::Allocation& allocation) {
  if (!first) return;
  std::array<std::uintptr_t, 12> calls{};
  const std::size_t depth = dsm::calls_to_here(calls);
  detector_->allocated(*first, allocation.bytes, {calls.data(), depth});
}

std::optional<PageId> CheckedHost::allocate_together(const dsm::Allocation& allocation) {
  const std::optional<PageId> first = shell_->allocate_together(allocation);
  if (shape().cluster == 0) note_allocation(first, allocation);
  return first;
}

std::optional<PageId> CheckedHost::allocate_alone(unsigned local, const dsm::Allocation& allocation) {
  const std::optional<PageId> first = shell_->allocate_alone(local, allocation);
  note_allocation(first, allocation);
  return first;
}

void CheckedHost::begin_again(std::uintptr_t address, std::size_t bytes) {
  detector_->begin_again(address, bytes);
}

// ---------------------------------------------------------------- what orders accesses

CheckedHost::Step CheckedHost::step(Action action, Thing thing, unsigned id) {
  const auto find = [](void* detector, std::span<const std::uintptr_t> calls) {
    return static_cast<RaceDetector*>(detector)->place_of(calls);
  };
  return {.action = action, .thing = thing, .id = id, .place = call_places_.here(find, detector_.get())};
}

// The initial thread's own steps have no names: what it does as a compute node tells of the same calls.
std::function<void(dsm::Node&)> CheckedHost::part_of_parallel(std::function<void(dsm::Node&)> body,
                                                              unsigned use) {
  const Step began = step(Action::kBegan, Thing::kParallel);
  return [this, use, began, run = std::move(body)](dsm::Node& node) {
    const unsigned id = node_id(node.local());
    detector_->acquire(id, Object::kParallelBegin, use, &began);
    run(node);
    Step ended = began;
    ended.action = Action::kEnded;
    detector_->release(id, Object::kParallelEnd, use, &ended);
  };
}

void CheckedHost::parallel(const std::function<void(dsm::Node&)>& body) {
  const unsigned initial = node_id(0);
  const unsigned use = collective_calls_++ % 2;
  detector_->release(initial, Object::kParallelBegin, use);
  in_parallel_ = true;
  shell_->parallel(part_of_parallel(body, use));
  in_parallel_ = false;
  detector_->acquire(initial, Object::kParallelEnd, use);
}

void CheckedHost::begin_parallel(std::function<void(dsm::Node&)> body) {
  const unsigned initial = node_id(0);
  const unsigned use = open_use_ = collective_calls_++ % 2;
  detector_->release(initial, Object::kParallelBegin, use);
  in_parallel_ = true;
  shell_->begin_parallel(part_of_parallel(std::move(body), use));
  const Step began = step(Action::kBegan, Thing::kParallel);
  detector_->acquire(initial, Object::kParallelBegin, use, &began);
}

void CheckedHost::end_parallel() {
  const unsigned initial = node_id(0);
  const Step ended = step(Action::kEnded, Thing::kParallel);
  detector_->release(initial, Object::kParallelEnd, open_use_, &ended);
  shell_->end_parallel();
  in_parallel_ = false;
  detector_->acquire(initial, Object::kParallelEnd, open_use_);
}

void CheckedHost::run_on_cluster(const std::function<void(unsigned)>& body) {
  const unsigned initial = node_id(0);
  const unsigned cluster = shape().cluster;
  const Step began = step(Action::kBegan, Thing::kRunOnCluster);
  detector_->release(initial, Object::kCluster, cluster);
  in_parallel_ = true;
  shell_->run_on_cluster([&](unsigned local) {
    detector_->acquire(node_id(local), Object::kCluster, cluster, &began);
    body(local);
    Step ended = began;
    ended.action = Action::kEnded;
    detector_->release(node_id(local), Object::kCluster, cluster, &ended);
  });
  in_parallel_ = false;
  detector_->acquire(initial, Object::kCluster, cluster);
}

void CheckedHost::barrier_of_clusters() {
  const unsigned use = collective_calls_++ % 2;
  const Step passed = step(Action::kPassed, Thing::kClusters);
  detector_->release(node_id(0), Object::kParallelBegin, use, &passed);
  shell_->barrier_of_clusters();
  detector_->acquire(node_id(0), Object::kParallelBegin, use);
}

void CheckedHost::finish() {
  shell_->finish();
  the_host = nullptr;
}

void CheckedHost::lock(unsigned local, dsm::LockId lock) {
  shell_->lock(local, lock);
  const Step locked = step(Action::kLocked, Thing::kLock, lock.value());
  detector_->acquire(node_id(local), Object::kLock, lock.value(), &locked);
}

void CheckedHost::unlock(unsigned local, dsm::LockId lock) {
  const Step unlocked = step(Action::kUnlocked, Thing::kLock, lock.value());
  detector_->release(node_id(local), Object::kLock, lock.value(), &unlocked);
  shell_->unlock(local, lock);
}

bool CheckedHost::try_lock(unsigned local, dsm::LockId lock) {
  const bool has = shell_->try_lock(local, lock);
  if (!has) return false;
  const Step locked = step(Action::kLocked, Thing::kLock, lock.value());
  detector_->acquire(node_id(local), Object::kLock, lock.value(), &locked);
  return true;
}

dsm::Reduced CheckedHost::barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                                  std::uint64_t value) {
  const unsigned id = barrier.value();
  const Object object = barriers_[local][id]++ % 2 == 0 ? Object::kEvenBarrier : Object::kOddBarrier;
  const Step passed = step(Action::kPassed, Thing::kBarrier, id);
  detector_->release(node_id(local), object, id, &passed);
  const dsm::Reduced reduced = shell_->barrier(local, barrier, reduction, value);
  detector_->acquire(node_id(local), object, id);
  return reduced;
}

namespace {

using Object = RaceDetector::Object;
using Action = RaceDetector::Action;
using Thing = RaceDetector::Thing;

// What a call orders. Every release before an acquire in the same word, flag, semaphore or barrier of some nodes is taken
// to be seen by it.
struct Order {
  Object object = Object::kWord;
  bool releases = false;
  bool acquires = false;
  Action action = Action::kNone;
  Thing thing = Thing::kWord;
};

Order order_of(const dsm::SyncCall& call) {
  switch (call.op) {
    case dsm::SyncOp::kWordLoad:
      return {Object::kWord, false, true, Action::kRead, Thing::kWord};
    case dsm::SyncOp::kWordStore:
      return {Object::kWord, call.releases, false, Action::kWrote, Thing::kWord};
    case dsm::SyncOp::kWordExchange:
    case dsm::SyncOp::kWordAdd:
    case dsm::SyncOp::kWordCompareExchange:
      return {Object::kWord, call.releases, call.releases, Action::kChanged, Thing::kWord};
    case dsm::SyncOp::kFlagSet:
      return {Object::kFlag, true, false, Action::kSet, Thing::kFlag};
    case dsm::SyncOp::kFlagWait:
      return {Object::kFlag, false, true, Action::kWaitedFor, Thing::kFlag};
    case dsm::SyncOp::kSemaphorePost:
      return {Object::kSemaphore, true, false, Action::kPosted, Thing::kSemaphore};
    case dsm::SyncOp::kSemaphoreSet:
      return {Object::kSemaphore, true, false, Action::kSet, Thing::kSemaphore};
    case dsm::SyncOp::kSemaphoreWait:
      return {Object::kSemaphore, false, true, Action::kWaitedFor, Thing::kSemaphore};
    case dsm::SyncOp::kSemaphoreTry:
      return {Object::kSemaphore, false, true, Action::kTookOneOf, Thing::kSemaphore};
    case dsm::SyncOp::kGather:
      return {Object::kGathering, true, true, Action::kPassed, Thing::kGathering};
    case dsm::SyncOp::kConditionWait:  // it frees the lock, and has it again
      return {Object::kLock, true, true, Action::kWaitedFor, Thing::kCondition};
    case dsm::SyncOp::kFlagClear:
    case dsm::SyncOp::kConditionSignal:
    case dsm::SyncOp::kConditionBroadcast:
      return {};
  }
  return {};
}

}  // namespace

std::uint64_t CheckedHost::sync(unsigned local, const dsm::SyncCall& call) {
  const unsigned node = node_id(local);
  const Order order = order_of(call);
  if (!order.releases && !order.acquires) return shell_->sync(local, call);
  const unsigned id = order.object == Object::kLock ? call.lock.value() : call.id;
  const Step done = step(order.action, order.thing, call.id);
  if (order.releases) detector_->release(node, order.object, id, &done);
  const std::uint64_t result = shell_->sync(local, call);
  if (call.op == dsm::SyncOp::kSemaphoreTry && result == 0) return result;
  if (order.acquires) detector_->acquire(node, order.object, id, order.releases ? nullptr : &done);
  return result;
}

}  // namespace braid::sim
