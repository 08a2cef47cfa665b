// The functions that the compiler's -fsanitize=thread calls before a program's accesses, and the C library's that move
// bytes, which the linker redirects here (--wrap). The thread sanitizer's own runtime is not linked.
#include <cstddef>
#include <cstdint>

#include "sim/races/checked_host.h"
#include "sim/shell/host_layer.h"

using braid::sim::AccessKind;

#define BRAID_ACCESS(memory, bytes, kind) \
  braid::sim::CheckedHost::access(memory, bytes, AccessKind::kind, __builtin_return_address(0))

// NOLINTBEGIN: the compiler's names and types.
extern "C" {

void __tsan_init() {
  braid::sim::host_layer = braid::sim::CheckedHost::around;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define BRAID_READ_AND_WRITE(prefix, bytes)     \
  void __tsan_##prefix##read##bytes(void* p) {  \
    BRAID_ACCESS(p, bytes, kRead);              \
  }                                             \
  void __tsan_##prefix##write##bytes(void* p) { \
    BRAID_ACCESS(p, bytes, kWrite);             \
  }
#define BRAID_SIZE(bytes)                 \
  BRAID_READ_AND_WRITE(, bytes)           \
  BRAID_READ_AND_WRITE(unaligned_, bytes) \
  BRAID_READ_AND_WRITE(volatile_, bytes)
BRAID_SIZE(1)
BRAID_SIZE(2)
BRAID_SIZE(4)
BRAID_SIZE(8)
BRAID_SIZE(16)
void __tsan_read_range(void* p, std::size_t bytes) {
  BRAID_ACCESS(p, bytes, kRead);
}
void __tsan_write_range(void* p, std::size_t bytes) {
  BRAID_ACCESS(p, bytes, kWrite);
}
void __tsan_vptr_update(void** p, void*) {
  BRAID_ACCESS(p, sizeof(void*), kWrite);
}
void __tsan_vptr_read(void** p) {
  BRAID_ACCESS(p, sizeof(void*), kRead);
}

// Atomic accesses, done as strongly as possible. They work between the compute nodes of one cluster only, so between
// clusters they are no synchronisation; the report says what they are.
#define BRAID_FETCH(type, bits, name)                                          \
  type __tsan_atomic##bits##_fetch_##name(volatile type* p, type value, int) { \
    BRAID_ACCESS(p, sizeof(type), kAtomic);                                    \
    return __atomic_fetch_##name(p, value, __ATOMIC_SEQ_CST);                  \
  }
#define BRAID_COMPARE(type, bits, name)                                                                   \
  bool __tsan_atomic##bits##_compare_exchange_##name(volatile type* p, type* expected, type desired, int, \
                                                     int) {                                               \
    BRAID_ACCESS(p, sizeof(type), kAtomic);                                                               \
    return __atomic_compare_exchange_n(p, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
  }
#define BRAID_ATOMIC(type, bits)                                           \
  type __tsan_atomic##bits##_load(const volatile type* p, int) {           \
    BRAID_ACCESS(p, sizeof(type), kAtomic);                                \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                           \
  }                                                                        \
  void __tsan_atomic##bits##_store(volatile type* p, type value, int) {    \
    BRAID_ACCESS(p, sizeof(type), kAtomic);                                \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                          \
  }                                                                        \
  type __tsan_atomic##bits##_exchange(volatile type* p, type value, int) { \
    BRAID_ACCESS(p, sizeof(type), kAtomic);                                \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                \
  }                                                                        \
  BRAID_FETCH(type, bits, add)                                             \
  BRAID_FETCH(type, bits, sub)                                             \
  BRAID_FETCH(type, bits, and)                                             \
  BRAID_FETCH(type, bits, or)                                              \
  BRAID_FETCH(type, bits, xor)                                             \
  BRAID_FETCH(type, bits, nand)                                            \
  BRAID_COMPARE(type, bits, strong)                                        \
  BRAID_COMPARE(type, bits, weak)
BRAID_ATOMIC(std::uint8_t, 8)
BRAID_ATOMIC(std::uint16_t, 16)
BRAID_ATOMIC(std::uint32_t, 32)
BRAID_ATOMIC(std::uint64_t, 64)
void __tsan_atomic_thread_fence(int) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int byte, std::size_t bytes);

void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  BRAID_ACCESS(from, bytes, kRead);
  BRAID_ACCESS(to, bytes, kWrite);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, std::size_t bytes) {
  BRAID_ACCESS(from, bytes, kRead);
  BRAID_ACCESS(to, bytes, kWrite);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int byte, std::size_t bytes) {
  BRAID_ACCESS(to, bytes, kWrite);
  return __real_memset(to, byte, bytes);
}

}  // extern "C"
// NOLINTEND
