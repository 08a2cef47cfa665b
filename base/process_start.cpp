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

void prepare_process() {
  if (!occupy_standard_descriptors()) {
    std::perror("braid: /dev/null cannot be opened, and descriptors 0 to 2 must be open");
    ::_exit(70);
  }
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
