// Calls of the C library for processes, time, signals and limits (system_calls.h). program_signals.cpp has sigaction() and
// the thread's mask.
#undef _FORTIFY_SOURCE  // its inline functions would have the names that are defined here

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "dsm/program/given_mask.h"
#include "dsm/program/shared_arguments.h"

// Calls of programs that were compiled with _FORTIFY_SOURCE: `room` is the size that the compiler knows.
extern "C" {
int __gethostname_chk(char* buffer, std::size_t bytes, std::size_t room);
int __getgroups_chk(int count, gid_t* groups, std::size_t room);
}

#define BRAID_EACH_PROCESS_CALL(X) \
  X(uname)                         \
  X(gethostname)                   \
  X(sysinfo)                       \
  X(getrusage)                     \
  X(times)                         \
  X(getrlimit)                     \
  X(setrlimit)                     \
  X(prlimit)                       \
  X(nanosleep)                     \
  X(clock_nanosleep)               \
  X(clock_gettime)                 \
  X(clock_getres)                  \
  X(gettimeofday)                  \
  X(time)                          \
  X(getitimer)                     \
  X(setitimer)                     \
  X(timer_create)                  \
  X(timer_settime)                 \
  X(timer_gettime)                 \
  X(wait)                          \
  X(waitpid)                       \
  X(wait3)                         \
  X(wait4)                         \
  X(waitid)                        \
  X(posix_spawn)                   \
  X(posix_spawnp)                  \
  X(sigpending)                    \
  X(sigsuspend)                    \
  X(sigwait)                       \
  X(sigwaitinfo)                   \
  X(sigtimedwait)                  \
  X(getgroups)                     \
  X(getresuid)                     \
  X(getresgid)                     \
  X(sched_getaffinity)             \
  X(sched_setaffinity)             \
  X(sched_getparam)                \
  X(sched_setparam)                \
  X(sched_setscheduler)            \
  X(sched_rr_get_interval)         \
  X(__gethostname_chk)             \
  X(__getgroups_chk)

BRAID_EACH_PROCESS_CALL(BRAID_WEAK_CALL)

namespace braid::dsm {

namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
BRAID_ORIGINALS(BRAID_EACH_PROCESS_CALL)
#pragma GCC diagnostic pop

// The arguments or the environment of a new process, whose kernel reads them before any handler of page faults.
class Words {
 public:
  explicit Words(char* const* theirs) : given_(theirs) {
    std::size_t count = 0;
    bool shared = is_shared(theirs);
    for (; theirs != nullptr && theirs[count] != nullptr; ++count) shared |= is_shared(theirs[count]);
    if (!shared) return;
    texts_.assign(theirs, theirs + count);
    for (std::string& text : texts_) words_.push_back(text.data());
    words_.push_back(nullptr);
    given_ = words_.data();
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  operator char* const*() const { return given_; }  // NOLINT: it stands where the C library takes an array

 private:
  char* const* given_;
  std::vector<std::string> texts_;
  std::vector<char*> words_;
};

}  // namespace

NamesOfCalls process_calls() {
  return kNamesOfCalls;
}

}  // namespace braid::dsm

// --- The C library's names

using namespace braid::dsm;  // NOLINT

