// How a thread ends that is not one of the system, but runs on a compute node's fibre (simulation): pthread_exit() with cleanup
// handlers and destructors of objects on its stack, and destructors of thread-local variables. The C library keeps the lists for
// these by threads of the system. The names are wrapped in programs for simulation only (wrapped_simulated.txt).
#include <cxxabi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unwind.h>

#include <cstdint>
#include <new>

#include "dsm/program/failure.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

// <pthread.h> declares them for C.
extern "C" {
int __sigsetjmp_cancel(__cancel_jmp_buf_tag* to, int with_mask) __asm__("__sigsetjmp")  // NOLINT
    __attribute__((returns_twice));
void __pthread_register_cancel(__pthread_unwind_buf_t* cleanup);    // NOLINT
void __pthread_unregister_cancel(__pthread_unwind_buf_t* cleanup);  // NOLINT
}

namespace braid::dsm::pthreads {

namespace {

struct Destructor {
  void (*function)(void*);
  void* object;
  Destructor* next;
};

struct End {
  jmp_buf* beginning = nullptr;  // of run_until_exit(); nullptr: a thread of the system
  bool is_main = false;
  __pthread_unwind_buf_t* cleanup = nullptr;  // the innermost cleanup handler of C code
  Destructor* destructors = nullptr;          // the latest first
  _Unwind_Exception exception{};
};
constinit thread_local End end __attribute__((tls_model("initial-exec"))){};

__pthread_unwind_buf_t*& next_of(__pthread_unwind_buf_t* cleanup) {
  return reinterpret_cast<__pthread_unwind_buf_t*&>(cleanup->__pad[0]);
}

// A cleanup handler of C code stands in the frame of the function that has it: it is called, by a jump there, when the frames
// that this has called are left.
_Unwind_Reason_Code stop(int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,
                         _Unwind_Context* context, void*) {
  const bool at_end = (actions & _UA_END_OF_STACK) != 0;
  if (end.cleanup != nullptr &&
      (at_end || _Unwind_GetCFA(context) > reinterpret_cast<std::uintptr_t>(end.cleanup)))
    ::longjmp(reinterpret_cast<jmp_buf&>(end.cleanup->__cancel_jmp_buf), 1);
  if (at_end) ::longjmp(*end.beginning, 1);
  return _URC_NO_REASON;
}

void swallowed(_Unwind_Reason_Code, _Unwind_Exception*) {
  fail("pthread_exit(): the program caught what ends the thread by catch (...), and did not throw it again");
}

}  // namespace

bool run_until_exit(void (*function)(void*), void* argument) {
  jmp_buf beginning;
  if (::_setjmp(beginning) != 0) return false;
  end.beginning = &beginning;
  function(argument);
  return true;
}

bool run_main_until_exit(void (*function)(void*), void* argument) {
  if (!thread_host::starts_threads()) {
    end.is_main = true;
    return run_until_exit(function, argument);
  }
  // The outermost of the cleanup handlers that the C library calls.
  __pthread_unwind_buf_t beginning;
  if (__sigsetjmp_cancel(beginning.__cancel_jmp_buf, 0) != 0) return false;
  __pthread_register_cancel(&beginning);
  function(argument);
  __pthread_unregister_cancel(&beginning);
  return true;
}

void exit_thread() {
  end.exception = {};
  end.exception.exception_cleanup = swallowed;
  _Unwind_ForcedUnwind(&end.exception, stop, nullptr);
  fail("pthread_exit(): the thread's stack cannot be unwound");
}

void run_variable_destructors() {
  while (end.destructors != nullptr) {
    Destructor* const last = end.destructors;
    end.destructors = last->next;
    last->function(last->object);
    on_private([=] { delete last; });
  }
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

void WRAPPED(__pthread_register_cancel)(__pthread_unwind_buf_t* cleanup) {
  next_of(cleanup) = end.cleanup;
  end.cleanup = cleanup;
}
void WRAPPED(__pthread_unregister_cancel)(__pthread_unwind_buf_t* cleanup) {
  end.cleanup = next_of(cleanup);
}
// Of a handler that has run.
[[noreturn]] void WRAPPED(__pthread_unwind_next)(__pthread_unwind_buf_t* cleanup) {
  end.cleanup = next_of(cleanup);
  exit_thread();
}

int WRAPPED(__cxa_thread_atexit)(void (*destructor)(void*), void* object, void* library) {
  if (end.beginning == nullptr || end.is_main)
    return on_private([=] { return abi::__cxa_thread_atexit(destructor, object, library); });
  end.destructors = on_private([=] { return new Destructor{destructor, object, end.destructors}; });
  return 0;
}

}  // extern "C"
