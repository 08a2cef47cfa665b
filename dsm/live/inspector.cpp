#include "dsm/live/inspector.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"
#include "base/system_error.h"
#include "dsm/live/start_thread.h"
#include "dsm/program/stack_trace.h"

namespace braid::dsm {

namespace {

// A semaphore, not a descriptor: a program can close all of those.
std::atomic<sem_t*> the_bell{nullptr};

// A thread is asked where it is by a SIGQUIT of this process's own with this address, and answers with that of its next
// instruction.
std::atomic<std::uintptr_t> the_place{0};
constexpr Duration kAnswer = 100_ms;

bool asks_for_place(const siginfo_t& info) {
  return info.si_code == SI_QUEUE && info.si_pid == ::getpid() && info.si_value.sival_ptr == &the_place;
}

void on_quit(int, siginfo_t* info, void* context) {
  if (asks_for_place(*info)) {
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    the_place.store(static_cast<std::uintptr_t>(registers[REG_RIP]));
    return;
  }
  const int saved_errno = errno;
  sem_t* const bell = the_bell.load();
  if (bell != nullptr) ::sem_post(bell);
  errno = saved_errno;
}

bool program_handles_quit() {
  struct sigaction current = {};
  return ::sigaction(SIGQUIT, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) == 0 ||
         current.sa_sigaction != on_quit;
}

}  // namespace

std::string place_of_thread(pid_t thread) {
  if (thread == 0 || program_handles_quit()) return {};
  siginfo_t question = {};
  question.si_signo = SIGQUIT;
  question.si_code = SI_QUEUE;
  question.si_pid = ::getpid();
  question.si_uid = ::getuid();
  question.si_value.sival_ptr = &the_place;
  the_place.store(0);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, SIGQUIT, &question) != 0) return {};
  for (const Instant until = monotonic_now() + kAnswer; the_place.load() == 0;) {
    if (monotonic_now() >= until) return {};
    ::usleep(1000);
  }
  const std::uintptr_t place = the_place.load();
  return place_in_program({&place, 1});
}

Inspector::Inspector(std::function<void()> report) : report_(std::move(report)) {
  struct sigaction current = {};
  if (::sigaction(SIGQUIT, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
      current.sa_handler != SIG_DFL)
    return;
  CHECK_EQ(::sem_init(&bell_, 0, 0), 0);
  the_bell.store(&bell_);
  struct sigaction ours = {};
  ours.sa_sigaction = on_quit;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;  // the interrupted stack may be in shared memory
  ::sigemptyset(&ours.sa_mask);
  installed_ = ::sigaction(SIGQUIT, &ours, nullptr) == 0;
  thread_ = start_thread("that answers SIGQUIT", &Inspector::listen, this);
}

Inspector::~Inspector() {
  if (!thread_.joinable()) return;
  if (installed_) ::signal(SIGQUIT, SIG_DFL);
  the_bell.store(nullptr);
  ending_.store(true);
  ::sem_post(&bell_);
  thread_.join();
  ::sem_destroy(&bell_);
}

void Inspector::abandon_in_child() const {
  the_bell.store(nullptr);
  if (installed_) ::signal(SIGQUIT, SIG_DFL);
}

void Inspector::listen() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    if (::sem_wait(&bell_) != 0) continue;  // interrupted
    // Several signals before the report give one report.
    while (::sem_trywait(&bell_) == 0) continue;
    if (ending_.load()) return;
    report_();
  }
}

}  // namespace braid::dsm
