#include "dsm/program/thread_host.h"

#include <time.h>

#include "base/clock.h"
#include "base/timespec.h"
#include "dsm/live/environment.h"
#include "dsm/live/machine.h"
#include "dsm/program/failure.h"

namespace braid::dsm::thread_host {

Machine machine() {
  const Result<Environment> environment = Environment::read();
  if (!environment) fail_with_text(environment.error());
  return {.clusters = environment->clusters, .computing = environment->compute, .nodes = kMaxComputeNodes};
}

bool starts_threads() {
  return true;
}

void join() {
  init_for_threads(kMaxComputeNodes);
}

void use_stack(std::uintptr_t, std::size_t, std::uintptr_t) {}

// Threads of the system begin and end.
void renew_thread_variables() {}
void leave() {}

Instant monotonic() {
  return monotonic_now();
}
Duration unix_time() {
  return monotonic_now() - Instant() + unix_time_of_monotonic_zero();
}

void sleep(Duration time) {
  const timespec pause = to_timespec(time);
  ::nanosleep(&pause, nullptr);
}

}  // namespace braid::dsm::thread_host
