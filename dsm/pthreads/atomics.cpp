// Atomic operations of programs. They are compiled as calls (-fno-inline-atomics), which are carried out as they stand while
// the program has one cluster, and under a guard of the address with several: so they are in one order, and acquire and
// release, whatever order the program asks for.
//
// A volatile write is carried out under the guard too: an atomic operation that has read the former value and comes to write
// would undo it otherwise. A volatile read stays what it is. A thread passes the guard of the address behind a read of something
// new, so that it sees what the writer wrote before; and now and then, so that it comes to see something new. The calls are
// inserted by compiler_plugin.cpp (docs/decisions/0043).
#include <string.h>

#include <cstddef>
#include <cstdint>

#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
#include "dsm/program/volatile_accesses.h"
#include "dsm/pthreads/machine.h"

namespace braid::dsm::pthreads {

namespace {

bool needs_guard(const volatile void* object) {
  // Of one cluster in simulation threads are run ahead of each other.
  const Host* const host = started() && !is_forked_child() ? current_host() : nullptr;
  if (!several_clusters()) {
    if (host != nullptr && !thread_host::starts_threads()) on_private(keep_order);
    return false;
  }
  return host != nullptr && in_heap(reinterpret_cast<std::uintptr_t>(object), host->shape().heap_pages);
}

unsigned atomic_guard_of(const volatile void* object) {
  return kFirstAtomicGuard + volatile_guard_of(object, kAtomicGuards);
}

constinit thread_local SeenValues seen __attribute__((tls_model("initial-exec"))){};

// Calls change(value), which returns the new value, with the object's; returns the former value.
template <class Integer, class Change>
Integer update(volatile Integer* object, Change change) {
  seen.forget(object);
  return on_private([=] {
    const Guard guard(atomic_guard_of(object));
    const Integer before = *object;
    *object = change(before);
    return before;
  });
}

template <class Integer>
void put(volatile Integer* object, Integer value) {
  seen.forget(object);
  on_private([=] {
    const Guard guard(atomic_guard_of(object));
    *object = value;
  });
}

// The compiler's own operations of 16 bytes are calls, also here, and so these themselves: such objects have the guard always.
template <class Integer>
constexpr bool kIsInstruction = sizeof(Integer) <= 8;

template <class Integer>
Integer load(const volatile Integer* object) {
  if constexpr (kIsInstruction<Integer>) {
    if (!needs_guard(object)) return __atomic_load_n(object, __ATOMIC_SEQ_CST);
  }
  return on_private([=] {
    const Guard guard(atomic_guard_of(object));
    return Integer{*object};
  });
}
template <class Integer>
void store(volatile Integer* object, Integer value) {
  if constexpr (kIsInstruction<Integer>) {
    if (!needs_guard(object)) return __atomic_store_n(object, value, __ATOMIC_SEQ_CST);
  }
  put(object, value);
}
template <class Integer>
Integer exchange(volatile Integer* object, Integer value) {
  if constexpr (kIsInstruction<Integer>) {
    if (!needs_guard(object)) return __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST);
  }
  return update(object, [=](Integer) { return value; });
}
template <class Integer>
bool compare_exchange(volatile Integer* object, Integer* expected, Integer desired) {
  if constexpr (kIsInstruction<Integer>) {
    if (!needs_guard(object))
      return __atomic_compare_exchange_n(object, expected, desired, false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST);
  }
  const Integer wanted = *expected;
  const Integer before = update(object, [=](Integer was) { return was == wanted ? desired : was; });
  if (before == wanted) return true;
  *expected = before;
  return false;
}

// Around an atomic instruction of inline assembly. A handler of a signal that came between the two calls could wait for the guard.
void begin_assembly(const volatile void* object) {
  if (!needs_guard(object)) return;
  seen.forget(object);
  on_private([=] {
    in_locked_assembly = 1;
    calling_node_of("pthread").lock(atomic_guard_of(object));
  });
}
void end_assembly(const volatile void* object) {
  if (in_locked_assembly == 0) return;
  on_private([=] {
    calling_node_of("pthread").unlock(atomic_guard_of(object));
    in_locked_assembly = 0;
  });
}

// What was written before is there for those who do so afterwards.
void pass_guard(const volatile void* object) {
  if (!needs_guard(object)) return;
  on_private([=] { const Guard guard(atomic_guard_of(object)); });
}

template <class Integer>
void write(volatile Integer* object, Integer value) {
  if (needs_guard(object))
    put(object, value);
  else
    *object = value;
}

// Objects of other sizes: structures.
void copy_under_guard(const volatile void* guarded, void* to, const void* from, std::size_t bytes) {
  on_private([=] {
    const Guard guard(atomic_guard_of(guarded));
    ::memcpy(to, from, bytes);
  });
}

}  // namespace

}  // namespace braid::dsm::pthreads

namespace p = braid::dsm::pthreads;

// The names are those that the compiler calls, of which it has declarations of its own.
#define BRAID_NAMED(name) __asm__(name)