#pragma GCC visibility push(default)
extern "C" {

int uname(utsname* name) noexcept {
  return original().uname(Changed<utsname>(name));
}
int gethostname(char* buffer, std::size_t bytes) noexcept {
  ChangedBytes copy(buffer, bytes);
  return copy.is_there() ? original().gethostname(copy.as<char>(), bytes) : -1;
}
int sysinfo(struct sysinfo* info) noexcept {
  return original().sysinfo(Changed<struct sysinfo>(info));
}
int getrusage(__rusage_who_t who, rusage* usage) noexcept {
  return original().getrusage(who, Changed<rusage>(usage));
}
clock_t times(tms* used) noexcept {
  return original().times(Changed<tms>(used));
}
// AddressSanitizer's runtime calls these two before the memory is there that its instrumented code needs.
[[gnu::no_sanitize("address", "undefined")]] int getrlimit(__rlimit_resource_t resource,
                                                           rlimit* limit) noexcept {
  if (!are_found) return static_cast<int>(::syscall(SYS_prlimit64, 0, resource, nullptr, limit));
  return original().getrlimit(resource, Changed<rlimit>(limit));
}
[[gnu::no_sanitize("address", "undefined")]] int setrlimit(__rlimit_resource_t resource,
                                                           const rlimit* limit) noexcept {
  if (!are_found) return static_cast<int>(::syscall(SYS_prlimit64, 0, resource, limit, nullptr));
  return original().setrlimit(resource, Given<rlimit>(limit));
}
int prlimit(pid_t process, __rlimit_resource resource, const rlimit* limit, rlimit* before) noexcept {
  return original().prlimit(process, resource, Given<rlimit>(limit), Changed<rlimit>(before));
}

int nanosleep(const timespec* time, timespec* left) {
  return original().nanosleep(Given<timespec>(time), Changed<timespec>(left));
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  return original().clock_nanosleep(clock, flags, Given<timespec>(time), Changed<timespec>(left));
}
int clock_gettime(clockid_t clock, timespec* time) noexcept {
  return original().clock_gettime(clock, Changed<timespec>(time));
}
int clock_getres(clockid_t clock, timespec* resolution) noexcept {
  return original().clock_getres(clock, Changed<timespec>(resolution));
}
int gettimeofday(timeval* time, void* zone) noexcept {
  return original().gettimeofday(Changed<timeval>(time), zone);
}
time_t time(time_t* time) noexcept {
  return original().time(Changed<time_t>(time));
}
int getitimer(__itimer_which_t which, itimerval* time) noexcept {
  return original().getitimer(which, Changed<itimerval>(time));
}
int setitimer(__itimer_which_t which, const itimerval* time, itimerval* before) noexcept {
  return original().setitimer(which, Given<itimerval>(time), Changed<itimerval>(before));
}
int timer_create(clockid_t clock, sigevent* event, timer_t* timer) noexcept {
  return original().timer_create(clock, Changed<sigevent>(event), Changed<timer_t>(timer));
}
int timer_settime(timer_t timer, int flags, const itimerspec* time, itimerspec* before) noexcept {
  return original().timer_settime(timer, flags, Given<itimerspec>(time), Changed<itimerspec>(before));
}
int timer_gettime(timer_t timer, itimerspec* time) noexcept {
  return original().timer_gettime(timer, Changed<itimerspec>(time));
}

pid_t wait(int* status) {
  return original().wait(Changed<int>(status));
}
pid_t waitpid(pid_t process, int* status, int options) {
  return original().waitpid(process, Changed<int>(status), options);
}
pid_t wait3(int* status, int options, rusage* usage) noexcept {
  return original().wait3(Changed<int>(status), options, Changed<rusage>(usage));
}
pid_t wait4(pid_t process, int* status, int options, rusage* usage) noexcept {
  return original().wait4(process, Changed<int>(status), options, Changed<rusage>(usage));
}
int waitid(idtype_t type, id_t id, siginfo_t* info, int options) {
  return original().waitid(type, id, Changed<siginfo_t>(info), options);
}
int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  return original().posix_spawn(Changed<pid_t>(process), Name(path),
                                Given<posix_spawn_file_actions_t>(actions),
                                Given<posix_spawnattr_t>(attributes), Words(words), Words(environment));
}
int posix_spawnp(pid_t* process, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const* words, char* const* environment) {
  return original().posix_spawnp(Changed<pid_t>(process), Name(file),
                                 Given<posix_spawn_file_actions_t>(actions),
                                 Given<posix_spawnattr_t>(attributes), Words(words), Words(environment));
}

