// Volatile variables in shared memory, which processes wait for. The compiler inserts these calls
// (dsm/pthreads/compiler_plugin.cpp, docs/decisions/0043).
#include <cstdint>

#include "dsm/api.h"
#include "dsm/parmacs/machine.h"
#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/volatile_accesses.h"

namespace braid::dsm::parmacs {

namespace {

constinit thread_local SeenValues seen __attribute__((tls_model("initial-exec"))){};

// The caller, if others may see the object in other clusters; -1: it is alone with it, or no process of the program.
int process_with(const volatile void* object) {
  const Host* const host = started() && !is_forked_child() ? current_host() : nullptr;
  if (host == nullptr || !in_heap(reinterpret_cast<std::uintptr_t>(object), host->shape().heap_pages))
    return -1;
  const int local = host->current_node();
  if (local < 0 || host->shape().clusters > 1) return local;
  // In simulation processes of one cluster run ahead of each other.
  joined_host("a volatile access").keep_order();
  return -1;
}

unsigned lock_of(const volatile void* object) {
  return kFirstVolatileLock + volatile_guard_of(object, kVolatileLocks);
}

void pass_lock(int local, const volatile void* object) {
  Node node(static_cast<unsigned>(local));
  node.lock(lock_of(object));
  node.unlock(lock_of(object));
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm::parmacs;  // NOLINT

extern "C" {

// Behind a read of a number, with what was read.
void braid_volatile_read(const volatile void* object, std::uint64_t value) noexcept;
void braid_volatile_read(const volatile void* object, std::uint64_t value) noexcept {
  if (const int local = process_with(object); local >= 0 && seen.passes_lock(object, value))
    pass_lock(local, object);
}
// Instead of a write of a number.
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept;
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept {
  const auto write = [](auto* number, auto is) { *number = is; };
  const int local = process_with(object);
  if (local < 0) return braid::dsm::write_volatile(object, bytes, value, write);
  seen.forget(object);
  braid::dsm::Node node(static_cast<unsigned>(local));
  const braid::dsm::LockGuard guard(node, lock_of(object));
  braid::dsm::write_volatile(object, bytes, value, write);
}
// On each side of any other access.
void braid_volatile_pass(const volatile void* object) noexcept;
void braid_volatile_pass(const volatile void* object) noexcept {
  if (const int local = process_with(object); local >= 0) pass_lock(local, object);
}

}  // extern "C"
