/* Included before the program's own text by `braid-cc --pthreads`: atomic operations that the compiler would carry out itself
   become those that it calls (dsm/pthreads/atomics.cpp). */
#ifndef BRAID_PTHREADS_H
#define BRAID_PTHREADS_H

#define __sync_fetch_and_add(object, ...) __atomic_fetch_add(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_fetch_and_sub(object, ...) __atomic_fetch_sub(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_fetch_and_or(object, ...) __atomic_fetch_or(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_fetch_and_and(object, ...) __atomic_fetch_and(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_fetch_and_xor(object, ...) __atomic_fetch_xor(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_fetch_and_nand(object, ...) __atomic_fetch_nand(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_add_and_fetch(object, ...) __atomic_add_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_sub_and_fetch(object, ...) __atomic_sub_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_or_and_fetch(object, ...) __atomic_or_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_and_and_fetch(object, ...) __atomic_and_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_xor_and_fetch(object, ...) __atomic_xor_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_nand_and_fetch(object, ...) __atomic_nand_fetch(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_lock_test_and_set(object, ...) __atomic_exchange_n(object, __VA_ARGS__, __ATOMIC_SEQ_CST)
#define __sync_lock_release(object) __atomic_store_n(object, 0, __ATOMIC_SEQ_CST)
#define __sync_bool_compare_and_swap(object, expected, ...)                                \
  __extension__({                                                                          \
    __typeof__(*(object)) braid_expected = (expected);                                     \
    __atomic_compare_exchange_n(object, &braid_expected, __VA_ARGS__, 0, __ATOMIC_SEQ_CST, \
                                __ATOMIC_SEQ_CST);                                         \
  })
#define __sync_val_compare_and_swap(object, expected, ...)                                 \
  __extension__({                                                                          \
    __typeof__(*(object)) braid_expected = (expected);                                     \
    __atomic_compare_exchange_n(object, &braid_expected, __VA_ARGS__, 0, __ATOMIC_SEQ_CST, \
                                __ATOMIC_SEQ_CST);                                         \
    braid_expected;                                                                        \
  })
#define __atomic_test_and_set(object, order) \
  (__atomic_exchange_n((volatile unsigned char*)(object), 1, order) != 0)
#define __atomic_clear(object, order) __atomic_store_n((volatile unsigned char*)(object), 0, order)

#endif
