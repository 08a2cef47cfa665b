#include "dsm/live/inspector.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "base/check.h"
#include "base/system_error.h"
#include "dsm/live/start_thread.h"

namespace braid::dsm {

namespace {

std::atomic<int> the_bell{-1};

// Added to the bell's counter: several signals before the report give one report.
constexpr std::uint64_t kReport = 1;
constexpr std::uint64_t kEnd = std::uint64_t{1} << 32;

void ring(int bell, std::uint64_t what) {
  [[maybe_unused]] const ssize_t n = ::write(bell, &what, sizeof what);
}

void on_quit(int) {
  const int saved_errno = errno;
  const int bell = the_bell.load();
  if (bell >= 0) ring(bell, kReport);
  errno = saved_errno;
}

}  // namespace

Inspector::Inspector(std::function<void()> report) : report_(std::move(report)) {
  struct sigaction current = {};
  if (::sigaction(SIGQUIT, nullptr, &current) != 0 || (current.sa_flags & SA_SIGINFO) != 0 ||
      current.sa_handler != SIG_DFL)
    return;
  bell_ = ::eventfd(0, EFD_CLOEXEC);
  if (bell_ < 0) fail("cannot make an event descriptor: {}", cause_and_cure(errno).c_str());
  the_bell.store(bell_);
  struct sigaction ours = {};
  ours.sa_handler = on_quit;
  ours.sa_flags = SA_RESTART;
  ::sigemptyset(&ours.sa_mask);
  installed_ = ::sigaction(SIGQUIT, &ours, nullptr) == 0;
  thread_ = start_thread("that answers SIGQUIT", &Inspector::listen, this);
}

Inspector::~Inspector() {
  if (bell_ < 0) return;
  if (installed_) ::signal(SIGQUIT, SIG_DFL);
  the_bell.store(-1);
  ring(bell_, kEnd);
  thread_.join();
  ::close(bell_);
}

void Inspector::abandon_in_child() const {
  the_bell.store(-1);
  if (installed_) ::signal(SIGQUIT, SIG_DFL);
}

void Inspector::listen() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  for (;;) {
    std::uint64_t rings = 0;
    if (::read(bell_, &rings, sizeof rings) < 0 && errno == EINTR) continue;
    if (rings >= kEnd) return;
    report_();
  }
}

}  // namespace braid::dsm
