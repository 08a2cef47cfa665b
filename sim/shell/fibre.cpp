#include "sim/shell/fibre.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace braid::sim {

namespace {

constexpr std::size_t kGuardBytes = 4096;

void* boundary_of(void* mapping) {
  return static_cast<std::byte*>(mapping) + kGuardBytes;
}

}  // namespace

struct Fibre::Passage {
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
                 std::strerror(error_number));
  }
  // Of a huge page most would stay unused.
  ::madvise(mapping, kGuardBytes + kStackBytes, MADV_NOHUGEPAGE);
  fibre->mapping_ = mapping;
  fibre->entry_ = entry;
  fibre->argument_ = argument;
  fibre->stack_bottom_ = boundary_of(mapping);
  fibre->stack_bytes_ = kStackBytes;
  namespace context = boost::context::detail;
  fibre->context_ = context::make_fcontext(static_cast<std::byte*>(mapping) + kGuardBytes + kStackBytes,
                                           kStackBytes, [](context::transfer_t came) {
                                             Passage passage = *static_cast<const Passage*>(came.data);
                                             passage.from_context = came.fctx;
                                             Fibre& self = *passage.to;
                                             self.arrive(passage);
                                             self.entry_(self.argument_);
                                             std::terminate();
                                           });
  return fibre;
}

Fibre::~Fibre() {
  if (mapping_ != nullptr) ::munmap(mapping_, kGuardBytes + kStackBytes);
}

// Not inlined: what the compiler knows of a thread's variables ends here.
[[gnu::noinline]] void Fibre::resume(Fibre& other) {
  leave(other);
  Passage passage = {this, &other, nullptr};
  const boost::context::detail::transfer_t came =
      boost::context::detail::jump_fcontext(other.context_, &passage);
  // Somebody else's words, on a stack that stands still while it is read.
  passage = *static_cast<const Passage*>(came.data);
  passage.from_context = came.fctx;
  arrive(passage);
}

void Fibre::leave([[maybe_unused]] Fibre& other) {
  errno_ = errno;
  std::memcpy(exceptions_.data(), abi::__cxa_get_globals(), exceptions_.size());
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_bottom_, other.stack_bytes_);
#endif
}

void Fibre::arrive(const Passage& passage) {
  CHECK(passage.to == this);
  passage.from->context_ = passage.from_context;
#if defined(__SANITIZE_ADDRESS__)
  // Tells where the stack that was left lies, which nobody knew of the thread's own.
  __sanitizer_finish_switch_fiber(fake_stack_, &passage.from->stack_bottom_, &passage.from->stack_bytes_);
#endif
  std::memcpy(abi::__cxa_get_globals(), exceptions_.data(), exceptions_.size());
  errno = errno_;
}

}  // namespace braid::sim
