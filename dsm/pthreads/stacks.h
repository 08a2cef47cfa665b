// Two stacks for each thread of the program. Its own code runs on a stack in shared memory, so that what stands there may be
// used by threads of every cluster. The runtime runs on the stack that the system has given the thread: it must not fault
// while it serves faults, and shared memory is not there while the machine starts.
//
//   stack in shared memory       main() ── pthread_mutex_lock()
//                                  ↑              │ on_private()
//   the thread's own stack       start ...       runtime
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace braid::dsm::pthreads {

// __extension__ stands before declarations alone, and `using` is none.
__extension__ typedef unsigned __int128 Uint128;  // NOLINT(modernize-use-using)

// The calling thread's stack in shared memory; empty: it runs on the system's, as the runtime's own threads do.
struct SharedStack {
  std::uintptr_t low = 0;
  std::size_t bytes = 0;
  std::uintptr_t private_top = 0;  // where the system's stack was left
};
inline constinit thread_local SharedStack shared_stack __attribute__((tls_model("initial-exec"))){};

// The calling thread's from now on.
void use_shared_stack(const SharedStack& stack);

inline bool on_shared_stack() {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  return here - shared_stack.low < shared_stack.bytes;
}

// Changes stacks; the second one is, for unwinding, where a stack begins: pthread_exit() of the C library goes from there to
// the thread's own end.
extern "C" std::uint64_t braid_pthreads_begin_stack(std::uint64_t (*function)(void*), void* argument,
                                                    std::uintptr_t top);
extern "C" std::uint64_t braid_pthreads_call_on_stack(std::uint64_t (*function)(void*), void* argument,
                                                      std::uintptr_t top);

// Calls function(argument) on the stack of `bytes` bytes at `low`, in shared memory.
std::uint64_t run_on_shared_stack(std::uint64_t (*function)(void*), void* argument, void* low,
                                  std::size_t bytes);

// Not 0: the thread has the guard of an atomic instruction of inline assembly (atomics.cpp). For handlers of signals it is in the runtime.
inline constinit thread_local volatile int in_locked_assembly __attribute__((tls_model("initial-exec"))) = 0;

// Handlers of signals that came to the runtime wait until a thread has left it (signals.cpp; in simulation).
inline constinit volatile int signals_wait = 0;
void run_waiting_handlers();

// Calls a copy of `function`, which returns a number or a pointer, on the system's stack. What it refers to on the caller's
// stack is not there while the machine starts.
template <class Function>
auto on_private(Function function) {
  using Value = std::invoke_result_t<Function&>;
  if (!on_shared_stack()) return function();
  if constexpr (std::is_same_v<Value, Uint128>) {
    Value wide{};
    on_private([function, &wide]() mutable { wide = function(); });
    return wide;
  }
  const auto call = [](void* closure) -> std::uint64_t {
    Function copy = *static_cast<Function*>(closure);
    if constexpr (std::is_void_v<Value>) {
      copy();
      return 0;
    } else if constexpr (std::is_pointer_v<Value>) {
      return reinterpret_cast<std::uint64_t>(copy());
    } else {
      return static_cast<std::uint64_t>(copy());
    }
  };
  const std::uint64_t value = braid_pthreads_call_on_stack(call, &function, shared_stack.private_top);
  if (signals_wait != 0) run_waiting_handlers();
  if constexpr (std::is_pointer_v<Value>) {
    return reinterpret_cast<Value>(value);
  } else if constexpr (!std::is_void_v<Value>) {
    return static_cast<Value>(value);
  }
}

}  // namespace braid::dsm::pthreads
