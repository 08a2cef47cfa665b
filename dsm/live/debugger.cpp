#include "dsm/live/debugger.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "base/system_error.h"
#include "dsm/live/environment.h"
#include "dsm/live/proc_file.h"
#include "dsm/program/failure.h"

namespace braid::dsm {

namespace {

bool is_traced() {
  return number_in_file("/proc/self/status", "\nTracerPid:", 10) != 0;
}

// `name`: "@" and a name in the abstract namespace.
int connect_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, name.data(), length);
  address.sun_path[0] = '\0';
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address),
                          static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)) != 0)
    fail("cannot tell `braid run` which process to debug: {}", cause_and_cure(errno).c_str());
  return fd;
}

// After main_once.cpp's constructor, which does not return in processes that stand in for others.
[[gnu::constructor(102)]] void wait_before_main() {
  wait_for_debugger();
}

}  // namespace

void wait_for_debugger() {
  const char* const name = ::getenv(variable::kDebugger);
  if (name == nullptr) return;
  const int fd = connect_to(name);
  // Programs that this one starts are not debugged.
  ::unsetenv(variable::kDebugger);
  // Where only a process's ancestors may attach to it (Yama), `braid run` starts the debugger beside it.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  for (pollfd closed{fd, 0, 0}; !is_traced();) {
    if (::poll(&closed, 1, 10) > 0) break;
  }
  ::close(fd);
}

}  // namespace braid::dsm
