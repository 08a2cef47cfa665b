// The processors that the program sees: those of its run, whatever the host has. Each of the run's compute nodes is one, and in
// simulation each but that of main(): there a compute node runs a thread at a time, and a program that creates one for each
// processor beside a main() that joins them is to have room.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>

#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

unsigned processors() {
  static const unsigned all = on_private([] {
    const thread_host::Machine machine = thread_host::machine();
    const unsigned nodes = machine.clusters * machine.computing;
    return thread_host::starts_threads() ? nodes : std::max(nodes - 1, 1u);
  });
  return all;
}

namespace {

// An error number.
int show_all(std::size_t bytes, cpu_set_t* set) {
  if (bytes > SIZE_MAX / CHAR_BIT || bytes * CHAR_BIT < processors()) return EINVAL;
  CPU_ZERO_S(bytes, set);
  for (unsigned i = 0; i < processors(); ++i) CPU_SET_S(i, bytes, set);
  return 0;
}

// Of those that sched_setaffinity() knows: this process, and a thread of it.
bool is_own(pid_t thread) {
  return thread == 0 || (thread > 0 && ::syscall(SYS_tgkill, ::getpid(), thread, 0) == 0);
}

// The place of the calling thread, on whichever processor of the host it is.
unsigned calling_processor() {
  return current_thread()->place % processors();
}

}  // namespace

}  // namespace braid::dsm::pthreads

using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

long WRAPPED(sysconf)(int name) {
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return processors();
  return ::sysconf(name);
}
int WRAPPED(get_nprocs)() {
  return static_cast<int>(processors());
}
int WRAPPED(get_nprocs_conf)() {
  return static_cast<int>(processors());
}

// Accepted, without effect: the run's threads are bound, or not, as its settings say.
int WRAPPED(pthread_setaffinity_np)(pthread_t, std::size_t, const cpu_set_t*) {
  return 0;
}
int WRAPPED(pthread_getaffinity_np)(pthread_t, std::size_t bytes, cpu_set_t* set) {
  return show_all(bytes, set);
}
int WRAPPED(sched_setaffinity)(pid_t thread, std::size_t bytes, const cpu_set_t* set) {
  return is_own(thread) ? 0 : ::sched_setaffinity(thread, bytes, set);
}
int WRAPPED(sched_getaffinity)(pid_t thread, std::size_t bytes, cpu_set_t* set) {
  if (!is_own(thread)) return ::sched_getaffinity(thread, bytes, set);
  const int error_number = show_all(bytes, set);
  return error_number == 0 ? 0 : (errno = error_number, -1);
}
int WRAPPED(sched_getcpu)() {
  return static_cast<int>(calling_processor());
}
int WRAPPED(getcpu)(unsigned* processor, unsigned* domain) {
  if (processor != nullptr) *processor = calling_processor();
  if (domain != nullptr) *domain = 0;
  return 0;
}

}  // extern "C"
