// The program's own settings for the signals of page faults, beside the runtime's. While the runtime's
// handler is installed, this file replaces sigaction() and signal() for SIGSEGV and SIGBUS, sigaltstack() on
// a thread with a stack of the runtime's, and pthread_sigmask() and sigprocmask(): the program reads back
// what it set, and the kernel gets nothing that would break page faults. All other calls go to the C library.
//
//   the program calls            in effect
//   sigaction(SIGSEGV, ...)      the runtime's handler stays; other faults go to the program's
//   sigaltstack(...)             the runtime's stack stays
//   pthread_sigmask(...)         all signals but SIGSEGV and SIGBUS
//
// System calls that are made without the C library's functions, and sigset() and
// similar functions, are not intercepted; fault_signals_replaced() detects them.
#pragma once

#include <errno.h>
#include <signal.h>

#include <cstddef>

namespace braid::dsm {

// Makes `ours` the kernel's action for both signals, and unblocks them on the calling thread. False: errno has the
// cause. The existing actions, which become the program's, are read before.
[[nodiscard]] bool take_fault_signals(const struct sigaction& ours);
// Makes the program's actions the kernel's again, except where `ours` was replaced meanwhile.
void return_fault_signals();
// The signal for which another handler than `ours` is installed; 0: none.
int fault_signals_replaced();

// The set that a thread blocks which wants to block this one: the same, without the fault signals while they are taken.
sigset_t without_fault_signals(const sigset_t& set);

// The program's action for a fault of its own; with SA_RESETHAND the default action from then on.
struct sigaction take_program_action(int signal_number);
// Installs the kernel's default action for this signal for good: the process is about to end.
void install_action(int signal_number, const struct sigaction& action);
// Changes the calling thread's mask without excluding the fault signals; `old` may be null.
void change_mask(int how, const sigset_t& set, sigset_t* old);

// The calling thread handles signals on [stack, stack + bytes), with SIGSEGV and SIGBUS
// unblocked, until leave_signal_stack(), which installs the stack that the program set last.
void enter_signal_stack(std::byte* stack, std::size_t bytes);
void leave_signal_stack();
// The same stack, or the first, for one of several that take turns on the thread, each with thread-local variables of its own.
// The interrupted code is not on the one that was in effect before.
void change_signal_stack(std::byte* stack, std::size_t bytes);

// As sigwait(), by a call that takes a signal as sigwaitinfo() does. The C library's sigwait() would have a siginfo_t on the stack,
// which may be shared memory.
template <class Take>
int wait_for_signal(Take&& take, int* number) {
  const int before = errno;
  int taken = 0;
  do {
    taken = take();
  } while (taken < 0 && errno == EINTR);
  const int error_number = taken < 0 ? errno : 0;
  errno = before;
  if (taken >= 0) *number = taken;
  return error_number;
}

}  // namespace braid::dsm
