// main() once (dsm/once/main_once.h) in simulation. `braid sim` lets cluster 0's program begin alone. start_clusters()
// clones it for every other cluster, in the order of their numbers; a clone waits for its first turn, as the process that
// the engine would have started does. It has the files with all Controls and heaps already, and maps its own parts of them.
//
//      engine ──first turn──► program 0: main() ... start_clusters()      clone ──► program 1: waits
//                                                    init(): a request    clone ──► program 2: waits
//      engine ──first turn──► program 1: start_clusters() returns 1, init() ...
//
// Computing before init() is charged: the clocks of all clusters begin with what cluster 0 has computed until then.
#include "dsm/once/main_once.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/system_error.h"
#include "dsm/braid_dsm.h"
#include "dsm/once/fork.h"
#include "dsm/once/host.h"
#include "dsm/program/failure.h"
#include "dsm/program/globals.h"
#include "dsm/program/host.h"
#include "sim/charge/budget.h"
#include "sim/shell/baton.h"
#include "sim/shell/before_init.h"
#include "sim/shell/control.h"
#include "sim/shell/mappings.h"

namespace braid::sim {

namespace {

using namespace dsm::once;
using dsm::fail;

// The program before init(). Written before main(): without a constructor, for those of this file may run later.
struct Beginning {
  Control* control = nullptr;  // of this process's cluster; nullptr: `braid sim` has not started the program
  pid_t engine = 0;
  bool is_started = false;  // start_clusters() was called
  bool is_over = false;     // init() was called
  std::int64_t units = 0;   // up to the last pause
  Meter meter{0};

  void go_on() { meter.start(kUnlimited); }
  void pause() { units += meter.stop(); }
};
constinit Beginning beginning;

const char* lookup(const char* name) {
  return ::getenv(name);
}

void keep_from_children(const char* name) {
  if (const char* const text = ::getenv(name)) ::fcntl(::atoi(text), F_SETFD, FD_CLOEXEC);
}

double seconds_before_init() {
  beginning.pause();
  const std::int64_t now = beginning.control->nodes[0].clock + beginning.units;
  beginning.go_on();
  return static_cast<double>(now) / static_cast<double>(beginning.control->cycles_per_second);
}

void pass_before_init(std::int64_t units) {
  beginning.units += units;
}

std::int64_t end_before_init() {
  beginning.pause();
  beginning.is_over = true;
  before_init = {};
  unmap_control(beginning.control);
  beginning.control = nullptr;
  return beginning.is_started ? beginning.units : 0;
}

// exit(), or the end of main(), in cluster 0 while it is alone: the run ends with it. Otherwise, and with a status that is
// not 0, the engine sees the end of the process.
void end_alone(int status, void*) {
  Beginning& b = beginning;
  if (b.control == nullptr || b.is_over || b.is_started || status != 0 || b.control->cluster != 0) return;
  if (::getppid() != b.engine) return;  // a child of the program
  b.pause();
  NodeControl& node = b.control->nodes[0];
  node.clock += b.units;
  node.request = {};
  node.request.kind = Request::Kind::kCollective;
  node.request.call.kind = dsm::CallKind::kLeave;
  node.runnable = false;
  b.control->counted = charges_are_counted();
  Baton(*b.control, b.engine).give(0);
}

// Before the program's own constructors. The C++ library's streams are not used: they may not be there yet.
[[gnu::constructor(101)]] void begin() {
  if (::getenv(variable::kControlFd) == nullptr) return;
  const Result<Control*> control = map_control(lookup);
  if (!control) return;  // init() tells
  for (const char* const name : {variable::kControlFd, variable::kHeapFd}) keep_from_children(name);
  note_standard_descriptors();
  beginning.control = *control;
  beginning.engine = ::getppid();
  beginning.control->is_once = true;
  before_init = {.seconds = seconds_before_init, .pass = pass_before_init, .end = end_before_init};
  (void)::on_exit(end_alone, nullptr);
  beginning.go_on();
}

Control& map_control_of(unsigned cluster) {
  const Result<Control*> control = map_control(lookup, cluster);
  if (!control) dsm::fail_with_text(control.error());
  return **control;
}

// The clone, until its first turn.
void become(unsigned cluster) {
  ::setenv(variable::kCluster, std::to_string(cluster).c_str(), 1);
  unmap_control(beginning.control);
  beginning.control = &map_control_of(cluster);
  forget_what_is_read();
  Baton(*beginning.control, beginning.engine).await();
  // The engine has taken it for its child by now.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != beginning.engine) ::_exit(dsm::kFailureStatus);
}

unsigned clone_program(unsigned clusters) {
  // Or each clone would write what is buffered once more.
  (void)::fflush(nullptr);
  stop_reading_ahead();
  for (unsigned cluster = 1; cluster < clusters; ++cluster) {
    const pid_t clone = fork_orphan();
    if (clone == 0) {
      become(cluster);
      return cluster;
    }
    Control& theirs = map_control_of(cluster);
    theirs.clone.store(clone);
    unmap_control(&theirs);
  }
  return 0;
}

}  // namespace

}  // namespace braid::sim

namespace braid::dsm {

namespace {

sim::Control& control_to_come() {
  if (sim::beginning.control == nullptr) {
    const Result<sim::Control*> control = sim::map_control(sim::lookup);
    if (!control) fail_with_text(control.error());
    fail("shared memory was allocated after init(), as if before");
  }
  return *sim::beginning.control;
}

}  // namespace

std::size_t once::heap_bytes_to_come() {
  return control_to_come().heap_bytes();
}

const char* once::heap_setting() {
  return "--heap-mib";
}

void once::note_early_allocation(const void*, std::size_t) {}

unsigned start_clusters() {
  once::check_first_start();
  note_main_runs_once();
  const sim::Control& control = control_to_come();
  if (control.cluster != 0)
    fail("start_clusters() was called in cluster {}, and in cluster 0 not before its init()",
         control.cluster);
  sim::beginning.pause();
  sim::beginning.is_started = true;
  unsigned cluster = 0;
  if (control.clusters > 1) {
    once::check_single_thread();
    cluster = sim::clone_program(control.clusters);
  }
  sim::beginning.go_on();
  return cluster;
}

}  // namespace braid::dsm

unsigned braid_start_clusters(void) {
  return braid::dsm::start_clusters();
}
