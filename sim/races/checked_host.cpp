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

void CheckedHost::parallel(const std::function<void(dsm::Node&)>& body) {
  const unsigned initial = node_id(0);
  const unsigned use = collective_calls_++ % 2;
  detector_->release(initial, Object::kParallelBegin, use);
  in_parallel_ = true;
  shell_->parallel([&](dsm::Node& node) {
    const unsigned id = node_id(node.local());
    detector_->acquire(id, Object::kParallelBegin, use);
    body(node);
    detector_->release(id, Object::kParallelEnd, use);
  });
  in_parallel_ = false;
  detector_->acquire(initial, Object::kParallelEnd, use);
}

void CheckedHost::begin_parallel(std::function<void(dsm::Node&)> body) {
  const unsigned initial = node_id(0);
  const unsigned use = open_use_ = collective_calls_++ % 2;
  detector_->release(initial, Object::kParallelBegin, use);
  in_parallel_ = true;
  shell_->begin_parallel([this, use, run = std::move(body)](dsm::Node& node) {
    const unsigned id = node_id(node.local());
    detector_->acquire(id, Object::kParallelBegin, use);
    run(node);
    detector_->release(id, Object::kParallelEnd, use);
  });
  detector_->acquire(initial, Object::kParallelBegin, use);
}

void CheckedHost::end_parallel() {
  const unsigned initial = node_id(0);
  detector_->release(initial, Object::kParallelEnd, open_use_);
  shell_->end_parallel();
  in_parallel_ = false;
  detector_->acquire(initial, Object::kParallelEnd, open_use_);
}

void CheckedHost::run_on_cluster(const std::function<void(unsigned)>& body) {
  const unsigned initial = node_id(0);
  const unsigned cluster = shape().cluster;
  detector_->release(initial, Object::kCluster, cluster);
  in_parallel_ = true;
  shell_->run_on_cluster([&](unsigned local) {
    detector_->acquire(node_id(local), Object::kCluster, cluster);
    body(local);
    detector_->release(node_id(local), Object::kCluster, cluster);
  });
  in_parallel_ = false;
  detector_->acquire(initial, Object::kCluster, cluster);
}

void CheckedHost::barrier_of_clusters() {
  const unsigned use = collective_calls_++ % 2;
  detector_->release(node_id(0), Object::kParallelBegin, use);
  shell_->barrier_of_clusters();
  detector_->acquire(node_id(0), Object::kParallelBegin, use);
}

void CheckedHost::finish() {
  shell_->finish();
  the_host = nullptr;
}

void CheckedHost::lock(unsigned local, dsm::LockId lock) {
  shell_->lock(local, lock);
  detector_->acquire(node_id(local), Object::kLock, lock.value());
}

void CheckedHost::unlock(unsigned local, dsm::LockId lock) {
  detector_->release(node_id(local), Object::kLock, lock.value());
  shell_->unlock(local, lock);
}

bool CheckedHost::try_lock(unsigned local, dsm::LockId lock) {
  const bool has = shell_->try_lock(local, lock);
  if (has) detector_->acquire(node_id(local), Object::kLock, lock.value());
  return has;
}

dsm::Reduced CheckedHost::barrier(unsigned local, dsm::BarrierId barrier, dsm::Reduction reduction,
                                  std::uint64_t value) {
  const unsigned id = barrier.value();
  const Object object = barriers_[local][id]++ % 2 == 0 ? Object::kEvenBarrier : Object::kOddBarrier;
  detector_->release(node_id(local), object, id);
  const dsm::Reduced reduced = shell_->barrier(local, barrier, reduction, value);
  detector_->acquire(node_id(local), object, id);
  return reduced;
}

// Every release before an acquire in the same word, flag, semaphore or barrier of some nodes is taken to be seen by it.
std::uint64_t CheckedHost::sync(unsigned local, const dsm::SyncCall& call) {
  const unsigned node = node_id(local);
  Object object = Object::kWord;
  unsigned id = call.id;
  bool releases = false;
  bool acquires = false;
  switch (call.op) {
    case dsm::SyncOp::kWordLoad:
      acquires = true;
      break;
    case dsm::SyncOp::kWordStore:
      releases = call.releases;
      break;
    case dsm::SyncOp::kWordExchange:
    case dsm::SyncOp::kWordAdd:
    case dsm::SyncOp::kWordCompareExchange:
      releases = acquires = call.releases;
      break;
    case dsm::SyncOp::kFlagSet:
    case dsm::SyncOp::kFlagWait:
      object = Object::kFlag;
      releases = call.op == dsm::SyncOp::kFlagSet;
      acquires = !releases;
      break;
    case dsm::SyncOp::kSemaphorePost:
    case dsm::SyncOp::kSemaphoreSet:
    case dsm::SyncOp::kSemaphoreWait:
    case dsm::SyncOp::kSemaphoreTry:
      object = Object::kSemaphore;
      acquires = call.op == dsm::SyncOp::kSemaphoreWait || call.op == dsm::SyncOp::kSemaphoreTry;
      releases = !acquires;
      break;
    case dsm::SyncOp::kGather:
      object = Object::kGathering;
      releases = acquires = true;
      break;
    case dsm::SyncOp::kConditionWait:  // it frees the lock, and has it again
      object = Object::kLock;
      id = call.lock.value();
      releases = acquires = true;
      break;
    case dsm::SyncOp::kFlagClear:
    case dsm::SyncOp::kConditionSignal:
    case dsm::SyncOp::kConditionBroadcast:
      break;
  }
  if (releases) detector_->release(node, object, id);
  const std::uint64_t result = shell_->sync(local, call);
  if (call.op == dsm::SyncOp::kSemaphoreTry && result == 0) acquires = false;
  if (acquires) detector_->acquire(node, object, id);
  return result;
}

}  // namespace braid::sim
