#include "tools/braid/process/keeper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/system_error.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {
namespace {

bool write_file(const char* path, const char* text, std::size_t length) {
  const Descriptor file(::open(path, O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text, length) == static_cast<ssize_t>(length);
}

// The lines of uid_map and gid_map by which a user is who it was: "1000 1000 1".
struct Identity {
  std::string user = line(::geteuid()), group = line(::getegid());

  static std::string line(unsigned id) { return fmt::format("{} {} 1", id, id); }
  // In the process that has entered the namespace.
  bool keep() const {
    return write_file("/proc/self/setgroups", "deny", 4) &&
           write_file("/proc/self/uid_map", user.data(), user.size()) &&
           write_file("/proc/self/gid_map", group.data(), group.size());
  }
};

// The keeper's process. Announcements are group numbers, withdrawals their negatives.
[[noreturn]] void keep(int pipe) {
  ::setsid();
  ::signal(SIGCHLD, SIG_IGN);  // process 1 of a container adopts orphans: the kernel reaps them
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
#ifdef __SANITIZE_ADDRESS__
  return start_in(0);  // LeakSanitizer looks for its process in /proc, which has the numbers of outside
#else
  const int namespaces = ::geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWPID | CLONE_NEWUSER;
  Result<Keeper> contained = start_in(namespaces);
  return contained ? std::move(contained) : start_in(0);
#endif
}

Result<Keeper> Keeper::start_in(int namespaces) {
  Result<Pipe> pipe = make_pipe(), ready = make_pipe();
  if (!pipe) return pipe.error();
  if (!ready) return ready.error();
  const Identity identity;
  // As fork(). The child makes system calls only.
  const auto pid =
      static_cast<pid_t>(::syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid < 0) return error("cannot start a process: {}", cause_and_cure(errno));
  if (pid == 0) {
    pipe->write.close();
    if ((namespaces & CLONE_NEWUSER) != 0 && !identity.keep()) ::_exit(1);
    if (::write(ready->write.get(), "R", 1) != 1) ::_exit(1);
    keep(pipe->read.get());
  }
  Keeper keeper(pid, std::move(pipe->write));
  ready->write.close();
  char byte;
  ssize_t n;
  while ((n = ::read(ready->read.get(), &byte, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) return error("a container is not permitted");
  if (namespaces == 0) return keeper;
  keeper.namespaces_ = namespaces;
  keeper.pidfd_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!keeper.pidfd_) return error("cannot open a process: {}", cause_and_cure(errno));
  return keeper;
}

Keeper::~Keeper() {
  if (!pipe_) return;
  pipe_.close();
  // Process 1 ends when all in its container are gone; the command has reaped its own children there.
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
