// Atomic operations of programs. They are compiled as calls (-fno-inline-atomics), which are carried out as they stand while
// the program has one cluster, and under a guard of the address with several: so they are in one order, and acquire and
// release, whatever order the program asks for.
//
// A volatile write is carried out under the guard too: an atomic operation that has read the former value and comes to write
// would undo it otherwise. A volatile read stays what it is. A thread passes the guard of the address behind a read of something
// new, so that it sees what the writer wrote before; and now and then, so that it comes to see something new. The calls are
// inserted by compiler_plugin.cpp (docs/decisions/0043).
#include <string.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "dsm/program/heap.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
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
  // Both halves of a pair of words that are read together have one guard.
  const auto line = reinterpret_cast<std::uintptr_t>(object) / 16 * 16;
  return kFirstAtomicGuard + mixed(reinterpret_cast<const void*>(line)) % kAtomicGuards;
}

// What a thread has seen in volatile variables, as far as there is room; addresses that share a place only forget each other.
// A handler of a signal may come between any two steps.
class Seen {
 public:
  // Whether this is something else than what was seen there last.
  bool is_new(const volatile void* object, std::uint64_t value) {
    Place& place = place_of(object);
    if (place.object == object && place.value == value) return false;
    place.object = nullptr;
    place.value = value;
    place.object = object;
    return true;
  }
  void forget(const volatile void* object) { place_of(object).object = nullptr; }
  // Whether it is time to look for something new: about each 64th call, in no rhythm that a loop of the program could share.
  bool looks() {
    if (reads_left_-- > 0) return false;
    rhythm_ = rhythm_ * 1'664'525 + 1'013'904'223;
    reads_left_ = kFewestReads + (rhythm_ >> 26);
    return true;
  }

 private:
  struct Place {
    const volatile void* volatile object;
    volatile std::uint64_t value;
  };
  static constexpr unsigned kPlaces = 32;
  static constexpr unsigned kFewestReads = 32;  // and up to 63 more

  Place& place_of(const volatile void* object) {
    return places_[mixed(const_cast<const void*>(object)) % kPlaces];
  }

  std::array<Place, kPlaces> places_{};
  unsigned reads_left_ = kFewestReads;
  std::uint32_t rhythm_ = 0;
};
constinit thread_local Seen seen __attribute__((tls_model("initial-exec"))){};

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

template <class Integer>
Integer load(const volatile Integer* object) {
  if (!needs_guard(object)) return __atomic_load_n(object, __ATOMIC_SEQ_CST);
  return on_private([=] {
    const Guard guard(atomic_guard_of(object));
    return Integer{*object};
  });
}
template <class Integer>
void store(volatile Integer* object, Integer value) {
  if (!needs_guard(object)) return __atomic_store_n(object, value, __ATOMIC_SEQ_CST);
  put(object, value);
}
template <class Integer>
Integer exchange(volatile Integer* object, Integer value) {
  if (!needs_guard(object)) return __atomic_exchange_n(object, value, __ATOMIC_SEQ_CST);
  return update(object, [=](Integer) { return value; });
}
template <class Integer>
bool compare_exchange(volatile Integer* object, Integer* expected, Integer desired) {
  if (!needs_guard(object))
    return __atomic_compare_exchange_n(object, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  const Integer wanted = *expected;
  const Integer before = update(object, [=](Integer was) { return was == wanted ? desired : was; });
  if (before == wanted) return true;
  *expected = before;
  return false;
}

// What was written before is there for those who do so afterwards.
void pass_guard(const volatile void* object) {
  if (!needs_guard(object)) return;
  on_private([=] { const Guard guard(atomic_guard_of(object)); });
}

template <class Integer>
void write(volatile Integer* object, std::uint64_t value) {
  if (needs_guard(object))
    put(object, static_cast<Integer>(value));
  else
    *object = static_cast<Integer>(value);
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

#define BRAID_FETCH(type, size, name, change)                                                     \
  type braid_fetch_##name##_##size(volatile type* object, type operand, int)                      \
      BRAID_NAMED("__atomic_fetch_" #name "_" #size);                                             \
  type braid_fetch_##name##_##size(volatile type* object, type operand, int) {                    \
    if (!p::needs_guard(object)) return __atomic_fetch_##name(object, operand, __ATOMIC_SEQ_CST); \
    return p::update(object, [=](type was) { return static_cast<type>(change); });                \
  }                                                                                               \
  type braid_##name##_fetch_##size(volatile type* object, type operand, int)                      \
      BRAID_NAMED("__atomic_" #name "_fetch_" #size);                                             \
  type braid_##name##_fetch_##size(volatile type* object, type operand, int order) {              \
    const type was = braid_fetch_##name##_##size(object, operand, order);                         \
    return static_cast<type>(change);                                                             \
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
  const bool is_new = p::seen.is_new(object, value);
  if (p::seen.looks() || is_new) p::pass_guard(object);
}
// Instead of a write of a number.
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept;
void braid_volatile_write(volatile void* object, unsigned bytes, std::uint64_t value) noexcept {
  switch (bytes) {
    case 1:
      return p::write(static_cast<volatile std::uint8_t*>(object), value);
    case 2:
      return p::write(static_cast<volatile std::uint16_t*>(object), value);
    case 4:
      return p::write(static_cast<volatile std::uint32_t*>(object), value);
    default:
      return p::write(static_cast<volatile std::uint64_t*>(object), value);
  }
}
// On each side of any other access.
void braid_volatile_pass(const volatile void* object) noexcept;
void braid_volatile_pass(const volatile void* object) noexcept {
  p::pass_guard(object);
}

BRAID_ATOMICS(std::uint8_t, 1)
BRAID_ATOMICS(std::uint16_t, 2)
BRAID_ATOMICS(std::uint32_t, 4)
BRAID_ATOMICS(std::uint64_t, 8)

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
