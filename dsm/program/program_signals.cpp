#include "dsm/program/program_signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "dsm/program/shared_arguments.h"

namespace braid::dsm {

namespace {

// --- The interposed functions, as defined by the C library (or by a sanitizer before it)

template <class Function>
void find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct Original {
  int (*sigaction)(int, const struct sigaction*, struct sigaction*);
  sighandler_t (*signal)(int, sighandler_t);
  sighandler_t (*sysv_signal)(int, sighandler_t);
  int (*sigaltstack)(const stack_t*, stack_t*);
  int (*pthread_sigmask)(int, const sigset_t*, sigset_t*);
  int (*sigprocmask)(int, const sigset_t*, sigset_t*);
};
// Set before the program's first thread starts; no guarded static, because a sanitizer's runtime calls the functions
// below while it starts, before its own parts can be called (the CMake file says more).
constinit bool are_found = false;
constinit Original functions = {};
const Original& original() {
  if (are_found) return functions;
  find(functions.sigaction, "sigaction");
  find(functions.signal, "signal");
  find(functions.sysv_signal, "__sysv_signal");
  find(functions.sigaltstack, "sigaltstack");
  find(functions.pthread_sigmask, "pthread_sigmask");
  find(functions.sigprocmask, "sigprocmask");
  are_found = true;
  return functions;
}
// Before main(), because the calls may be made in signal handlers, where dlsym() is not allowed.
[[gnu::constructor]] void find_originals() {
  (void)original();
}

// --- Actions

constexpr std::array kSignals = {SIGSEGV, SIGBUS};
constexpr bool is_fault_signal(int signal_number) {
  return signal_number == SIGSEGV || signal_number == SIGBUS;
}

std::atomic<bool> taken{false};
// The actions of the program and of the runtime; guarded by Guard.
std::array<struct sigaction, kSignals.size()> program_actions;
struct sigaction our_action;
struct sigaction& program_action(int signal_number) {
  return program_actions[signal_number == SIGSEGV ? 0 : 1];
}

std::atomic<bool> guard_held{false};
// All signals are blocked meanwhile, so that a handler cannot wait for the code that it interrupted.
class Guard {
 public:
  Guard() {
    sigset_t all;
    ::sigfillset(&all);
    original().pthread_sigmask(SIG_SETMASK, &all, &before_);
    while (guard_held.exchange(true, std::memory_order_acquire)) ::sched_yield();
  }
  ~Guard() {
    guard_held.store(false, std::memory_order_release);
    original().pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  sigset_t before_;
};
// A child of fork() has no thread that would release the guard.
void release_guard() {
  guard_held.store(false);
}

// Returns false if the signal is not interposed.
bool exchange_program_action(int signal_number, const struct sigaction* wanted, struct sigaction* former) {
  if (!is_fault_signal(signal_number) || !taken.load(std::memory_order_acquire)) return false;
  // Copied outside the guard: an access to the program's memory can be a fault.
  struct sigaction now = {}, before = {};
  if (wanted != nullptr) now = *wanted;
  {
    const Guard guard;
    if (!taken.load(std::memory_order_relaxed)) return false;
    struct sigaction& action = program_action(signal_number);
    before = action;
    if (wanted != nullptr) action = now;
  }
  if (former != nullptr) *former = before;
  return true;
}

bool is_installed(int signal_number) {
  struct sigaction current = {};
  return original().sigaction(signal_number, nullptr, &current) == 0 &&
         (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == our_action.sa_sigaction;
}

// --- Stacks

// The stack that the program set on this thread while the runtime's is
// in effect. Initial-exec, like this_thread: an access calls nothing.
struct ThreadStack {
  bool ours = false;
  stack_t wanted;
};
thread_local ThreadStack thread_stack __attribute__((tls_model("initial-exec")));

int exchange_stack(const stack_t* wanted, stack_t* former) {
  stack_t current = {};
  original().sigaltstack(nullptr, &current);
  const int on_it = current.ss_flags & SS_ONSTACK;
  stack_t before = thread_stack.wanted;
  if (wanted != nullptr) {
    const stack_t now = *wanted;
    constexpr int kAutodisarm = static_cast<int>(1u << 31);  // SS_AUTODISARM of <linux/signal.h>
    const int mode = now.ss_flags & ~kAutodisarm;
    if (on_it != 0) return errno = EPERM, -1;
    if (mode != 0 && mode != SS_DISABLE && mode != SS_ONSTACK) return errno = EINVAL, -1;
    if (mode != SS_DISABLE && now.ss_size < static_cast<std::size_t>(MINSIGSTKSZ)) return errno = ENOMEM, -1;
    thread_stack.wanted = now;
    thread_stack.wanted.ss_flags = mode == SS_DISABLE ? SS_DISABLE : now.ss_flags & kAutodisarm;
  }
  if (former != nullptr) {
    before.ss_flags |= on_it;
    *former = before;
  }
  return 0;
}

// --- Masks

void unblock_fault_signals() {
  sigset_t faults;
  ::sigemptyset(&faults);
  for (const int signal_number : kSignals) ::sigaddset(&faults, signal_number);
  original().pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

// Makes call(set, former) with private memory, as the kernel may get no other. What would block the fault signals does
// not block them.
template <class Call>
int change_program_mask(int how, const sigset_t* set, sigset_t* former, Call&& call) {
  sigset_t wanted, before;
  if (set != nullptr) wanted = how == SIG_UNBLOCK ? *set : without_fault_signals(*set);
  const int result = call(set == nullptr ? nullptr : &wanted, former == nullptr ? nullptr : &before);
  if (result == 0 && former != nullptr) *former = before;
  return result;
}

}  // namespace

bool take_fault_signals(const struct sigaction& ours) {
  static const int prepared = ::pthread_atfork(nullptr, nullptr, release_guard);
  if (prepared != 0) return errno = prepared, false;
  {
    const Guard guard;
    our_action = ours;
    for (const int signal_number : kSignals) {
      if (original().sigaction(signal_number, nullptr, &program_action(signal_number)) != 0) return false;
    }
    taken.store(true, std::memory_order_release);
    for (const int signal_number : kSignals) {
      if (original().sigaction(signal_number, &ours, nullptr) != 0) return false;
    }
  }
  unblock_fault_signals();
  return true;
}

void return_fault_signals() {
  const Guard guard;
  for (const int signal_number : kSignals) {
    if (is_installed(signal_number))
      original().sigaction(signal_number, &program_action(signal_number), nullptr);
  }
  taken.store(false, std::memory_order_release);
}

int fault_signals_replaced() {
  for (const int signal_number : kSignals) {
    if (!is_installed(signal_number)) return signal_number;
  }
  return 0;
}

sigset_t without_fault_signals(const sigset_t& set) {
  sigset_t others = set;
  if (!taken.load(std::memory_order_acquire)) return others;
  for (const int signal_number : kSignals) ::sigdelset(&others, signal_number);
  return others;
}

struct sigaction take_program_action(int signal_number) {
  const Guard guard;
  struct sigaction& action = program_action(signal_number);
  struct sigaction wanted = action;
  if ((wanted.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) {
    action.sa_handler = SIG_DFL;
    action.sa_flags &= ~SA_SIGINFO;
  }
  return wanted;
}

void install_action(int signal_number, const struct sigaction& action) {
  original().sigaction(signal_number, &action, nullptr);
}

void change_mask(int how, const sigset_t& set, sigset_t* old) {
  original().pthread_sigmask(how, &set, old);
}

void enter_signal_stack(std::byte* stack, std::size_t bytes) {
  stack_t mine = {};
  mine.ss_sp = stack;
  mine.ss_size = bytes;
  CHECK_EQ(original().sigaltstack(&mine, &thread_stack.wanted), 0);
  thread_stack.ours = true;
  unblock_fault_signals();
}

void change_signal_stack(std::byte* stack, std::size_t bytes) {
  stack_t mine = {};
  mine.ss_sp = stack;
  mine.ss_size = bytes;
  CHECK_EQ(original().sigaltstack(&mine, nullptr), 0);
  if (thread_stack.ours) return;
  thread_stack.ours = true;
  thread_stack.wanted.ss_flags = SS_DISABLE;
}

void leave_signal_stack() {
  thread_stack.ours = false;
  stack_t wanted = thread_stack.wanted;
  wanted.ss_flags &= ~SS_ONSTACK;
  original().sigaltstack(&wanted, nullptr);
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

extern "C" {

[[gnu::visibility("default")]] int sigaction(int signal_number, const struct sigaction* wanted,
                                             struct sigaction* former) noexcept {
  if (exchange_program_action(signal_number, wanted, former)) return 0;
  return original().sigaction(signal_number, wanted, former);
}

// Weak, as a program may have a function of that name.
[[gnu::weak, gnu::visibility("default")]] sighandler_t signal(int signal_number,
                                                              sighandler_t handler) noexcept {
  struct sigaction wanted = {}, former = {};
  wanted.sa_handler = handler;
  wanted.sa_flags = SA_RESTART;
  ::sigemptyset(&wanted.sa_mask);
  if (exchange_program_action(signal_number, &wanted, &former)) return former.sa_handler;
  return original().signal(signal_number, handler);
}

// A program that is compiled for System V calls this as signal().
[[gnu::visibility("default")]] sighandler_t __sysv_signal(int signal_number,  // NOLINT
                                                          sighandler_t handler) noexcept {
  struct sigaction wanted = {}, former = {};
  wanted.sa_handler = handler;
  wanted.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  ::sigemptyset(&wanted.sa_mask);
  if (exchange_program_action(signal_number, &wanted, &former)) return former.sa_handler;
  return original().sysv_signal(signal_number, handler);
}

[[gnu::visibility("default")]] int sigaltstack(const stack_t* wanted, stack_t* former) noexcept {
  if (thread_stack.ours) return exchange_stack(wanted, former);
  return original().sigaltstack(Given<stack_t>(wanted), Changed<stack_t>(former));
}

[[gnu::visibility("default")]] int pthread_sigmask(int how, const sigset_t* set, sigset_t* former) noexcept {
  return change_program_mask(how, set, former, [&](const sigset_t* wanted, sigset_t* before) {
    return original().pthread_sigmask(how, wanted, before);
  });
}

[[gnu::visibility("default")]] int sigprocmask(int how, const sigset_t* set, sigset_t* former) noexcept {
  return change_program_mask(how, set, former, [&](const sigset_t* wanted, sigset_t* before) {
    return original().sigprocmask(how, wanted, before);
  });
}

}  // extern "C"
