// Handlers of the program's signals. One that interrupts the program's own code runs there, on the thread's stack for signals: the
// kernel does not wait for a page of the stack that is interrupted, which is in shared memory. One that interrupts the runtime,
// as in a call that waits, must not: the handler may use shared memory, and the runtime serves that. Then
//
//   in a live run     a compute node of the cluster that does nothing else runs the handler at once (serve_signals()); the thread that
//                     was interrupted goes on meanwhile: it may have a mutex by then that others need to let the handler end
//   in simulation     the handler runs when a thread of the process has left the runtime
//
// Until the machine starts memory is the process's own, and handlers run where they interrupt.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/system_error.h"
#include "dsm/program/failure.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

using Handler = void (*)(int, siginfo_t*, void*);  // one of a number alone leaves the rest

// What the program has set, of signals that `deliver` is installed for.
constinit std::array<struct sigaction, NSIG> actions{};

// A handler to call. Of one size, so that a pipe takes it whole or, when it is full, not.
struct Letter {
  Handler handler;
  Thread* interrupted;
  int number;
  siginfo_t info;
};
constinit bool is_wanted = false;              // the program has set a handler
constinit std::array<int, 2> letters{-1, -1};  // a pipe; each cluster has its own
constinit thread_local bool serves __attribute__((tls_model("initial-exec"))) = false;
// The thread that was interrupted by the signal whose handler this one runs; nullptr: main().
constinit thread_local Thread* interrupted __attribute__((tls_model("initial-exec"))) = nullptr;

bool interrupts_runtime(const void* context) {
  if (!machine_is_coming()) return false;
  if (in_locked_assembly != 0) return true;
  const auto at = static_cast<std::uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);  // NOLINT
  return at - shared_stack.low >= shared_stack.bytes;
}

void deliver(int number, siginfo_t* info, void* context) {
  signals_delivered = signals_delivered + 1;
  const Handler handler = actions[static_cast<std::size_t>(number)].sa_sigaction;
  if (!interrupts_runtime(context)) return handler(number, info, context);
  const int before = errno;
  const Letter letter{handler, own.thread, number, *info};
  // A full pipe: so many wait already that one is left out, as the system does with a signal that is pending.
  if (::write(letters[1], &letter, sizeof letter) == sizeof letter && !thread_host::starts_threads())
    signals_wait = 1;
  errno = before;
}

// False: there is none, and nobody may write one any more.
bool take_letter(Letter* letter) {
  ssize_t n;
  while ((n = ::read(letters[0], letter, sizeof *letter)) < 0 && errno == EINTR) {
  }
  return n == static_cast<ssize_t>(sizeof *letter);
}

std::uint64_t run_handler(void* argument) {
  auto& letter = *static_cast<Letter*>(argument);
  ucontext_t context{};
  letter.handler(letter.number, &letter.info, &context);
  return 0;
}

// Signals that an instruction of the thread itself has caused: the runtime's, or reports of crashes.
bool is_own(int number) {
  constexpr std::array kOwn = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  return std::find(kOwn.begin(), kOwn.end(), number) != kOwn.end();
}

bool is_delivered(int number, const struct sigaction& action) {
  return !is_own(number) && action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

void open_letters() {
  const int flags = O_CLOEXEC | (thread_host::starts_threads() ? 0 : O_NONBLOCK);
  if (::pipe2(letters.data(), flags) != 0) fail("sigaction(): {}", cause_and_cure(errno).c_str());
  (void)::fcntl(letters[1], F_SETFL, O_NONBLOCK);
  start_to_serve_signals();
}

void want_letters() {
  if (!is_wanted && started()) open_letters();
  is_wanted = true;
}

int set_action(int number, const struct sigaction* wanted, struct sigaction* former) {
  if (number <= 0 || number >= NSIG) return errno = EINVAL, -1;
  struct sigaction& own_action = actions[static_cast<std::size_t>(number)];
  const struct sigaction last = own_action;
  struct sigaction action = {}, installed = {};
  if (wanted != nullptr) {
    action = *wanted;
    action.sa_flags |= SA_ONSTACK;
    if (is_delivered(number, *wanted)) {
      want_letters();
      own_action = *wanted;
      action.sa_sigaction = deliver;
      action.sa_flags |= SA_SIGINFO;
      // A handler that blocks all signals uses shared memory, too.
      for (const int fault : {SIGSEGV, SIGBUS}) ::sigdelset(&action.sa_mask, fault);
    }
  }
  if (::sigaction(number, wanted != nullptr ? &action : nullptr, &installed) != 0) {
    own_action = last;
    return -1;
  }
  if (former != nullptr)
    *former = (installed.sa_flags & SA_SIGINFO) != 0 && installed.sa_sigaction == deliver ? last : installed;
  return 0;
}

}  // namespace

HeldSignals::HeldSignals() {
  sigset_t delivered;
  ::sigemptyset(&delivered);
  for (int number = 1; number < NSIG; ++number)
    if (is_delivered(number, actions[static_cast<std::size_t>(number)])) ::sigaddset(&delivered, number);
  ::pthread_sigmask(SIG_BLOCK, &delivered, &before_);
}

void HeldSignals::let_come() const {
  if (is_wanted) open_letters();
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool serves_signals() {
  return serves;
}

Thread* interrupted_thread() {
  return interrupted != nullptr ? interrupted : shared().threads.data();
}

void serve_signals(void* stack, std::size_t stack_bytes) {
  serves = true;
  sigset_t others;
  ::sigfillset(&others);
  for (int number = 1; number < NSIG; ++number)
    if (is_own(number)) ::sigdelset(&others, number);
  ::pthread_sigmask(SIG_BLOCK, &others, nullptr);
  for (Letter letter; take_letter(&letter);) {
    interrupted = letter.interrupted;
    run_on_shared_stack(run_handler, &letter, stack, stack_bytes);
  }
}

// One at a time: where they come as fast as they run, on a slow machine or with a timer of some 100 µs, the thread goes on all the same. A handler
// that calls the runtime comes here as well, and is not interrupted by the next one; the stack would fill.
void run_waiting_handlers() {
  static constinit thread_local bool runs __attribute__((tls_model("initial-exec"))) = false;
  if (runs || in_locked_assembly != 0) return;
  signals_wait = 0;
  Letter letter;
  if (!take_letter(&letter)) return;
  signals_wait = 1;  // there may be more
  runs = true;
  run_handler(&letter);
  runs = false;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

int WRAPPED(sigaction)(int number, const struct sigaction* wanted, struct sigaction* former) {
  struct sigaction action = {}, before = {};
  if (wanted != nullptr) action = *wanted;
  const int result = on_private([number, set = wanted != nullptr ? &action : nullptr, to = &before] {
    return set_action(number, set, to);
  });
  if (result == 0 && former != nullptr) *former = before;
  return result;
}

sighandler_t WRAPPED(signal)(int number, sighandler_t handler) {
  struct sigaction action = {}, former = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  return WRAPPED(sigaction)(number, &action, &former) == 0 ? former.sa_handler : SIG_ERR;
}

}  // extern "C"
