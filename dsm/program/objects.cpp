// The calls of dsm/api.h on locks, conditions, flags, semaphores and barriers that are named by addresses.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/object_ids.h"

namespace braid::dsm {

std::uint32_t object_id(const char* call, const void* address, std::uint32_t numbered,
                        std::uint32_t heap_pages) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (!in_heap(at, heap_pages)) {
    fail(
        "{} was called with address {:#x}, which is not in shared memory: name objects by addresses of allocate() or "
        "shared_malloc()",
        call, at);
  }
  if (at % kAddressBytes != 0)
    fail("{} was called with address {:#x}: addresses of objects are multiples of {}", call, at,
         kAddressBytes);
  const std::uint32_t first_of_globals = first_place_of_globals(heap_pages);
  if (in_globals(at))
    return numbered + first_of_globals +
           static_cast<std::uint32_t>((at - globals_window().address) / kAddressBytes);
  const std::uint64_t place = (at - kHeapAddress) / kAddressBytes;
  if (place >= first_of_globals) {
    fail(
        "{} was called with address {:#x}: only the first {} MiB of shared memory have objects; allocate their "
        "addresses earlier",
        call, at, (std::uint64_t{first_of_globals} * kAddressBytes) >> 20);
  }
  return numbered + static_cast<std::uint32_t>(place);
}

namespace {

std::uint32_t addresses_of_globals() {
  return addresses_of(globals_window().pages, page_length());
}

}  // namespace

std::uint32_t first_place_of_globals(std::uint32_t heap_pages) {
  return addresses_of(heap_pages, page_length()) - addresses_of_globals();
}

bool can_name_object(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at % kAddressBytes != 0) return false;
  return in_globals(at) || (at - kHeapAddress) / kAddressBytes < kMostAddresses - addresses_of_globals();
}

std::uintptr_t address_of_object(std::uint32_t id, std::uint32_t numbered) {
  if (id < numbered) return 0;
  const std::uint32_t place = id - numbered;
  const Host* const host = current_host();
  const std::uint32_t first_of_globals =
      host != nullptr ? first_place_of_globals(host->shape().heap_pages) : ~std::uint32_t{0};
  return place < first_of_globals
             ? kHeapAddress + std::uintptr_t{place} * kAddressBytes
             : globals_window().address + std::uintptr_t{place - first_of_globals} * kAddressBytes;
}

namespace {

// The first ones are the machine's (host.h).
constinit std::array<OwnLocks, 8> all_own_locks = {
    {{kOwnLock.value(), 1, "the memory of shared_malloc()", "allocate larger blocks, or the same ones again"},
     {kGuardLock.value(), 1, "initialisers of function-local statics",
      "call these functions once before the compute nodes work"}}};

}  // namespace

void name_own_locks(const OwnLocks& own) {
  const auto unused = std::find_if(all_own_locks.begin(), all_own_locks.end(),
                                   [](const OwnLocks& locks) { return locks.count == 0; });
  CHECK(unused != all_own_locks.end());
  *unused = own;
}

const OwnLocks* own_locks(LockId lock) {
  for (const OwnLocks& own : all_own_locks) {
    if (lock.value() - own.first < own.count) return &own;
  }
  return nullptr;
}

std::uintptr_t address_of_lock(LockId lock) {
  return address_of_object(lock.value(), kNumberedLocks);
}

std::string name_of_object(const char* kind, std::uint32_t id, std::uint32_t numbered) {
  if (id < numbered) return fmt::format("{} {}", kind, id);
  return fmt::format("the {} at {:#x}", kind, address_of_object(id, numbered));
}

std::string name_of_lock(LockId lock) {
  if (const OwnLocks* const own = own_locks(lock)) return fmt::format("the runtime's lock of {}", own->what);
  return name_of_object("lock", lock.value(), kNumberedLocks);
}
std::string name_of_condition(std::uint32_t condition) {
  return name_of_object("condition", condition, kConditions);
}

namespace {

class Call {
 public:
  Call(const char* name, unsigned local) : name_(name), local_(local), host_(joined_host(name)) {}

  LockId lock(const void* address) const { return LockId(id(address, kNumberedLocks)); }
  std::uint64_t sync(SyncOp op, const void* address, std::uint32_t numbered, std::uint64_t first = 0,
                     bool releases = false) const {
    return host_.sync(local_, {.op = op, .id = id(address, numbered), .first = first, .releases = releases});
  }
  std::uint32_t id(const void* address, std::uint32_t numbered) const {
    return object_id(name_, address, numbered, host_.shape().heap_pages);
  }
  Host& host() const { return host_; }

 private:
  const char* const name_;
  const unsigned local_;
  Host& host_;
};

}  // namespace

void Node::lock_at(const void* lock) {
  const Call call("lock_at()", local_);
  call.host().lock(local_, call.lock(lock));
}
bool Node::try_lock_at(const void* lock) {
  const Call call("try_lock_at()", local_);
  return call.host().try_lock(local_, call.lock(lock));
}
void Node::unlock_at(const void* lock) {
  const Call call("unlock_at()", local_);
  call.host().unlock(local_, call.lock(lock));
}

void Node::condition_wait_at(const void* condition, const void* lock) {
  const Call call("condition_wait_at()", local_);
  (void)call.host().sync(
      local_, {.op = SyncOp::kConditionWait, .id = call.id(condition, kConditions), .lock = call.lock(lock)});
}
void Node::condition_signal_at(const void* condition) {
  (void)Call("condition_signal_at()", local_).sync(SyncOp::kConditionSignal, condition, kConditions);
}
void Node::condition_broadcast_at(const void* condition) {
  (void)Call("condition_broadcast_at()", local_).sync(SyncOp::kConditionBroadcast, condition, kConditions);
}

void Node::barrier_at(const void* barrier, unsigned nodes) {
  const Call call("barrier_at()", local_);
  if (nodes == 0 || nodes > count())
    fail("barrier_at() was called for {} compute nodes: there are {}", nodes, count());
  if (call.sync(SyncOp::kGather, barrier, 0, nodes, true) != 0) {
    fail(
        "barrier_at() was called for {} compute nodes at {:#x}, where others wait for another number: all that come to a "
        "barrier name the same number",
        nodes, reinterpret_cast<std::uintptr_t>(barrier));
  }
}

void Node::flag_set_at(const void* flag) {
  (void)Call("flag_set_at()", local_).sync(SyncOp::kFlagSet, flag, kFlags, 0, true);
}
void Node::flag_wait_at(const void* flag) {
  (void)Call("flag_wait_at()", local_).sync(SyncOp::kFlagWait, flag, kFlags);
}
void Node::flag_clear_at(const void* flag) {
  (void)Call("flag_clear_at()", local_).sync(SyncOp::kFlagClear, flag, kFlags);
}

void Node::semaphore_set_at(const void* semaphore, std::uint32_t value) {
  (void)Call("semaphore_set_at()", local_).sync(SyncOp::kSemaphoreSet, semaphore, kSemaphores, value, true);
}
void Node::semaphore_post_at(const void* semaphore, std::uint32_t count) {
  (void)Call("semaphore_post_at()", local_).sync(SyncOp::kSemaphorePost, semaphore, kSemaphores, count, true);
}
void Node::semaphore_wait_at(const void* semaphore) {
  (void)Call("semaphore_wait_at()", local_).sync(SyncOp::kSemaphoreWait, semaphore, kSemaphores);
}
bool Node::semaphore_try_at(const void* semaphore) {
  return Call("semaphore_try_at()", local_).sync(SyncOp::kSemaphoreTry, semaphore, kSemaphores) != 0;
}

}  // namespace braid::dsm
