// A program of kernels that is compiled in several ways; each prints its results and the units charged before
// each result.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Prints `value` and the units charged since the last call. It is not charged itself, and it is a boundary:
// exactly the statements executed before are charged.
void observe(const char* what, int64_t value);

// Returns `n`, which the compiler cannot know. Also a boundary.
int64_t opaque(int64_t n);

void c_kernels(void);
void cpp_kernels(void);

#ifdef __cplusplus
}
#endif
