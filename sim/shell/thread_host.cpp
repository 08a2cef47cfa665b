#include "dsm/program/thread_host.h"

#include <cstdlib>

#include "base/check.h"
#include "dsm/api.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "sim/charge/budget.h"
#include "sim/shell/before_init.h"
#include "sim/shell/mappings.h"
#include "sim/shell/own_threads.h"
#include "sim/shell/shell.h"

namespace braid::dsm::thread_host {

namespace {

// 2000-01-01, in every run.
constexpr Duration kBeginning = 946'684'800_s;

// Facts of the Control, which stay valid when it is unmapped.
struct Facts {
  Machine machine;
  std::int64_t cycles_per_second = 0;
};

const Facts& facts() {
  static const Facts all = [] {
    const Result<sim::Control*> control =
        sim::map_control([](const char* name) -> const char* { return std::getenv(name); });
    if (!control) fail_with_text(control.error());
    const sim::Control& c = **control;
    const Facts found = {.machine = {.clusters = c.clusters, .computing = c.compute, .nodes = c.compute},
                         .cycles_per_second = c.cycles_per_second};
    sim::unmap_control(*control);
    return found;
  }();
  return all;
}

sim::ShellHost& joined_shell() {
  sim::ShellHost* const shell = sim::ShellHost::current();
  CHECK(shell != nullptr);
  return *shell;
}

}  // namespace

// Called before the shell closes the file (sim/shell/mappings.h).
Machine machine() {
  return facts().machine;
}

bool starts_threads() {
  return false;
}

void join() {
  (void)facts();
  sim::has_own_threads = true;
  init();
}

// The shell must not run where it changes protections.
void use_stack(std::uintptr_t low, std::size_t bytes, std::uintptr_t top) {
  braid_spent_stack = {.low = low, .bytes = bytes, .top = top};
}

void renew_thread_variables() {
  joined_shell().renew_variables();
}

void leave() {
  joined_shell().leave();
}

Instant monotonic() {
  return Instant::from_ns(static_cast<std::int64_t>(sim::seconds_of_run() * 1e9));
}
Duration unix_time() {
  return kBeginning + (monotonic() - Instant());
}

void sleep(Duration time) {
  const auto units =
      static_cast<std::int64_t>(static_cast<__int128>(time.ns()) * facts().cycles_per_second / 1'000'000'000);
  if (sim::ShellHost* const shell = sim::ShellHost::current())
    shell->pass(units);
  else if (sim::before_init.pass != nullptr)
    sim::before_init.pass(units);
}

}  // namespace braid::dsm::thread_host
