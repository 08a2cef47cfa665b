#include "sim/stuck_turn.h"

#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace braid::sim {

namespace {

std::string read_file(pid_t process, const char* name) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, name));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_traced(pid_t process) {
  const std::string status = read_file(process, "status");
  const std::size_t at = status.find("TracerPid:\t");
  return at != std::string::npos && status.compare(at, 13, "TracerPid:\t0\n") != 0;
}

// The file has the number of the system call that the main thread is in. It has
// "running", or nothing, if there is none or if the system does not show it.
bool is_in_futex(pid_t process) {
  std::istringstream in(read_file(process, "syscall"));
  long call = -1;
  return (in >> call) && call == SYS_futex;
}

}  // namespace

Activity read_activity(pid_t process) {
  Activity a;
  // "pid (name) state ppid ...": the name may contain anything, so the fields are found from its end.
  const std::string stat = read_file(process, "stat");
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return a;
  std::istringstream in(stat.substr(end + 1));
  char state = '?';
  in >> state;
  std::string skipped;
  for (int field = 4; field < 14; ++field) in >> skipped;
  std::int64_t user_ticks = 0, system_ticks = 0;
  in >> user_ticks >> system_ticks;
  a.processor_time = Duration::ns((user_ticks + system_ticks) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK)));
  if (state == 'T' || state == 't' || is_traced(process))
    a.state = Activity::State::kStopped;
  else if (state == 'R')
    a.state = Activity::State::kRuns;
  else if (is_in_futex(process))
    a.state = Activity::State::kBlocked;
  return a;
}

StuckTurn::Cause StuckTurn::check(Instant now, const Activity& activity, bool counted) {
  const Duration used = activity.processor_time - used_before_;
  switch (activity.state) {
    case Activity::State::kRuns:
    case Activity::State::kWaits:
      return counted && used >= limit_ ? Cause::kSpinning : Cause::kNone;
    case Activity::State::kBlocked:
      if (used < limit_ / 2) return Cause::kBlocked;
      break;  // it was not blocked for long, or its other threads work and may end the wait
    case Activity::State::kStopped:
      break;
  }
  since_ = now;
  used_before_ = activity.processor_time;
  return Cause::kNone;
}

}  // namespace braid::sim
