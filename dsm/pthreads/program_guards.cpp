// Function-local statics of the program: its calls (dsm/pthreads/guards.cpp).
#include <cstdint>

#include "dsm/pthreads/wrapped.h"

extern "C" {

int WRAPPED(__cxa_guard_acquire)(std::uint64_t* guard) {
  return braid_pthreads_guard_acquire(guard);
}
void WRAPPED(__cxa_guard_release)(std::uint64_t* guard) {
  braid_pthreads_guard_release(guard);
}
void WRAPPED(__cxa_guard_abort)(std::uint64_t* guard) {
  braid_pthreads_guard_abort(guard);
}

}  // extern "C"
