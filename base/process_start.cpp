#include "base/process_start.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

namespace braid {

bool occupy_standard_descriptors() {
  for (;;) {
    const int null = ::open("/dev/null", O_RDWR);
    if (null < 0) return false;
    if (null <= 2) continue;
    ::close(null);
    return true;
  }
}

namespace {

// The main thread's stack grows until the limit of now; those of other threads have the length that it had at the start.
void have_stack() {
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= kLeastStackBytes) return;
  if (stack.rlim_max >= kLeastStackBytes) {
    const rlimit enough{kLeastStackBytes, stack.rlim_max};
    if (::setrlimit(RLIMIT_STACK, &enough) == 0) return;
  }
  std::fprintf(
      stderr, "braid: the limit of stacks is %zu KiB, and %zu are needed: raise it (ulimit -s %zu)\n",
      static_cast<std::size_t>(stack.rlim_max) >> 10, kLeastStackBytes >> 10, kLeastStackBytes >> 10);
  ::_exit(70);
}

}  // namespace

void prepare_process() {
  if (!occupy_standard_descriptors()) {
    std::perror("braid: /dev/null cannot be opened, and descriptors 0 to 2 must be open");
    ::_exit(70);
  }
  have_stack();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::umask(::umask(0) & ~mode_t{S_IRWXU});
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
}

}  // namespace braid
