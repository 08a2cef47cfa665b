// The live runtime as a process's host: how a program joins, and
// the functions of api.h and threads.h that are specific to it.
#include "dsm/live/machine.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/guarded.h"
#include "base/process_start.h"
#include "dsm/api.h"
#include "dsm/braid_dsm.h"
#include "dsm/live/runtime.h"
#include "dsm/live/trace.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/threads.h"

namespace braid::dsm {

namespace {

// A process of this program has no other hosts.
Runtime& runtime(const char* call) {
  return static_cast<Runtime&>(joined_host(call));
}

[[noreturn]] void fail_with(const Error& error) {
  fail_with_text(error.text.data(), error.text.size());
}

}  // namespace

void join_machine(const Environment& environment, std::unique_ptr<Network> network) {
  check_not_joined();
  Result<std::unique_ptr<Runtime>> started =
      Runtime::start(environment, std::move(network), ::program_invocation_short_name);
  if (!started) fail_with(started.error());
  join(std::move(started).value());
}

namespace {

// `nodes`: 0, or as in init_for_threads().
void join_the_run(unsigned nodes) {
  check_not_joined();
  if (!occupy_standard_descriptors())
    fail("descriptors 0 to 2 must be open, and /dev/null cannot be opened: {}", ::strerror(errno));
  // `braid run` reads standard output through a pipe, where the library would buffer until the
  // end: lines are written when they are complete, so they are seen at once, and after a crash too.
  if (std::getenv(variable::kCluster) != nullptr) std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Result<Environment> environment = Environment::read();
  if (!environment) fail_with(environment.error());
  if (nodes > 0) {
    environment->computing = environment->compute;
    environment->compute = static_cast<std::uint16_t>(std::max<unsigned>(nodes, environment->compute));
  }
  std::unique_ptr<Network> network;
  if (environment->clusters > 1) {
    Result<std::unique_ptr<Network>> connected = connect_through_service(*environment);
    if (!connected) fail_with(connected.error());
    network = std::move(connected).value();
  }
  join_machine(*environment, std::move(network));
}

void join_guarded(unsigned nodes) {
  try {
    join_the_run(nodes);
  } catch (...) {
    char text[256];
    describe_exception(text, sizeof text);
    fail("init(): {}", text);
  }
}

}  // namespace

void init() {
  join_guarded(0);
}

void init_for_threads(unsigned nodes) {
  join_guarded(nodes);
}

double seconds() {
  return static_cast<double>(monotonic_now().ns()) * 1e-9;
}

AdoptedThread::AdoptedThread(unsigned local) : stack_(std::make_unique<SignalStack>()) {
  runtime("AdoptedThread").adopt(local);
}
AdoptedThread::~AdoptedThread() {
  Runtime::leave();
}

void trace_faults(bool on) {
  runtime("trace_faults()").trace_faults(on);
}
FaultStamps latest_fault() {
  return runtime("latest_fault()").latest_fault();
}

}  // namespace braid::dsm

void braid_init(void) {
  braid::dsm::init();
}
