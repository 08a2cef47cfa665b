#include "dsm/program/faults.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "dsm/program/crash_report.h"
#include "dsm/program/program_signals.h"

#if !defined(__x86_64__)
#error "is_write() reads the x86-64 page-fault error code: write the same for this processor"
#endif

namespace braid::dsm {

namespace {

std::atomic<FaultSink*> the_sink{nullptr};

bool is_write(const void* context) {
  // Bit 1 of the page-fault error code: the access was a write.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}

// Whether the interrupted code is itself a handler: only handlers use
// the runtime's stack. Always false with HandlerStack::kInterrupted.
bool was_in_a_handler(const void* context) {
  const auto& c = *static_cast<const ucontext_t*>(context);
  const auto sp = static_cast<std::uintptr_t>(c.uc_mcontext.gregs[REG_RSP]);
  return sp - reinterpret_cast<std::uintptr_t>(c.uc_stack.ss_sp) < c.uc_stack.ss_size;
}

// A bit for each signal whose handler, the program's, runs on this thread.
// If the handler was left by a jump, its bit is set until the next fault.
thread_local std::uint64_t running_handlers __attribute__((tls_model("initial-exec"))) = 0;

void call(const struct sigaction& action, int signal_number, siginfo_t* info, void* context) {
  // Unblocks the fault signals: the kernel would kill a thread that blocks them at its next access.
  sigset_t blocked = action.sa_mask, before;
  for (const int fault : {SIGSEGV, SIGBUS}) ::sigdelset(&blocked, fault);
  change_mask(SIG_BLOCK, blocked, &before);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal_number, info, context);
  } else {
    action.sa_handler(signal_number);
  }
  change_mask(SIG_SETMASK, before, nullptr);
}

// Comes again when the handler has returned, with the same address and stack. Repeating the access would do for a fault, if the
// report had not mapped memory meanwhile, where the address may be now.
void send_again(int signal_number, siginfo_t* info) {
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, signal_number);
  change_mask(SIG_BLOCK, blocked, nullptr);
  (void)::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), signal_number, info);
}

// The action that the signal would have had without the runtime.
void pass_on(int signal_number, siginfo_t* info, void* context) {
  struct sigaction action = take_program_action(signal_number);
  const bool sent_by_a_process = info->si_code <= 0;
  if (action.sa_handler == SIG_IGN && sent_by_a_process) return;
  if (!was_in_a_handler(context)) running_handlers = 0;
  const std::uint64_t bit = std::uint64_t{1} << signal_number;
  // The kernel blocks a signal while its handler runs, and kills a process whose fault's signal is blocked.
  const bool crashed_in_handler = (running_handlers & bit) != 0 && (action.sa_flags & SA_NODEFER) == 0;
  if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN && !crashed_in_handler) {
    running_handlers |= bit;
    call(action, signal_number, info, context);
    running_handlers &= ~bit;
    return;
  }
  // On return the default action is taken: the crash keeps its address, and a core dump its stack.
  if (action.sa_handler != SIG_IGN || !sent_by_a_process) report_crash(signal_number, info, context);
  action = {};
  action.sa_handler = SIG_DFL;
  install_action(signal_number, action);
  if (sent_by_a_process)
    ::raise(signal_number);
  else
    send_again(signal_number, info);
}

void on_signal(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  FaultSink* const sink = the_sink.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  // SEGV_ACCERR: a mapping exists and forbids the access, as
  // after mprotect(). BUS_ADRERR: userfaultfd forbids it.
  const bool forbidden =
      signal_number == SIGSEGV ? info->si_code == SEGV_ACCERR : info->si_code == BUS_ADRERR;
  if (sink != nullptr && signal_number == SIGSEGV && info->si_code == SEGV_MAPERR) sink->on_unmapped(address);
  const bool handled = sink != nullptr && forbidden && sink->on_fault(address, is_write(context));
  if (!handled) pass_on(signal_number, info, context);
  errno = saved_errno;
}

}  // namespace

Result<void> install_fault_handler(FaultSink* sink, HandlerStack stack) {
  CHECK(the_sink.load() == nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  // SA_NODEFER: a crash inside the handler must be a crash, not a
  // blocked signal, and the thread has an open mask while it waits
  // for a page. SA_RESTART: interrupted system calls are resumed.
  action.sa_flags =
      SA_SIGINFO | SA_NODEFER | SA_RESTART | (stack == HandlerStack::kSignalStack ? SA_ONSTACK : 0);
  ::sigemptyset(&action.sa_mask);
  if (!take_fault_signals(action))
    return error("cannot install the page-fault handler: {}", std::strerror(errno));
  the_sink.store(sink, std::memory_order_release);
  return {};
}

void remove_fault_handler() {
  the_sink.store(nullptr, std::memory_order_release);
  return_fault_signals();
}

SignalStack::SignalStack() : stack_(std::make_unique<std::byte[]>(kBytes)) {
  enter_signal_stack(stack_.get(), kBytes);
}

SignalStack::~SignalStack() {
  leave_signal_stack();
}

}  // namespace braid::dsm