#define BRAID_FETCH(type, size, name, change)                                                       \
  type braid_fetch_##name##_##size(volatile type* object, type operand, int)                        \
      BRAID_NAMED("__atomic_fetch_" #name "_" #size);                                               \
  type braid_fetch_##name##_##size(volatile type* object, type operand, int) {                      \
    if constexpr (p::kIsInstruction<type>) {                                                        \
      if (!p::needs_guard(object)) return __atomic_fetch_##name(object, operand, __ATOMIC_SEQ_CST); \
    }                                                                                               \
    return p::update(object, [=](type was) { return static_cast<type>(change); });                  \
  }                                                                                                 \
  type braid_##name##_fetch_##size(volatile type* object, type operand, int)                        \
      BRAID_NAMED("__atomic_" #name "_fetch_" #size);                                               \
  type braid_##name##_fetch_##size(volatile type* object, type operand, int order) {                \
    const type was = braid_fetch_##name##_##size(object, operand, order);                           \
    return static_cast<type>(change);                                                               \
  }

#define BRAID_ATOMICS(type, size)                                                                       \
  type braid_load_##size(const volatile type* object, int) BRAID_NAMED("__atomic_load_" #size);         \
  type braid_load_##size(const volatile type* object, int) {                                            \
    return p::load(object);                                                                             \
  }                                                                                                     \
  void braid_store_##size(volatile type* object, type value, int) BRAID_NAMED("__atomic_store_" #size); \
  void braid_store_##size(volatile type* object, type value, int) {                                     \
    p::store(object, value);                                                                            \
  }                                                                                                     \
  type braid_exchange_##size(volatile type* object, type value, int)                                    \
      BRAID_NAMED("__atomic_exchange_" #size);                                                          \
  type braid_exchange_##size(volatile type* object, type value, int) {                                  \
    return p::exchange(object, value);                                                                  \
  }                                                                                                     \
  bool braid_compare_exchange_##size(volatile type* object, type* expected, type desired, int, int)     \
      BRAID_NAMED("__atomic_compare_exchange_" #size);                                                  \
  bool braid_compare_exchange_##size(volatile type* object, type* expected, type desired, int, int) {   \
    return p::compare_exchange(object, expected, desired);                                              \
  }                                                                                                     \
  BRAID_FETCH(type, size, add, was + operand)                                                           \
  BRAID_FETCH(type, size, sub, was - operand)                                                           \
  BRAID_FETCH(type, size, and, was& operand)                                                            \
  BRAID_FETCH(type, size, or, was | operand)                                                            \
  BRAID_FETCH(type, size, xor, was ^ operand)                                                           \
  BRAID_FETCH(type, size, nand, ~(was & operand))

extern "C" {

// Behind a read of a number, with what was read.
void braid_volatile_read(const volatile void* object, std::uint64_t value) noexcept;
void braid_volatile_read(const volatile void* object, std::uint64_t value) noexcept {
  if (p::seen.passes_lock(object, value)) p::pass_guard(object);
}
// Instead of a write of a number.
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept;
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept {
  braid::dsm::write_volatile(object, bytes, value, [](auto* number, auto is) { p::write(number, is); });
}
// On each side of any other access.
void braid_volatile_pass(const volatile void* object) noexcept;
void braid_volatile_pass(const volatile void* object) noexcept {
  p::pass_guard(object);
}

// On each side of inline assembly with an atomic instruction.
void braid_assembly_begin(const volatile void* object) noexcept;
void braid_assembly_begin(const volatile void* object) noexcept {
  p::begin_assembly(object);
}
void braid_assembly_end(const volatile void* object) noexcept;
void braid_assembly_end(const volatile void* object) noexcept {
  p::end_assembly(object);
}

BRAID_ATOMICS(std::uint8_t, 1)
BRAID_ATOMICS(std::uint16_t, 2)
BRAID_ATOMICS(std::uint32_t, 4)
BRAID_ATOMICS(std::uint64_t, 8)
BRAID_ATOMICS(p::Uint128, 16)

void braid_load(std::size_t bytes, const volatile void* object, void* value, int)
    BRAID_NAMED("__atomic_load");
void braid_load(std::size_t bytes, const volatile void* object, void* value, int) {
  p::copy_under_guard(object, value, const_cast<const void*>(object), bytes);
}
void braid_store(std::size_t bytes, volatile void* object, const void* value, int)
    BRAID_NAMED("__atomic_store");
void braid_store(std::size_t bytes, volatile void* object, const void* value, int) {
  p::copy_under_guard(object, const_cast<void*>(object), value, bytes);
}
void braid_exchange(std::size_t bytes, volatile void* object, const void* value, void* before, int)
    BRAID_NAMED("__atomic_exchange");
void braid_exchange(std::size_t bytes, volatile void* object, const void* value, void* before, int) {
  p::on_private([=] {
    const p::Guard guard(p::atomic_guard_of(object));
    ::memcpy(before, const_cast<const void*>(object), bytes);
    ::memcpy(const_cast<void*>(object), value, bytes);
  });
}
bool braid_compare_exchange(std::size_t bytes, volatile void* object, void* expected, const void* desired,
                            int, int) BRAID_NAMED("__atomic_compare_exchange");
bool braid_compare_exchange(std::size_t bytes, volatile void* object, void* expected, const void* desired,
                            int, int) {
  return p::on_private([=] {
    const p::Guard guard(p::atomic_guard_of(object));
    const bool same = ::memcmp(const_cast<const void*>(object), expected, bytes) == 0;
    if (same)
      ::memcpy(const_cast<void*>(object), desired, bytes);
    else
      ::memcpy(expected, const_cast<const void*>(object), bytes);
    return same;
  });
}
bool braid_is_lock_free(std::size_t bytes, const volatile void*) BRAID_NAMED("__atomic_is_lock_free");
bool braid_is_lock_free(std::size_t bytes, const volatile void*) {
  return bytes <= 8;
}

}  // extern "C"
