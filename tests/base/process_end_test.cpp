#include "base/process_end.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

namespace braid {
namespace {

int wait_status_of(const std::function<void()>& ends) {
  const pid_t child = ::fork();
  if (child == 0) {
    ends();
    ::_exit(99);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(ProcessEnd, AnExitIsItsStatus) {
  const int status = wait_status_of([] { ::_exit(3); });
  EXPECT_EQ(describe_end(status), "exited with status 3");
  EXPECT_EQ(shell_status(status), 3);
}

TEST(ProcessEnd, ASignalIsNamed) {
  const int status = wait_status_of([] { ::kill(::getpid(), SIGKILL); });
  EXPECT_EQ(describe_end(status), "was killed by signal 9 (Killed)");
  EXPECT_EQ(shell_status(status), 137);
}

}  // namespace
}  // namespace braid
