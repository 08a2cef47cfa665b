// LOCK and condition variables. The first locks of a program are locks of the machine. Each further one is a byte of shared
// memory, and a lock of the machine that it shares with others guards the byte, but only while it changes: a process that
// finds its lock taken waits at a condition of the machine. So locks may be nested in any order, as far as the program's
// own order has no cycle.
#include <atomic>
#include <cstdint>

#include "dsm/parmacs/machine.h"
#include "dsm/parmacs/parmacs.h"
#include "dsm/program/failure.h"

namespace braid::dsm::parmacs {

namespace {

// A byte of a lock. `kAwaited`: somebody may wait for it.
enum Held : unsigned char { kFree, kHeld, kAwaited };

// Null: no lock has a byte yet, or this cluster has not used one. Of the time before the start every cluster has a copy.
std::atomic<unsigned char*> the_bytes{nullptr};

unsigned char* find_bytes(Node& node) {
  unsigned char* bytes = the_bytes.load(std::memory_order_acquire);
  if (bytes == nullptr) {
    bytes = reinterpret_cast<unsigned char*>(node.load(kLockBytesWord));
    the_bytes.store(bytes, std::memory_order_release);
  }
  return bytes;
}

void make_bytes() {
  constexpr std::size_t kBytes = kMaxLocks - kOwnLocks;
  if (!started()) {
    if (the_bytes.load() == nullptr) the_bytes = static_cast<unsigned char*>(early_heap().allocate(kBytes));
    return;
  }
  Node node = calling_process();
  if (find_bytes(node) != nullptr) return;
  const LockGuard guard(node, kOwnLocks);
  if (find_bytes(node) == nullptr)
    node.store(kLockBytesWord, reinterpret_cast<std::int64_t>(braid_parmacs_allocate(kBytes)));
}

// A lock with a byte, while the lock that guards the byte is held.
class SharedLock {
 public:
  explicit SharedLock(unsigned index)
      : node_(calling_process()), stripe_(index % kLockStripes), byte_(byte_of(node_, index)) {
    node_.lock(guard());
  }
  ~SharedLock() { node_.unlock(guard()); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

  void acquire() {
    Held mine = kHeld;
    for (; byte_ != kFree; mine = kAwaited) {
      byte_ = kAwaited;
      node_.condition_wait(kOwnConditions + stripe_, guard());
    }
    // After a wait others may still be waiting.
    byte_ = mine;
  }
  void release(const char* name) {
    const unsigned char was = byte_;
    if (was == kFree) fail("{} was used on a lock that nobody has", name);
    byte_ = kFree;
    if (was == kAwaited) node_.condition_broadcast(kOwnConditions + stripe_);
  }
  // With the guard as the lock: a signal of a process that has got this lock since comes after the wait has begun.
  void wait(unsigned condition) { node_.condition_wait(condition, guard()); }

 private:
  static unsigned char& byte_of(Node& node, unsigned index) {
    unsigned char* const bytes = find_bytes(node);
    if (bytes == nullptr) fail("a lock was used that was not initialised");
    return bytes[index - kOwnLocks];
  }
  unsigned guard() const { return kOwnLocks + stripe_; }

  Node node_;
  const unsigned stripe_;
  unsigned char& byte_;
};

// Of an object that was initialised at this address; whatever else stands there most probably differs.
unsigned stamp_of(const braid_parmacs_lock& lock) {
  const auto address = reinterpret_cast<std::uintptr_t>(&lock);
  return static_cast<unsigned>(((address ^ (std::uint64_t{lock.number} << 40)) * 0x9e37'79b9'7f4a'7c15u) >>
                               32);
}

void init(braid_parmacs_lock* lock, const char* name) {
  if (lock->number != 0 && lock->number <= kMaxLocks && lock->stamp == stamp_of(*lock)) return;
  lock->number = take_number(Object::kLock, name);
  lock->stamp = stamp_of(*lock);
  if (lock->number > kOwnLocks) make_bytes();
}

unsigned index_of(const braid_parmacs_lock* lock, const char* name) {
  return parmacs::index_of(lock->number, Object::kLock, name);
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm;           // NOLINT
using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

void braid_parmacs_lock_init(braid_parmacs_lock* lock) {
  init(lock, "LOCKINIT");
}
void braid_parmacs_lock_inits(braid_parmacs_lock* locks, long count) {
  for (long i = 0; i < count; ++i) init(&locks[i], "ALOCKINIT");
}
void braid_parmacs_lock_acquire(const braid_parmacs_lock* lock) {
  const unsigned index = index_of(lock, "LOCK");
  if (!started()) return;
  if (index < kOwnLocks) return calling_process().lock(index);
  SharedLock(index).acquire();
}
void braid_parmacs_lock_release(const braid_parmacs_lock* lock) {
  const unsigned index = index_of(lock, "UNLOCK");
  if (!started()) return;
  if (index < kOwnLocks) return calling_process().unlock(index);
  SharedLock(index).release("UNLOCK");
}

void braid_parmacs_condition_init(braid_parmacs_condition* condition) {
  condition->number = take_number(Object::kCondition, "CONDVARINIT");
}
void braid_parmacs_condition_wait(const braid_parmacs_condition* condition, const braid_parmacs_lock* lock) {
  const unsigned awaited = parmacs::index_of(condition->number, Object::kCondition, "CONDVARWAIT");
  const unsigned index = index_of(lock, "CONDVARWAIT");
  if (!started()) fail("CONDVARWAIT waits for ever: no process was created yet that could end the wait");
  if (index < kOwnLocks) return calling_process().condition_wait(awaited, index);
  SharedLock shared(index);
  shared.release("CONDVARWAIT");
  shared.wait(awaited);
  shared.acquire();
}
void braid_parmacs_condition_signal(const braid_parmacs_condition* condition) {
  const unsigned index = parmacs::index_of(condition->number, Object::kCondition, "CONDVARSIGNAL");
  if (started()) calling_process().condition_signal(index);
}
void braid_parmacs_condition_broadcast(const braid_parmacs_condition* condition) {
  const unsigned index = parmacs::index_of(condition->number, Object::kCondition, "CONDVARBCAST");
  if (started()) calling_process().condition_broadcast(index);
}

}  // extern "C"
