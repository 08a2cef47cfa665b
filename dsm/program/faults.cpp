#include "dsm/program/faults.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/check.h"

#if !defined(__x86_64__)
#error "is_write() reads the x86-64 page-fault error code: write its like for this processor"
#endif

namespace braid::dsm {

namespace {

std::atomic<FaultSink*> the_sink{nullptr};
constexpr std::array kSignals = {SIGSEGV, SIGBUS};
std::array<struct sigaction, kSignals.size()> previous_actions;
struct sigaction& previous(int signal_number) {
  return previous_actions[signal_number == SIGSEGV ? 0 : 1];
}

bool is_write(const void* context) {
  // Bit 1 of the page-fault error code: the access was a write.
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
}

// What would have happened without us.
void pass_on(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction& previous_action = previous(signal_number);
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
    return;
  }
  const bool sent_by_a_process = info->si_code <= 0;
  if (sent_by_a_process && previous_action.sa_handler == SIG_IGN) return;
  // The access happens again on return and meets the action that was there before: the crash keeps its
  // address, and a core dump its stack. A signal that another process sent does not repeat itself.
  ::sigaction(signal_number, &previous_action, nullptr);
  if (sent_by_a_process) ::raise(signal_number);
}

void on_signal(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  FaultSink* const sink = the_sink.load(std::memory_order_acquire);
  // SEGV_ACCERR: a mapping is there and forbids the access, as mprotect does. BUS_ADRERR: userfaultfd forbids
  // it.
  const bool forbidden =
      signal_number == SIGSEGV ? info->si_code == SEGV_ACCERR : info->si_code == BUS_ADRERR;
  const bool handled = sink != nullptr && forbidden &&
                       sink->on_fault(reinterpret_cast<std::uintptr_t>(info->si_addr), is_write(context));
  if (!handled) pass_on(signal_number, info, context);
  errno = saved_errno;
}

}  // namespace

Result<void> install_fault_handler(FaultSink* sink, HandlerStack stack) {
  CHECK(the_sink.load() == nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  // SA_NODEFER: a crash inside the handler must be a crash, not a signal that stays blocked; and the thread
  // works on with an open mask while it waits for a page. SA_RESTART: a system call that was interrupted does
  // not notice.
  action.sa_flags =
      SA_SIGINFO | SA_NODEFER | SA_RESTART | (stack == HandlerStack::kSignalStack ? SA_ONSTACK : 0);
  ::sigemptyset(&action.sa_mask);
  // Read before ours is in place: a crash from here on must find it.
  for (const int signal_number : kSignals) {
    if (::sigaction(signal_number, nullptr, &previous(signal_number)) != 0 ||
        ::sigaction(signal_number, &action, nullptr) != 0)
      return error("cannot install the page-fault handler: {}", std::strerror(errno));
  }
  the_sink.store(sink, std::memory_order_release);
  return {};
}

void remove_fault_handler() {
  the_sink.store(nullptr, std::memory_order_release);
  // A handler that replaced ours stays; ours then passes everything on.
  for (const int signal_number : kSignals) {
    struct sigaction current = {};
    if (::sigaction(signal_number, nullptr, &current) == 0 && (current.sa_flags & SA_SIGINFO) != 0 &&
        current.sa_sigaction == on_signal)
      ::sigaction(signal_number, &previous(signal_number), nullptr);
  }
}

SignalStack::SignalStack() : stack_(std::make_unique<std::byte[]>(kBytes)) {
  stack_t mine = {};
  mine.ss_sp = stack_.get();
  mine.ss_size = kBytes;
  stack_t previous = {};
  CHECK_EQ(::sigaltstack(&mine, &previous), 0);
  previous_stack_ = previous.ss_sp;
  previous_bytes_ = previous.ss_size;
  previous_flags_ = previous.ss_flags;
}

SignalStack::~SignalStack() {
  stack_t previous = {};
  previous.ss_sp = previous_stack_;
  previous.ss_size = previous_bytes_;
  previous.ss_flags = previous_flags_ & SS_DISABLE;
  ::sigaltstack(&previous, nullptr);
}

}  // namespace braid::dsm
