// Sleeping and yielding. Old programs wait for a plain variable in a loop that sleeps or yields, which works on one machine. A process that does
// so releases what it has written, and finds what others have released. In programs that have such calls, who waits for a barrier, a pause and so on,
// or ends, releases in the same way, which costs a message and its answer (note_wait()). With the lazy protocol a release elsewhere is not
// enough: its notices come with the object that it released. Nobody is asked to release, as in pthread programs (docs/decisions/0047), for
// all threads of a cluster are the program's.
#include <errno.h>
#include <sched.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "base/timespec.h"
#include "dsm/api.h"
#include "dsm/parmacs/machine.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"

namespace braid::dsm::parmacs {

namespace {

constexpr unsigned kYieldsToLook = 16;

// A release and an acquire, if the caller is a process and others may be in other clusters.
void look() {
  const Host* const host = started() && !is_forked_child() ? current_host() : nullptr;
  if (host == nullptr || host->current_node() < 0 || host->shape().clusters == 1) return;
  const int before = errno;
  release_and_acquire(Node(static_cast<unsigned>(host->current_node())));
  errno = before;
}

bool is_simulated() {
  return !thread_host::starts_threads() && !is_forked_child();
}

// Virtual time passes, and so do the other processes.
void sleep_simulated(Duration time) {
  look();
  if (time > Duration()) thread_host::sleep(time);
  look();
}

// As nanosleep().
int sleep_for(const timespec& time, timespec* rest) {
  if (!is_valid(time)) return errno = EINVAL, -1;
  if (is_simulated()) return sleep_simulated(to_duration(time)), 0;
  look();
  const int result = ::nanosleep(&time, rest);
  look();
  return result;
}

}  // namespace

}  // namespace braid::dsm::parmacs

using namespace braid::dsm::parmacs;  // NOLINT
using braid::Duration;

// Linked into programs that call one of these.
extern const char braid_parmacs_sleeps;
const char braid_parmacs_sleeps = 1;

extern "C" {

int braid_parmacs_nanosleep(const timespec* time, timespec* rest) {
  return sleep_for(*time, rest);
}

int braid_parmacs_usleep(unsigned us) {
  return sleep_for(braid::to_timespec(Duration::us(us)), nullptr);
}

unsigned braid_parmacs_sleep(unsigned seconds) {
  timespec rest{};
  if (sleep_for(braid::to_timespec(Duration::s(seconds)), &rest) == 0) return 0;
  return static_cast<unsigned>(rest.tv_sec);
}

int braid_parmacs_sched_yield(void) {
  static constinit std::atomic<unsigned> yields{0};  // of the cluster
  if (is_simulated())
    braid::dsm::thread_host::sleep(Duration::us(1));
  else
    (void)::sched_yield();
  if (yields.fetch_add(1, std::memory_order_relaxed) % kYieldsToLook == 0) look();
  return 0;
}

// Of no descriptors it is a sleep.
int braid_parmacs_select(int count, fd_set* reads, fd_set* writes, fd_set* exceptions, timeval* timeout) {
  const bool sleeps = count == 0 && timeout != nullptr && timeout->tv_sec >= 0 && timeout->tv_usec >= 0;
  if (!sleeps) return ::select(count, reads, writes, exceptions, timeout);
  if (is_simulated()) {
    sleep_simulated(Duration::s(timeout->tv_sec) + Duration::us(timeout->tv_usec));
    *timeout = {};
    return 0;
  }
  look();
  const int result = ::select(count, reads, writes, exceptions, timeout);
  look();
  return result;
}

}  // extern "C"
