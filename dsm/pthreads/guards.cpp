// Function-local statics (dsm/program/guards.cpp): the runtime's calls run on the system's stack. Their names are the ones that
// they have before they are renamed (cmake/pthreads.cmake), for the program's calls come to program_guards.cpp.
#include <cstdint>

#include "dsm/pthreads/stacks.h"
#include "dsm/pthreads/wrapped.h"

extern "C" {

int __wrap___cxa_guard_acquire(std::uint64_t* guard);   // NOLINT
void __wrap___cxa_guard_release(std::uint64_t* guard);  // NOLINT
void __wrap___cxa_guard_abort(std::uint64_t* guard);    // NOLINT

int braid_pthreads_guard_acquire(std::uint64_t* guard) {
  return braid::dsm::pthreads::on_private([=] { return __wrap___cxa_guard_acquire(guard); });
}
void braid_pthreads_guard_release(std::uint64_t* guard) {
  braid::dsm::pthreads::on_private([=] { __wrap___cxa_guard_release(guard); });
}
void braid_pthreads_guard_abort(std::uint64_t* guard) {
  braid::dsm::pthreads::on_private([=] { __wrap___cxa_guard_abort(guard); });
}

}  // extern "C"
