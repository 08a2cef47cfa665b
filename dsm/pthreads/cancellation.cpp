#include "dsm/pthreads/cancellation.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <utility>

#include "base/timespec.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/wrapped.h"

// The end of a handler of a signal.
asm(R"(
  .text
  .type braid_pthreads_end_of_interrupt, @function
braid_pthreads_end_of_interrupt:
  movl $15, %eax
  syscall
  .size braid_pthreads_end_of_interrupt, .-braid_pthreads_end_of_interrupt
)");

// Where a thread goes on that a request has interrupted in its own code, if it ends at once. Its registers are still those of that code, but
// for two: on top of its stack stands where it was, and below the top of its own stack then. Unwinding goes on there.
asm(R"(
  .text
  .type braid_pthreads_cancelled_here, @function
braid_pthreads_cancelled_here:
  .cfi_startproc
  .cfi_signal_frame
  .cfi_escape 0x0f, 3, 0x77, 8, 0x06  # CFA: what 8(%rsp) has
  .cfi_escape 0x10, 16, 2, 0x77, 0    # the return address: at (%rsp)
  call braid_pthreads_end_cancelled_here
  hlt
  .cfi_endproc
  .size braid_pthreads_cancelled_here, .-braid_pthreads_cancelled_here
)");

extern "C" {
// Defined by cancels.cpp, if it is linked.
extern const char braid_pthreads_cancels __attribute__((weak));
// The runtime's code, which the linker names (cmake/runtime_text.ld).
extern const char __start_braid_text;  // NOLINT
extern const char __stop_braid_text;   // NOLINT
void braid_pthreads_end_of_interrupt();
void braid_pthreads_cancelled_here();
[[noreturn]] void braid_pthreads_end_cancelled_here();
}

namespace braid::dsm::pthreads {

namespace {

// The C library's for its own pthread_cancel(), which the program does not call: no program can block it or handle it.
constexpr int kInterrupt = 32;
constexpr Duration kInterruptAgain = 1_ms;  // one that came before the call has begun does not end it
// Of this cluster, by compute node: the system's thread, while a request is to interrupt it; 0: none.
constinit std::array<std::atomic<pid_t>, kNodes> calls{};

unsigned index_of(const Thread& thread) {
  return static_cast<unsigned>(&thread - shared().threads.data());
}
std::atomic<pid_t>& call_of_caller() {
  return calls[current_thread()->local];
}
pid_t system_thread() {
  static constinit thread_local pid_t id __attribute__((tls_model("initial-exec"))) = 0;
  if (id == 0) id = ::gettid();
  return id;
}

// That interrupts the calling thread later.
struct Timer {
  bool is_there;
  int id;
};
constinit thread_local Timer own_timer __attribute__((tls_model("initial-exec"))){};

bool waits_in_system() {
  return thread_host::starts_threads() && started();
}

bool ends_at_once() {
  return own.cancel_at_once && !own.cancel_disabled && !own.ends;
}

// Where the calling thread may be interrupted, or not any more.
void update_call() {
  if (waits_in_system()) call_of_caller() = own.in_call || ends_at_once() ? system_thread() : 0;
}

bool is_requested(const Thread& thread) {
  return shared().cancelled[index_of(thread)];
}

bool is_in_runtime(std::uintptr_t instruction) {
  return instruction - reinterpret_cast<std::uintptr_t>(&__start_braid_text) <
         static_cast<std::uintptr_t>(&__stop_braid_text - &__start_braid_text);
}

// Interrupts the calling thread a little later. In a handler of signals.
void interrupt_later() {
  if (!own_timer.is_there) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kInterrupt;
    event._sigev_un._tid = system_thread();
    if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &own_timer.id) != 0) return;
    own_timer.is_there = true;
  }
  const itimerspec time{{}, to_timespec(kInterruptAgain)};
  (void)::syscall(SYS_timer_settime, own_timer.id, 0, &time, nullptr);
}

