// The program's own settings for the signals that page faults raise, beside the runtime's. While the runtime's
// handler is installed, sigaction() and signal() of SIGSEGV and SIGBUS, sigaltstack() on a thread with a stack
// of the runtime's, and pthread_sigmask() and sigprocmask() are this file's: the program reads back what it
// set, and none of it reaches the kernel where page faults would suffer. All other calls go to the C library.
//
//   the program calls            in effect
//   sigaction(SIGSEGV, ...)      the runtime's handler stays; faults that are not its own go to the program's
//   sigaltstack(...)             the runtime's stack stays
//   pthread_sigmask(...)         all signals but SIGSEGV and SIGBUS
//
// Interposition does not see system calls that are made without the C library's functions, nor sigset() and
// its like: fault_signals_replaced() detects those.
#pragma once

#include <signal.h>

#include <cstddef>

namespace braid::dsm {

// Makes `ours` the kernel's action for both signals. False: errno says why. Read before ours is in place: the
// program's actions are what was there.
[[nodiscard]] bool take_fault_signals(const struct sigaction& ours);
// Makes the program's actions the kernel's again, but where `ours` was replaced behind us.
void return_fault_signals();
// The signal of which another handler than `ours` is installed; 0: neither.
int fault_signals_replaced();

// What the program wants of a fault that is its own; with SA_RESETHAND the default from the next one on.
struct sigaction take_program_action(int signal_number);
// The kernel's default action for this signal, for good: the process is to end.
void install_action(int signal_number, const struct sigaction& action);
// Changes the calling thread's mask without regard to page faults; `old` may be null.
void change_mask(int how, const sigset_t& set, sigset_t* old);

// The calling thread handles signals on [stack, stack + bytes), and has SIGSEGV and SIGBUS open, until
// leave_signal_stack(), which gives it the stack that the program wanted last.
void enter_signal_stack(std::byte* stack, std::size_t bytes);
void leave_signal_stack();

}  // namespace braid::dsm
