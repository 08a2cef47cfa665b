#include "sim/shell/fibre.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>

#include "base/check.h"
#include "base/system_error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace braid::sim {

namespace {

constexpr std::size_t kGuardBytes = 4096;

void* stack_bottom_of(void* mapping) {
  return static_cast<std::byte*>(mapping) + kGuardBytes;
}

}  // namespace

struct Fibre::Switch {
  Fibre* from;
  Fibre* to;
  void* from_context;
};

std::unique_ptr<Fibre> Fibre::of_thread() {
  return std::unique_ptr<Fibre>(new Fibre);
}

Result<std::unique_ptr<Fibre>> Fibre::make(void (*entry)(void*), void* argument) {
  std::unique_ptr<Fibre> fibre(new Fibre);
  void* const mapping = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED || ::mprotect(mapping, kGuardBytes, PROT_NONE) != 0) {
    const int error_number = errno;
    if (mapping != MAP_FAILED) ::munmap(mapping, kGuardBytes + kStackBytes);
    return error("cannot map {} MiB for a compute node's stack: {}", kStackBytes >> 20,
                 cause_and_cure(error_number));
  }
  // Most of a huge page would stay unused.
  ::madvise(mapping, kGuardBytes + kStackBytes, MADV_NOHUGEPAGE);
  fibre->mapping_ = mapping;
  fibre->entry_ = entry;
  fibre->argument_ = argument;
  fibre->stack_bottom_ = stack_bottom_of(mapping);
  fibre->stack_bytes_ = kStackBytes;
  namespace context = boost::context::detail;
  fibre->context_ = context::make_fcontext(static_cast<std::byte*>(mapping) + kGuardBytes + kStackBytes,
                                           kStackBytes, [](context::transfer_t came) {
                                             Switch passed = *static_cast<const Switch*>(came.data);
                                             passed.from_context = came.fctx;
                                             Fibre& self = *passed.to;
                                             self.restore(passed);
                                             self.entry_(self.argument_);
                                             std::terminate();
                                           });
  return fibre;
}

Fibre::~Fibre() {
  if (mapping_ != nullptr) ::munmap(mapping_, kGuardBytes + kStackBytes);
}

// Not inlined, so that the compiler does not keep addresses of thread-local variables across the switch.
[[gnu::noinline]] void Fibre::resume(Fibre& other) {
  save(other);
  Switch passed = {this, &other, nullptr};
  const boost::context::detail::transfer_t came =
      boost::context::detail::jump_fcontext(other.context_, &passed);
  // Read from the stack of the fibre that resumed this one, which is now suspended.
  passed = *static_cast<const Switch*>(came.data);
  passed.from_context = came.fctx;
  restore(passed);
}

void Fibre::save([[maybe_unused]] Fibre& other) {
  errno_ = errno;
  std::memcpy(exceptions_.data(), abi::__cxa_get_globals(), exceptions_.size());
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_bottom_, other.stack_bytes_);
#endif
}

void Fibre::restore(const Switch& passed) {
  CHECK(passed.to == this);
  passed.from->context_ = passed.from_context;
#if defined(__SANITIZE_ADDRESS__)
  // Also reports the bounds of the suspended stack, which are not known before for the thread's own.
  __sanitizer_finish_switch_fiber(fake_stack_, &passed.from->stack_bottom_, &passed.from->stack_bytes_);
#endif
  std::memcpy(abi::__cxa_get_globals(), exceptions_.data(), exceptions_.size());
  errno = errno_;
}

}  // namespace braid::sim