// Interrupts a call, which looks for requests then, until the thread has left it. A thread that may end at once goes on at its end if it
// is in the program's code; in the runtime nobody could tell what it leaves behind, so it is interrupted again.
void handle_interrupt(int, siginfo_t*, void* context) {
  if (!own.in_call && !ends_at_once()) return;
  const int before = errno;
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto top = static_cast<std::uintptr_t>(registers[REG_RSP]);
  const bool in_program = !own.in_call && top - shared_stack.low < shared_stack.bytes &&
                          in_locked_assembly == 0 &&
                          !is_in_runtime(static_cast<std::uintptr_t>(registers[REG_RIP]));
  if (!in_program) {
    interrupt_later();
  } else if (is_requested(*current_thread())) {
    constexpr std::uintptr_t kRedZone = 128;
    auto* const frame = reinterpret_cast<std::uintptr_t*>((top - kRedZone - 16) / 16 * 16);
    frame[0] = static_cast<std::uintptr_t>(registers[REG_RIP]);
    frame[1] = top;
    registers[REG_RSP] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(frame));
    registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(braid_pthreads_cancelled_here));
  }
  errno = before;
}

// As sigaction(), which refuses this number.
void handle_interrupts() {
  struct {
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } const action{handle_interrupt, SA_ONSTACK | SA_SIGINFO | 0x0400'0000 /* SA_RESTORER */,
                 braid_pthreads_end_of_interrupt, 0};
  (void)::syscall(SYS_rt_sigaction, kInterrupt, &action, nullptr, sizeof action.mask);
}

// Waits for nothing that the thread does: it may need what the caller has.
void interrupt(unsigned local) {
  handle_interrupts();
  const pid_t thread = calls[local];
  if (thread != 0 && thread != ::gettid()) (void)::syscall(SYS_tgkill, ::getpid(), thread, kInterrupt);
}

// Marks the thread; 0, and `waits`, or an error number.
int request(Thread& thread, Shared::AwaitedByThread* waits) {
  Shared& all = shared();
  Guard guard(kThreadsLock);
  if (!thread.used) return ESRCH;
  if (thread.done || is_requested(thread)) return 0;
  all.cancelled[index_of(thread)] = true;
  *waits = all.awaited[index_of(thread)];
  if (waits->lock == kThreadsLock) guard.wake(waits->condition);
  return 0;
}

// With the calls that it makes now, and those of one that makes a call for it.
void interrupt_anywhere(const Thread& thread, const Thread* helper) {
  const unsigned here = joined_host("pthread_cancel()").shape().cluster;
  for (const Thread* const one : {&thread, helper}) {
    if (one == nullptr) continue;
    unsigned cluster = 0, local = 0;
    {
      const Guard guard(kThreadsLock);
      cluster = one->cluster;
      local = one->local;
      if (cluster != here) shared().interrupted[cluster].set(local);
    }
    if (cluster == here)
      interrupt(local);
    else
      calling_node_of("pthread_cancel()").semaphore_post(kJobSemaphore + cluster);
  }
}

int cancel(Thread* thread) {
  if (thread == nullptr) return ESRCH;
  Shared::AwaitedByThread waits{};
  if (const int error_number = request(*thread, &waits); error_number != 0) return error_number;
  if (waits.lock != 0 && waits.lock != kThreadsLock) {
    // The thread has the lock from before it has looked until it waits.
    Guard guard(waits.lock);
    guard.wake(waits.condition);
  }
  if (waits_in_system()) interrupt_anywhere(*thread, waits.helper);
  return 0;
}

}  // namespace

bool uses_cancellation() {
  return &braid_pthreads_cancels != nullptr;
}

bool can_be_cancelled() {
  return uses_cancellation() && on_shared_stack() && !own.cancel_disabled && !own.ends && !serves_signals() &&
         !is_forked_child();
}

bool is_cancelled() {
  // Not a child of vfork(), which has the thread's memory.
  return is_requested(*current_thread()) && (!started() || is_run_process());
}

bool finds_itself_cancelled() {
  if (started() && !thread_host::starts_threads()) on_private([] { const Guard guard(kThreadsLock); });
  return is_cancelled();
}

