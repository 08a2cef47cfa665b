#include "dsm/once/stand_in.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/system_error.h"
#include "base/time.h"
#include "dsm/live/environment.h"
#include "dsm/live/proc_file.h"
#include "dsm/once/messages.h"
#include "dsm/program/failure.h"

namespace braid::dsm::once {

namespace {

volatile sig_atomic_t asked_to_report = 0;

void on_quit(int) {
  asked_to_report = 1;
}

// Every signal of the group comes to the program too; this process only waits. A handler of SIGQUIT tells `braid run`
// that this process may be asked what its cluster waits for.
void take_signals() {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  struct sigaction action {};
  action.sa_handler = on_quit;
  ::sigaction(SIGQUIT, &action, nullptr);
}

// Nothing that comes or goes through descriptors 0 to 2 is this process's any more. 2 stays, for messages.
void let_go_of_streams() {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::close(null);
}

bool handles_quit(pid_t pid) {
  const auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return false;
  // In the container of `braid run` /proc has the numbers of outside, where only this file knows the process's.
  char path[64];
  (void)::snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
  const std::uint64_t outside = number_in_file(path, "\nPid:", 10);
  ::close(pidfd);
  (void)::snprintf(path, sizeof path, "/proc/%llu/status", static_cast<unsigned long long>(outside));
  return outside != 0 && (number_in_file(path, "\nSigCgt:", 16) >> (SIGQUIT - 1) & 1) != 0;
}

[[noreturn]] void end_as(int wait_status) {
  if (!WIFSIGNALED(wait_status)) ::_exit(WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  // The program has left its memory behind if anybody wants it.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::signal(number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(number);
  ::_exit(128 + number);
}

void add_descriptor(int fd, std::size_t at, Message* place, Descriptors* with) {
  place->numbers[at] = fd;
  with->fds[at] = fd;
}

// The number in a variable; -1: it is not set.
int descriptor_in(const char* name) {
  const char* const text = ::getenv(name);
  return text == nullptr ? -1 : ::atoi(text);
}

void fill_place(std::uint32_t cluster, Message* place, Descriptors* with) {
  place->kind = Kind::kPlace;
  place->cluster = cluster;
  place->pid = ::getpid();
  place->group = ::getpgrp();
  std::size_t used = 0;
  for (int fd = 0; fd <= 2; ++fd) add_descriptor(fd, used++, place, with);
  for (const char* const name : {variable::kReportFd, variable::kPulseFd}) {
    if (const int fd = descriptor_in(name); fd >= 0) add_descriptor(fd, used++, place, with);
  }
  for (char* const* v = environ; *v != nullptr; ++v) {
    const std::size_t bytes = ::strlen(*v) + 1;
    if (::strncmp(*v, "BRAID_", 6) != 0) continue;
    if (place->text_bytes + bytes > Message::kTextBytes)
      fail(
          "the BRAID_ variables of the environment have more than {} bytes: unset those that Braid does not know",
          +Message::kTextBytes);
    ::memcpy(place->text.data() + place->text_bytes, *v, bytes);
    place->text_bytes += static_cast<std::uint32_t>(bytes);
  }
}

// The warden listens from the start of the first cluster's process, which may still be to come.
int connect_to_warden(const char* run, std::uint32_t first, int timeout_ms) {
  sockaddr_un address;
  const socklen_t length = rendezvous(run, first, &address);
  const Instant deadline = monotonic_now() + Duration::ms(timeout_ms);
  for (;;) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (socket < 0) fail("cannot make a socket: {}", cause_and_cure(errno).c_str());
    if (::connect(socket, reinterpret_cast<sockaddr*>(&address), length) == 0) return socket;
    ::close(socket);
    if (monotonic_now() > deadline)
      fail(
          "the process of cluster {}, of which this one is a clone, was not there within {} ms: a larger {} gives it more time",
          first, timeout_ms, variable::kConnectTimeoutMs);
    (void)::poll(nullptr, 0, 2);
  }
}

}  // namespace

socklen_t rendezvous(const char* run, std::uint32_t first, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  char* const name = address->sun_path + 1;
  (void)::snprintf(name, sizeof address->sun_path - 1, "%s-once-%u", run, first);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + ::strlen(name));
}

void stand_in(const char* run, std::uint32_t cluster, std::uint32_t first, int timeout_ms) {
  take_signals();
  const int socket = connect_to_warden(run, first, timeout_ms);
  Message place;
  Descriptors with;
  fill_place(cluster, &place, &with);
  if (!send(socket, place, with)) fail("the process that watches the program's processes has gone");
  stand_in_at(socket);
}

void stand_in_at(int socket) {
  take_signals();
  let_go_of_streams();
  sigset_t but_quit;
  sigfillset(&but_quit);
  sigdelset(&but_quit, SIGQUIT);
  pid_t program = 0;
  for (;;) {
    pollfd watched{socket, POLLIN, 0};
    (void)::ppoll(&watched, 1, nullptr, &but_quit);
    if (asked_to_report != 0) {
      asked_to_report = 0;
      if (program > 0 && handles_quit(program)) ::kill(program, SIGQUIT);
    }
    if (watched.revents == 0) continue;
    Message message;
    if (!receive(socket, &message))
      fail("the process that watches the program's processes was killed: this cluster's ends with it");
    if (message.kind == Kind::kProgram) program = message.pid;
    if (message.kind == Kind::kEnd) end_as(message.wait_status);
  }
}

}  // namespace braid::dsm::once
