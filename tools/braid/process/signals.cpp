#include "tools/braid/process/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/system_error.h"

namespace braid::cli {
namespace {

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Result<Signals> Signals::take_over(std::span<const int> numbers) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  // A blocked signal is delivered although it is ignored.
  for (const int number : numbers) {
    if (!is_ignored(number)) sigaddset(&set, number);
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  Descriptor fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return error("cannot receive signals: {}", cause_and_cure(errno));
  return Signals(std::move(fd));
}

std::vector<int> Signals::take() {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (::read(fd_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) numbers.push_back(static_cast<int>(info.ssi_signo));
  }
  return numbers;
}

}  // namespace braid::cli
