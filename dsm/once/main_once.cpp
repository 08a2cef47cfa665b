#include "dsm/once/main_once.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "base/process_start.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "dsm/braid_dsm.h"
#include "dsm/live/allocation_sites.h"
#include "dsm/live/environment.h"
#include "dsm/live/written_globals.h"
#include "dsm/once/clone.h"
#include "dsm/once/courier.h"
#include "dsm/once/fork.h"
#include "dsm/once/host.h"
#include "dsm/once/image.h"
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

// Of a fetcher: there is no image to come.
constexpr int kNoImageStatus = 3;

struct HostPlan {
  std::string run;
  unsigned cluster = 0;            // of this process
  std::vector<unsigned> clusters;  // of this host, ascending
  unsigned clusters_elsewhere = 0;
  int timeout_ms = 0;
};

void connect_pair(int pair[2]) {
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
    fail("cannot make a socket: {}", cause_and_cure(errno).c_str());
}

int make_image_file() {
  const int file = ::memfd_create("braid-image", MFD_CLOEXEC);
  if (file < 0) fail("cannot make a file in memory: {}", cause_and_cure(errno).c_str());
  return file;
}

// fork(), of which the child ends with this process.
pid_t fork_child() {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail("cannot start a process: {}", cause_and_cure(errno).c_str());
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kFailureStatus);
  }
  return child;
}

// The process in which this host's clusters go on with the image of cluster 0's process.
[[noreturn]] void receive_program(const HostPlan& plan, int warden) {
  const auto clusters = static_cast<unsigned>(plan.clusters.size());
  note_start();
  const int file = make_image_file();
  const pid_t fetcher = fork_child();
  if (fetcher == 0) {
    ::close(warden);
    ::_exit(fetch_image(file, clusters) == Fetched::kImage ? 0 : kNoImageStatus);
  }
  int status = 0;
  while (::waitpid(fetcher, &status, 0) < 0 && errno == EINTR) {
  }
  if (status == W_EXITCODE(kNoImageStatus, 0)) ::_exit(0);
  if (WIFSIGNALED(status))
    fail("the process that fetches the image of cluster 0's process was ended by signal {}",
         WTERMSIG(status));
  if (status != 0) ::_exit(kFailureStatus);
  for (const char* const name : {variable::kReportFd, variable::kPulseFd}) {
    if (const char* const fd = ::getenv(name)) ::close(::atoi(fd));
  }
  restore_image(file, {.socket = warden, .warden = ::getppid(), .clusters = clusters});
}

// Makes warden and program, and remains as the stand-in of the host's first cluster; returns in cluster 0's program.
void begin_host(const HostPlan& plan) {
  const bool has_cluster_0 = plan.cluster == 0;
  const bool goes_elsewhere = has_cluster_0 && plan.clusters_elsewhere > 0;
  int to_warden[2] = {-1, -1}, to_program[2], to_courier[2] = {-1, -1};
  if (has_cluster_0) connect_pair(to_warden);
  connect_pair(to_program);
  if (goes_elsewhere) connect_pair(to_courier);
  const int image = goes_elsewhere ? make_image_file() : -1;
  const int listener = listen_for_stand_ins(plan.run.c_str(), plan.cluster);
  if (listener < 0)
    fail("cannot listen for the processes of the other clusters: {}", cause_and_cure(-listener).c_str());
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t warden = ::fork();
  if (warden < 0) fail("cannot start a process: {}", cause_and_cure(errno).c_str());
  if (warden > 0) {
    for (const int fd :
         {to_warden[1], to_program[0], to_program[1], to_courier[0], to_courier[1], image, listener})
      ::close(fd);
    if (!has_cluster_0) stand_in(plan.run.c_str(), plan.cluster, plan.cluster, plan.timeout_ms);
    stand_in_at(to_warden[0]);
  }
  ::close(to_warden[0]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t watching = ::getpid();
  const pid_t program = fork_child();
  if (program > 0) {
    ::setpgid(0, 0);  // `braid run` ends a cluster's group with its stand-in
    ::close(to_program[1]);
    ::close(to_courier[0]);
    const pid_t courier = goes_elsewhere ? fork_child() : -1;
    if (courier == 0) {
      for (const int fd : {to_warden[1], to_program[0], listener}) ::close(fd);
      note_start();
      carry_image(to_courier[1], image, plan.clusters_elsewhere);
    }
    ::close(to_courier[1]);
    ::close(image);
    watch({.stand_in = to_warden[1],
           .program = to_program[0],
           .first = program,
           .courier = courier,
           .listener = listener,
           .clusters = plan.clusters,
           .timeout_ms = plan.timeout_ms});
  }
  for (const int fd : {to_warden[1], to_program[0], to_courier[1], listener}) ::close(fd);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!has_cluster_0) receive_program(plan, to_program[1]);
  the_origin = {.socket = to_program[1],
                .warden = watching,
                .clusters = static_cast<unsigned>(plan.clusters.size()),
                .courier = to_courier[0],
                .image = image};
  if (goes_elsewhere) note_start();
}

// On several hosts the process of one is to go on on the others, so its addresses must be free there. Returns when they are not
// randomised; the program begins anew for it.
void begin_without_randomisation(char** arguments) {
  const int now = ::personality(0xffffffff);
  if (now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (now < 0 || ::personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) < 0)
    fail(
        "main() of this program runs once, and its process goes on on other hosts, for which addresses must not be randomised; but "
        "personality() is refused here: {}; permit it (a container's seccomp rules), or run the program on one host",
        cause_and_cure(errno).c_str());
  // By its own path, so that its name stays; but the file may have been replaced or removed.
  char path[4096] = {};
  if (::readlink("/proc/self/exe", path, sizeof path - 1) > 0) ::execv(path, arguments);
  ::execv("/proc/self/exe", arguments);
  fail("cannot start the program anew without randomised addresses: {}", cause_and_cure(errno).c_str());
}

// Before the program's own constructors. The C++ library's streams are not used: they may not be there yet.
[[gnu::constructor(101)]] void take_part(int, char** arguments, char**) {
  const char* const name = ::getenv(variable::kRun);
  if (name == nullptr) return;
  const char* const of_host = ::getenv(variable::kHostClusters);
  if (of_host != nullptr) begin_without_randomisation(arguments);
  HostPlan plan;
  plan.run = name;
  if (of_host != nullptr) plan.clusters = parse_processors(of_host).value_or(std::vector<unsigned>());
  // Programs that this one starts are no part of the run.
  ::unsetenv(variable::kRun);
  ::unsetenv(variable::kHostClusters);
  const Result<Environment> environment = Environment::read();
  // An error is told by init(), in every cluster.
  if (!environment || environment->clusters == 1 || !occupy_standard_descriptors()) return;
  note_standard_descriptors();
  plan.cluster = environment->cluster;
  if (plan.clusters.empty()) {
    for (unsigned k = 0; k < environment->clusters; ++k) plan.clusters.push_back(k);
  }
  plan.clusters_elsewhere = environment->clusters - static_cast<unsigned>(plan.clusters.size());
  plan.timeout_ms = static_cast<int>(environment->connect_timeout.ns() / 1'000'000);
  if (plan.cluster == plan.clusters.front()) return begin_host(plan);
  ::setenv(variable::kRun, plan.run.c_str(), 1);
  stand_in(plan.run.c_str(), plan.cluster, plan.clusters.front(), plan.timeout_ms);
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
