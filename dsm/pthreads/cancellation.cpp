#include "dsm/pthreads/cancellation.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>

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

extern "C" {
// Defined by cancels.cpp, if it is linked.
extern const char braid_pthreads_cancels __attribute__((weak));
void braid_pthreads_end_of_interrupt();
}

namespace braid::dsm::pthreads {

namespace {

// The C library's for its own pthread_cancel(), which the program does not call: no program can block it or handle it.
constexpr int kInterrupt = 32;
constexpr Duration kInterruptAgain = 200_us;  // one that came before the call has begun does not end it

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

bool waits_in_system() {
  return thread_host::starts_threads() && started();
}

// As sigaction(), which refuses this number.
void handle_interrupts() {
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } const action{[](int) {}, SA_ONSTACK | 0x0400'0000 /* SA_RESTORER */, braid_pthreads_end_of_interrupt, 0};
  (void)::syscall(SYS_rt_sigaction, kInterrupt, &action, nullptr, sizeof action.mask);
}

void interrupt(unsigned local) {
  handle_interrupts();
  for (pid_t thread; (thread = calls[local]) != 0 && thread != ::gettid();
       thread_host::sleep(kInterruptAgain))
    (void)::syscall(SYS_tgkill, ::getpid(), thread, kInterrupt);
}

int cancel(Thread* thread) {
  if (thread == nullptr) return ESRCH;
  Shared& all = shared();
  const unsigned here = started() ? joined_host("pthread_cancel()").shape().cluster : 0;
  unsigned local = 0, cluster = 0;
  Shared::AwaitedByThread waits{};
  {
    Guard guard(kThreadsLock);
    if (!thread->used) return ESRCH;
    if (thread->done || all.cancelled[index_of(*thread)]) return 0;
    all.cancelled[index_of(*thread)] = true;
    local = thread->local;
    cluster = thread->cluster;
    waits = all.awaited[index_of(*thread)];
    if (waits.lock == kThreadsLock) guard.wake(waits.condition);
    if (waits_in_system() && cluster != here) all.interrupted[cluster].set(local);
  }
  if (waits.lock != 0 && waits.lock != kThreadsLock) {
    // The thread has the lock from before it has looked until it waits.
    Guard guard(waits.lock);
    guard.wake(waits.condition);
  }
  if (!waits_in_system()) return 0;
  if (cluster == here)
    interrupt(local);
  else
    calling_node_of("pthread_cancel()").semaphore_post(kJobSemaphore + cluster);
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
  return shared().cancelled[index_of(*current_thread())] && (!started() || is_run_process());
}

bool finds_itself_cancelled() {
  if (started() && !thread_host::starts_threads()) on_private([] { const Guard guard(kThreadsLock); });
  return is_cancelled();
}

void end_cancelled() {
  WRAPPED(pthread_exit)(PTHREAD_CANCELED);
}

void test_cancellation() {
  if (can_be_cancelled() && finds_itself_cancelled()) end_cancelled();
}

void tell_wait(unsigned lock, unsigned condition) {
  Shared::AwaitedByThread& waits = shared().awaited[index_of(*current_thread())];
  if (waits.lock == lock && waits.condition == condition) return;
  const auto tell = [&] { waits = {lock, condition}; };
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
  call_of_caller() = system_thread();
  if (!is_cancelled()) return;
  call_of_caller() = 0;
  end_cancelled();
}

void end_point() {
  if (waits_in_system()) call_of_caller() = 0;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

// For cancels.cpp.
int braid_pthreads_cancel(pthread_t name) {
  return on_private([name] { return cancel(thread_of(name)); });
}

void WRAPPED(pthread_testcancel)() {
  test_cancellation();
}

int WRAPPED(pthread_setcancelstate)(int state, int* former) {
  if (state != PTHREAD_CANCEL_ENABLE && state != PTHREAD_CANCEL_DISABLE) return EINVAL;
  if (former != nullptr) *former = own.cancel_disabled ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
  own.cancel_disabled = state == PTHREAD_CANCEL_DISABLE;
  return 0;
}

int WRAPPED(pthread_setcanceltype)(int type, int* former) {
  if (type != PTHREAD_CANCEL_DEFERRED && type != PTHREAD_CANCEL_ASYNCHRONOUS) return EINVAL;
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS && uses_cancellation())
    on_private([] {
      refuse(
          "pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS)",
          "a thread ends at cancellation points alone: let it call pthread_testcancel() where it computes");
    });
  if (former != nullptr) *former = own.cancel_at_once ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED;
  own.cancel_at_once = type == PTHREAD_CANCEL_ASYNCHRONOUS;
  return 0;
}

}  // extern "C"
