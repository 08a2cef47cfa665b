// The system is asked what a thread's turns are; where it has none of a length of one's own (before Linux 6.12) nothing can
// be seen.
#include "base/short_turns.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace braid {
namespace {

TEST(ShortTurns, AreInheritedAndNeverBecomeLonger) {
  if (length_of_turns() <= 700_us)
    GTEST_SKIP() << "this system has no turns of a length of one's own, or short ones";
  std::thread([] {
    const int nice = ::getpriority(PRIO_PROCESS, 0);
    take_short_turns(700_us);
    EXPECT_EQ(length_of_turns(), 700_us);
    EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), nice);
    take_short_turns(900_us);
    EXPECT_EQ(length_of_turns(), 700_us);
    std::thread([] { EXPECT_EQ(length_of_turns(), 700_us); }).join();
    const pid_t child = ::fork();
    if (child == 0) ::_exit(length_of_turns() == 700_us ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }).join();
  EXPECT_GT(length_of_turns(), 700_us) << "another thread's";
}

}  // namespace
}  // namespace braid
