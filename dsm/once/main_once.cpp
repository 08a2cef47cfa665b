#include "dsm/once/main_once.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/process_start.h"
#include "base/system_error.h"
#include "dsm/braid_dsm.h"
#include "dsm/live/allocation_sites.h"
#include "dsm/live/environment.h"
#include "dsm/live/written_globals.h"
#include "dsm/once/clone.h"
#include "dsm/once/fork.h"
#include "dsm/once/host.h"
#include "dsm/once/stand_in.h"
#include "dsm/once/warden.h"
#include "dsm/program/failure.h"
#include "dsm/program/globals.h"
#include "dsm/program/host.h"

namespace braid::dsm {

std::size_t once::heap_bytes_to_come() {
  const Result<Environment> environment = Environment::read();
  if (!environment) fail_with_text(environment.error());
  return std::size_t{environment->heap_mib} << 20;
}

const char* once::heap_setting() {
  return variable::kHeapMib;
}

void once::note_early_allocation(const void* memory, std::size_t bytes) {
  note_allocation(memory, bytes);
}

namespace {

using namespace once;

// Of cluster 0's program; written before main(). Without a constructor: those of this file may run later.
constinit Origin the_origin;

// Makes warden and program, and remains as cluster 0's stand-in; returns in the program.
void begin_cluster_0(const std::string& run, unsigned clusters, int timeout_ms) {
  int to_warden[2], to_program[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to_warden) != 0 ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, to_program) != 0)
    fail("cannot make a socket: {}", cause_and_cure(errno).c_str());
  const int listener = listen_for_stand_ins(run.c_str());
  if (listener < 0)
    fail("cannot listen for the processes of the other clusters: {}", cause_and_cure(-listener).c_str());
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t warden = ::fork();
  if (warden < 0) fail("cannot start a process: {}", cause_and_cure(errno).c_str());
  if (warden > 0) {
    for (const int fd : {to_warden[1], to_program[0], to_program[1], listener}) ::close(fd);
    stand_in_at(to_warden[0]);
  }
  ::close(to_warden[0]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t watching = ::getpid();
  const pid_t program = ::fork();
  if (program < 0) fail("cannot start a process: {}", cause_and_cure(errno).c_str());
  if (program > 0) {
    ::setpgid(0, 0);  // `braid run` ends a cluster's group with its stand-in
    ::close(to_program[1]);
    watch({.stand_in = to_warden[1],
           .program = to_program[0],
           .first = program,
           .listener = listener,
           .clusters = clusters,
           .timeout_ms = timeout_ms});
  }
  for (const int fd : {to_warden[1], to_program[0], listener}) ::close(fd);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != watching) ::_exit(kFailureStatus);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  the_origin = {to_program[1], watching, clusters};
}

// Before the program's own constructors. The C++ library's streams are not used: they may not be there yet.
[[gnu::constructor(101)]] void take_part() {
  const char* const name = ::getenv(variable::kRun);
  if (name == nullptr) return;
  const std::string run = name;
  // Programs that this one starts are no part of the run.
  ::unsetenv(variable::kRun);
  const bool main_elsewhere = ::getenv(variable::kMainElsewhere) != nullptr;
  ::unsetenv(variable::kMainElsewhere);
  const Result<Environment> environment = Environment::read();
  // An error is told by init(), in every cluster.
  if (!environment || environment->clusters == 1 || !occupy_standard_descriptors()) return;
  note_standard_descriptors();
  const auto timeout_ms = static_cast<int>(environment->connect_timeout.ns() / 1'000'000);
  if (environment->cluster == 0) return begin_cluster_0(run, environment->clusters, timeout_ms);
  ::setenv(variable::kRun, run.c_str(), 1);
  stand_in(run.c_str(), environment->cluster, timeout_ms, main_elsewhere);
}

}  // namespace

unsigned start_clusters() {
  check_first_start();
  note_main_runs_once();
  if (the_origin.socket >= 0) {
    check_single_thread();
    const unsigned cluster = clone_program(the_origin);
    watch_globals();
    return cluster;
  }
  const Result<Environment> environment = Environment::read();
  if (environment && environment->clusters > 1)
    fail(
        "start_clusters() was called in a process that `braid run` has not started: only that one has other clusters");
  return 0;
}

}  // namespace braid::dsm

unsigned braid_start_clusters(void) {
  return braid::dsm::start_clusters();
}
