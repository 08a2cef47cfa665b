// The functions of api.h and threads.h that are specific to simulation: how a program joins, the time, and
// adopted threads.
#include <errno.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "dsm/api.h"
#include "dsm/braid_dsm.h"
#include "dsm/program/failure.h"
#include "dsm/program/faults.h"
#include "dsm/program/host.h"
#include "dsm/threads.h"
#include "sim/shell/host_layer.h"
#include "sim/shell/shell.h"

namespace braid::sim {

HostLayer host_layer = nullptr;

}  // namespace braid::sim

namespace braid::dsm {

void init() {
  check_not_joined();
  // Each line is written when it is complete, as in a live run.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Result<std::unique_ptr<sim::ShellHost>> started = sim::ShellHost::start(
      [](const char* name) -> const char* { return std::getenv(name); }, ::program_invocation_short_name);
  if (!started) fail_with_text(started.error());
  std::unique_ptr<Host> host = std::move(started).value();
  if (sim::host_layer != nullptr) host = sim::host_layer(std::move(host));
  join(std::move(host));
}

// Virtual time; constant before init() and after finish().
double seconds() {
  return sim::seconds_of_run();
}

AdoptedThread::AdoptedThread(unsigned) {
  fail(
      "AdoptedThread: in simulation a compute node is not a thread, and no thread can become one: use "
      "parallel(), or run_on_cluster() (dsm/threads.h), for loops inside a cluster");
}
AdoptedThread::~AdoptedThread() = default;

}  // namespace braid::dsm

void braid_init(void) {
  braid::dsm::init();
}
