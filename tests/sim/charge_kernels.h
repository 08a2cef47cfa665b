// A program of kernels that is compiled in several ways; each tells what it computed and, where it is
// charged, what had been charged by then.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Tells `value` and the units charged so far. Not charged itself, and a boundary: what was executed before is
// charged, and nothing else.
void observe(const char* what, int64_t value);

// No compiler knows what it returns: `n`. A boundary too.
int64_t opaque(int64_t n);

void c_kernels(void);
void cpp_kernels(void);

#ifdef __cplusplus
}
#endif
