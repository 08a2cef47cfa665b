// Function-local statics of a program whose globals are shared (`braid-cc --shared-globals`): one object for all clusters,
// which the first compute node that comes to it initialises. The compiler reads the object's guard before every use, and calls
// these functions (by the linker's --wrap) while it reads zero.
//
// A guard is private: a node that found another cluster's guard set, without having synchronised with it, could still have an
// old copy of the object. So each cluster calls once, takes the lock that the initialiser had, and asks the guard's shadow,
// which is shared. Guards that the compiler has put among other variables (without -fdata-sections) are their own shadows.
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/limits.h"
#include "dsm/program/failure.h"
#include "dsm/program/globals.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"

// Of the linker script (cmake/shared_globals.ld.in), without which nothing here is linked.
extern "C" {
extern std::byte braid_guards_begin[];
extern std::byte braid_guards_end[];
extern std::byte braid_guard_shadows[];

int __real___cxa_guard_acquire(std::uint64_t* guard);   // NOLINT
void __real___cxa_guard_release(std::uint64_t* guard);  // NOLINT
void __real___cxa_guard_abort(std::uint64_t* guard);    // NOLINT
}

namespace braid::dsm {

namespace {

// The bytes of a guard and of a shadow, which starts as zeros.
constexpr std::size_t kDone = 0;     // of the C++ ABI
constexpr std::size_t kStarted = 1;  // by the holder of the lock

// Initialisers that each compute node of the cluster is in: of one that comes to another object, both go on under the lock of the
// first. Not thread_local: in simulation the nodes share a thread.
std::array<unsigned, kMaxComputeNodes> depths{};

unsigned& depth_of(int local) {
  return depths[static_cast<unsigned>(local)];
}

// nullptr: the guard is not one of a shared object.
volatile std::uint8_t* shadow_of(const std::uint64_t* guard) {
  const auto at = reinterpret_cast<std::uintptr_t>(guard);
  const std::uintptr_t offset = at - reinterpret_cast<std::uintptr_t>(&braid_guards_begin[0]);
  const auto bytes = static_cast<std::uintptr_t>(&braid_guards_end[0] - &braid_guards_begin[0]);
  const std::uintptr_t shadow = offset < bytes
                                    ? reinterpret_cast<std::uintptr_t>(&braid_guard_shadows[0]) + offset
                                    : (in_globals(at) ? at : 0);
  return reinterpret_cast<volatile std::uint8_t*>(shadow);  // NOLINT
}

void set_done(std::uint64_t* guard) {
  __atomic_store_n(reinterpret_cast<std::uint8_t*>(guard), 1, __ATOMIC_RELEASE);
}

// The compute node of the calling thread; -1: it is none, or there is no machine.
int calling() {
  const Host* const host = is_forked_child() ? nullptr : current_host();
  return host == nullptr ? -1 : host->current_node();
}

void leave(int local, const char* call) {
  if (--depth_of(local) == 0) joined_host(call).unlock(static_cast<unsigned>(local), kGuardLock);
}

}  // namespace

}  // namespace braid::dsm

using namespace braid::dsm;  // NOLINT

extern "C" {

int __wrap___cxa_guard_acquire(std::uint64_t* guard) {  // NOLINT
  volatile std::uint8_t* const shadow = shadow_of(guard);
  const int local = shadow == nullptr ? -1 : calling();
  if (local < 0) {
    // After finish() the shadows are private memory, and tell what was initialised before.
    const bool has_machine = current_host() != nullptr;
    if (shadow == nullptr || has_machine || shadow[kDone] == 0) return __real___cxa_guard_acquire(guard);
    set_done(guard);
    return 0;
  }
  if (depth_of(local)++ == 0)
    joined_host("a function-local static").lock(static_cast<unsigned>(local), kGuardLock);
  if (shadow[kDone] != 0) {
    leave(local, "a function-local static");
    set_done(guard);
    return 0;
  }
  if (shadow[kStarted] != 0)
    fail("a function-local static variable is initialised by a function that comes to the same variable");
  shadow[kStarted] = 1;
  return 1;
}

void __wrap___cxa_guard_release(std::uint64_t* guard) {  // NOLINT
  volatile std::uint8_t* const shadow = shadow_of(guard);
  const int local = calling();
  if (local < 0 || depth_of(local) == 0 || shadow == nullptr) return __real___cxa_guard_release(guard);
  shadow[kStarted] = 0;
  shadow[kDone] = 1;
  leave(local, "a function-local static");
  set_done(guard);
}

void __wrap___cxa_guard_abort(std::uint64_t* guard) {  // NOLINT
  volatile std::uint8_t* const shadow = shadow_of(guard);
  const int local = calling();
  if (local < 0 || depth_of(local) == 0 || shadow == nullptr) return __real___cxa_guard_abort(guard);
  shadow[kStarted] = 0;
  leave(local, "a function-local static");
}

}  // extern "C"