int sigpending(sigset_t* pending) noexcept {
  return original().sigpending(Changed<sigset_t>(pending));
}
int sigsuspend(const sigset_t* mask) {
  return original().sigsuspend(GivenMask(mask));
}
int sigwait(const sigset_t* signals, int* number) {
  const Given<sigset_t> given(signals);
  return wait_for_signal([&] { return original().sigtimedwait(given, nullptr, nullptr); }, number);
}
int sigwaitinfo(const sigset_t* signals, siginfo_t* info) {
  return original().sigwaitinfo(Given<sigset_t>(signals), Changed<siginfo_t>(info));
}
int sigtimedwait(const sigset_t* signals, siginfo_t* info, const timespec* timeout) {
  return original().sigtimedwait(Given<sigset_t>(signals), Changed<siginfo_t>(info),
                                 Given<timespec>(timeout));
}

int getgroups(int count, gid_t* groups) noexcept {
  ChangedBytes copy(groups, count < 0 ? 0 : static_cast<std::size_t>(count) * sizeof *groups);
  return copy.is_there() ? original().getgroups(count, copy.as<gid_t>()) : -1;
}
int getresuid(uid_t* real, uid_t* effective, uid_t* saved) noexcept {
  return original().getresuid(Changed<uid_t>(real), Changed<uid_t>(effective), Changed<uid_t>(saved));
}
int getresgid(gid_t* real, gid_t* effective, gid_t* saved) noexcept {
  return original().getresgid(Changed<gid_t>(real), Changed<gid_t>(effective), Changed<gid_t>(saved));
}

int sched_getaffinity(pid_t process, std::size_t bytes, cpu_set_t* set) noexcept {
  ChangedBytes copy(set, bytes);
  return copy.is_there() ? original().sched_getaffinity(process, bytes, copy.as<cpu_set_t>()) : -1;
}
int sched_setaffinity(pid_t process, std::size_t bytes, const cpu_set_t* set) noexcept {
  const GivenBytes copy(set, bytes);
  return copy.is_there() ? original().sched_setaffinity(process, bytes, copy.as<cpu_set_t>()) : -1;
}
int sched_getparam(pid_t process, sched_param* parameters) noexcept {
  return original().sched_getparam(process, Changed<sched_param>(parameters));
}
int sched_setparam(pid_t process, const sched_param* parameters) noexcept {
  return original().sched_setparam(process, Given<sched_param>(parameters));
}
int sched_setscheduler(pid_t process, int policy, const sched_param* parameters) noexcept {
  return original().sched_setscheduler(process, policy, Given<sched_param>(parameters));
}
int sched_rr_get_interval(pid_t process, timespec* interval) noexcept {
  return original().sched_rr_get_interval(process, Changed<timespec>(interval));
}

// The original ends the program where the compiler knows that the buffer is too small.
int __gethostname_chk(char* buffer, std::size_t bytes, std::size_t room) {  // NOLINT
  return is_shared(buffer) && bytes <= room ? ::gethostname(buffer, bytes)
                                            : original().__gethostname_chk(buffer, bytes, room);
}
int __getgroups_chk(int count, gid_t* groups, std::size_t room) {  // NOLINT
  return count >= 0 && static_cast<std::size_t>(count) * sizeof *groups <= room
             ? ::getgroups(count, groups)
             : original().__getgroups_chk(count, groups, room);
}

// The names of programs that were compiled for large files: limits are the same with and without.
static_assert(sizeof(rlimit) == sizeof(rlimit64));
[[gnu::weak]] int getrlimit64(__rlimit_resource_t resource, rlimit64* limit) noexcept {
  return ::getrlimit(resource, reinterpret_cast<rlimit*>(limit));
}
[[gnu::weak]] int setrlimit64(__rlimit_resource_t resource, const rlimit64* limit) noexcept {
  return ::setrlimit(resource, reinterpret_cast<const rlimit*>(limit));
}
[[gnu::weak]] int prlimit64(pid_t process, __rlimit_resource resource, const rlimit64* limit,
                            rlimit64* before) noexcept {
  return ::prlimit(process, resource, reinterpret_cast<const rlimit*>(limit),
                   reinterpret_cast<rlimit*>(before));
}

}  // extern "C"
#pragma GCC visibility pop
