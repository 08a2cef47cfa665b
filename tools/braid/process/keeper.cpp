#include "tools/braid/process/keeper.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/system_error.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {
namespace {

// The keeper's process. Announcements are group numbers, withdrawals their negatives.
[[noreturn]] void keep(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "braid-keeper");
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // It must not hold a terminal or a pipe open.
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (pipe != 3) ::dup2(pipe, 3);
  ::close_range(4, ~0u, 0);

  std::array<pid_t, Keeper::kMaxGroups> groups{};
  pid_t message = 0;
  for (;;) {
    const ssize_t n = ::read(3, &message, sizeof message);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof message) break;
    pid_t* const end = groups.data() + groups.size();
    pid_t* const slot = std::find(groups.data(), end, message > 0 ? 0 : -message);
    if (slot != end) *slot = message > 0 ? message : 0;
  }
  for (const pid_t group : groups) {
    if (group > 0) ::kill(-group, SIGKILL);
  }
  ::_exit(0);
}

}  // namespace

Result<Keeper> Keeper::start() {
  Result<Pipe> pipe = make_pipe();
  if (!pipe) return pipe.error();
  const pid_t pid = ::fork();
  if (pid < 0) return error("cannot start a process: {}", cause_and_cure(errno));
  if (pid == 0) {
    pipe->write.close();
    keep(pipe->read.get());
  }
  return Keeper(pid, std::move(pipe->write));
}

Keeper::~Keeper() {
  if (!pipe_) return;
  pipe_.close();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::tell(pid_t message) {
  // Such a short write to a pipe is complete or fails; without a keeper the kernel's death signal remains.
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof message);
}
void Keeper::announce(pid_t group) {
  tell(group);
}
void Keeper::withdraw(pid_t group) {
  tell(-group);
}

}  // namespace braid::cli
