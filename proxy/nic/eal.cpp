#include "proxy/nic/eal.h"

#include <fmt/core.h>
#include <rte_alarm.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace braid::proxy {
namespace {

// The EAL pins the thread that starts it and would run its own threads on the rest; so it is told of one
// lcore that may run wherever this process may.
std::string lcores_of(const cpu_set_t& cpus) {
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &cpus)) list += fmt::format("{}{}", list.empty() ? "" : ",", cpu);
  }
  return fmt::format("0@({})", list);
}

std::vector<std::string> arguments_of(const EalOptions& options, const cpu_set_t& cpus) {
  return {
      "braid",
      "--no-huge",       // ordinary memory: no privileges, nothing to reserve beforehand
      "--no-pci",        // the ports are those of the configuration
      "--no-shconf",     // nothing left in the file system when we are killed
      "--no-telemetry",  // no socket and no thread for it; the daemon has its own counters
      "--lcores",       lcores_of(cpus),     "-m",          fmt::format("{}", options.memory_mib),
      "--file-prefix",  options.file_prefix, "--log-level", "*:error",
  };
}

}  // namespace

Result<void> start_eal(const EalOptions& options) {
  static std::atomic<bool> started{false};
  if (started.exchange(true))
    return error("DPDK: it starts only once in a process: use the ports that it has");
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) != 0) {
    return error("DPDK: cannot read the CPU affinity: {}", std::strerror(errno));
  }
  std::vector<std::string> arguments = arguments_of(options, cpus);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  const int parsed = rte_eal_init(static_cast<int>(argv.size()), argv.data());
  const int failure = rte_errno;
  ::sched_setaffinity(0, sizeof cpus, &cpus);
  if (parsed < 0) {
    return error(
        "DPDK: the EAL did not start ({}); its own message stands above. If memory is short lower memory_mib "
        "({})",
        rte_strerror(failure), options.memory_mib);
  }
  // The EAL makes it even though nothing will lie in it.
  ::rmdir(rte_eal_get_runtime_dir());
  return {};
}

void run_in_interrupt_thread(void (*action)(void*), void* argument) {
  struct Call {
    void (*action)(void*);
    void* argument;
    std::atomic<bool> done{false};
  } call{action, argument};
  const auto run = [](void* data) {
    auto* const self = static_cast<Call*>(data);
    self->action(self->argument);
    self->done.store(true, std::memory_order_release);
  };
  // It needs memory. Its caller cannot go on without it, and has no one to tell: it waits for memory.
  int made = 0;
  while ((made = rte_eal_alarm_set(1, run, &call)) == -ENOMEM) ::usleep(1000);
  CHECK_EQ(made, 0);
  while (!call.done.load(std::memory_order_acquire)) ::usleep(100);
}

}  // namespace braid::proxy