void end_cancelled() {
  WRAPPED(pthread_exit)(PTHREAD_CANCELED);
}

void end_if_at_once() {
  if (own.cancel_at_once && can_be_cancelled() && is_cancelled()) end_cancelled();
}

void begin_to_end() {
  own.ends = true;
  if (!uses_cancellation()) return;
  update_call();
  if (std::exchange(own_timer.is_there, false)) (void)::syscall(SYS_timer_delete, own_timer.id);
}

void test_cancellation() {
  if (can_be_cancelled() && finds_itself_cancelled()) end_cancelled();
}

void tell_wait(unsigned lock, unsigned condition) {
  Shared::AwaitedByThread& waits = shared().awaited[index_of(*current_thread())];
  if (waits.lock == lock && waits.condition == condition) return;
  const auto tell = [&] {
    waits.lock = lock;
    waits.condition = condition;
  };
  if (lock == kThreadsLock) return tell();
  const Guard guard(kThreadsLock);
  tell();
}

void forget_cancellation(const Thread& thread) {
  if (!uses_cancellation()) return;
  shared().cancelled[index_of(thread)] = false;
  shared().awaited[index_of(thread)] = {};
}

void interrupt_cancelled(const std::bitset<kNodes>& nodes) {
  for (unsigned local = 0; local < nodes.size(); ++local)
    if (nodes[local]) interrupt(local);
}

void begin_point() {
  if (finds_itself_cancelled()) end_cancelled();
  if (!waits_in_system()) return;
  resume_point();
  if (!is_cancelled()) return;
  end_point();
  end_cancelled();
}

void end_point() {
  if (!own.in_call) return;
  own.in_call = false;
  update_call();
  const itimerspec never{};
  if (own_timer.is_there) (void)::syscall(SYS_timer_settime, own_timer.id, 0, &never, nullptr);
}

void tell_helper(const Thread& caller, const Thread& helper) {
  shared().awaited[index_of(caller)].helper = &helper;
}

bool begin_point_for(const Thread& caller) {
  resume_point();
  if (!is_requested(caller)) return true;
  end_point_for(caller);
  return false;
}

void end_point_for(const Thread& caller) {
  end_point();
  on_private([&] {
    const Guard guard(kThreadsLock);
    shared().awaited[index_of(caller)].helper = nullptr;
  });
}

bool pause_point() {
  const bool was_in_call = own.in_call;
  end_point();
  return was_in_call;
}

void resume_point() {
  own.in_call = true;
  update_call();
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

namespace {

// Its state or type may be another now.
void may_end_at_once() {
  if (!uses_cancellation()) return;
  update_call();
  end_if_at_once();
}

}  // namespace

extern "C" {

// For cancels.cpp.
int braid_pthreads_cancel(pthread_t name) {
  const int error_number = on_private([name] { return cancel(thread_of(name)); });
  end_if_at_once();  // it may be the caller's
  return error_number;
}

[[noreturn]] void braid_pthreads_end_cancelled_here() {
  end_cancelled();
}

void WRAPPED(pthread_testcancel)() {
  test_cancellation();
}

int WRAPPED(pthread_setcancelstate)(int state, int* former) {
  if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE) return EINVAL;
  if (former != nullptr) *former = own.cancel_disabled ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
  own.cancel_disabled = state == PTHREAD_CANCEL_DISABLE;
  may_end_at_once();
  return 0;
}

int WRAPPED(pthread_setcanceltype)(int type, int* former) {
  if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS) return EINVAL;
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS && uses_cancellation() &&
      !braid::dsm::thread_host::starts_threads())
    on_private([] {
      refuse("pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS) in simulation",
             "nothing interrupts a thread that computes; let it call pthread_testcancel()");
    });
  if (former != nullptr) *former = own.cancel_at_once ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
  own.cancel_at_once = type == PTHREAD_CANCEL_ASYNCHRONOUS;
  may_end_at_once();
  return 0;
}

}  // extern "C"
