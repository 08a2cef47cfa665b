#include "dsm/live/inspector.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/live/start_thread.h"

namespace braid::dsm {

namespace {

// A semaphore, not a descriptor: a program can close all of those.
std::atomic<sem_t*> the_bell{nullptr};

void on_quit(int) {
  const int saved_errno = errno;
  sem_t* const bell = the_bell.load();
  if (bell != nullptr) ::sem_post(bell);
  errno = saved_errno;
}

}  // namespace

Inspector::Inspector(std::function<void()> report) : report_(std::move(report)) {
  struct sigaction current = {};
  if (::sigaction(SIGQUIT, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
      current.sa_handler != SIG_DFL)
    return;
  CHECK_EQ(::sem_init(&bell_, 0, 0), 0);
  the_bell.store(&bell_);
  struct sigaction ours = {};
  ours.sa_handler = on_quit;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;  // the interrupted stack may be in shared memory
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
