#include "sim/shell/fibre.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>

#include "base/check.h"
#include "base/system_error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// switch_stack.S
extern "C" {
void* braid_switch_stack(void** left, void* to, void* passed);
void braid_begin_on_stack();
}

namespace braid::sim {

namespace {

// The top of a suspended stack, as braid_switch_stack() leaves it: registers, and its return address.
struct Suspended {
  std::uint32_t mxcsr = 0;
  std::uint16_t x87_control = 0;
  void* r15 = nullptr;
  void* r14 = nullptr;
  void* r13 = nullptr;
  void* r12 = nullptr;
  void* rbx = nullptr;
  void* rbp = nullptr;
  void (*next)() = nullptr;
};

constexpr std::size_t kGuardBytes = 4096;

void* stack_bottom_of(void* mapping) {
  return static_cast<std::byte*>(mapping) + kGuardBytes;
}

}  // namespace

struct Fibre::Switch {
  Fibre* from;
  Fibre* to;
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
  // braid_begin_on_stack begins at `top`, which is aligned for its call.
  auto* const top = static_cast<std::byte*>(mapping) + kGuardBytes + kStackBytes - 2 * sizeof(void*);
  auto* const suspended = new (top - sizeof(Suspended)) Suspended;
  asm("stmxcsr %0; fnstcw %1" : "=m"(suspended->mxcsr), "=m"(suspended->x87_control));
  suspended->rbx = reinterpret_cast<void*>(&Fibre::begin);  // NOLINT
  suspended->next = braid_begin_on_stack;
  fibre->context_ = suspended;
  return fibre;
}

Fibre::~Fibre() {
  if (mapping_ != nullptr) ::munmap(mapping_, kGuardBytes + kStackBytes);
}

void Fibre::begin(void* passed) {
  const Switch came = *static_cast<const Switch*>(passed);
  Fibre& self = *came.to;
  self.restore(came);
  self.entry_(self.argument_);
  std::terminate();
}

// Not inlined, so that the compiler does not keep addresses of thread-local variables across the switch.
[[gnu::noinline]] void Fibre::resume(Fibre& other) {
  save(other);
  Switch passed = {this, &other};
  // Read from the stack of the fibre that resumed this one, which is now suspended.
  restore(*static_cast<const Switch*>(braid_switch_stack(&context_, other.context_, &passed)));
}

void Fibre::save([[maybe_unused]] Fibre& other) {
  errno_ = errno;
  std::memcpy(exceptions_.data(), abi::__cxa_get_globals(), exceptions_.size());
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, other.stack_bottom_, other.stack_bytes_);
#endif
}

void Fibre::restore([[maybe_unused]] const Switch& passed) {
  CHECK(passed.to == this);
#if defined(__SANITIZE_ADDRESS__)
  // Also reports the bounds of the suspended stack, which are not known before for the thread's own.
  __sanitizer_finish_switch_fiber(fake_stack_, &passed.from->stack_bottom_, &passed.from->stack_bytes_);
#endif
  std::memcpy(abi::__cxa_get_globals(), exceptions_.data(), exceptions_.size());
  errno = errno_;
}

}  // namespace braid::sim
