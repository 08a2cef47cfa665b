#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/fault_opener.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "dsm/api.h"
#include "dsm/live/machine.h"
#include "dsm/live/memory.h"

namespace braid::bench {

namespace {

// Runs body(results) in a process of its own, so that it may take addresses and signal handlers. The error
// tells how it ended.
Result<std::vector<double>> in_child(std::size_t count, const std::function<void(double*)>& body,
                                     const char* what) {
  double* const results = shared<double>(count);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return error("cannot start a process to time {}: {}", what, std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    body(results);
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return error("the process that times {} ended with {} {}", what, WIFEXITED(status) ? "status" : "signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  return std::vector<double>(results, results + count);
}

// As the runtime chooses.
Result<dsm::Memory> make_memory(std::uint32_t pages) {
  Result<dsm::Memory> memory = dsm::Memory::make(pages, dsm::Protection::kUserfaultfd);
  if (memory) return memory;
  return dsm::Memory::make(pages, dsm::Protection::kMprotect);
}

// In a process of its own: it takes the heap's address and the faults.
void time_faults_here(unsigned samples, double* results) {
  constexpr std::uint32_t kPages = 128;
  std::vector<double> faults, protects;
  bool userfaultfd = false;
  const auto round = [&](bool counts_faults) {
    Result<dsm::Memory> made = make_memory(kPages);
    CHECK(made.ok());
    dsm::Memory& memory = *made;
    userfaultfd = memory.protection() == dsm::Protection::kUserfaultfd;
    for (std::uint32_t p = 0; p < kPages; ++p) *memory.page(PageId(p)) = std::byte{1};
    // Every other page, so that neighbours differ.
    const auto each = [&](auto&& body) {
      const Instant begin = monotonic_now();
      for (std::uint32_t p = 0; p < kPages; p += 2) body(PageId(p));
      return ns_between(begin, monotonic_now()) / (kPages / 2.0);
    };
    const auto set = [&](dsm::Access access) {
      return each([&](PageId p) { memory.protect(p, 1, access); });
    };
    const auto at = [](PageId p) { return static_cast<volatile int*>(dsm::application_address(p)); };
    memory.protect(PageId(0), kPages, dsm::Access::kNone);
    const double to_read = set(dsm::Access::kRead), to_write = set(dsm::Access::kWrite);
    protects.insert(protects.end(), {to_read, to_write, set(dsm::Access::kRead), set(dsm::Access::kNone)});
    if (!counts_faults) return;
    FaultOpener opener(memory);
    const dsm::SignalStack stack;
    CHECK(dsm::install_fault_handler(&opener, dsm::HandlerStack::kSignalStack).ok());
    const double read = each([&](PageId p) { (void)*at(p); });
    const double write = each([&](PageId p) { *at(p) = 1; });
    dsm::remove_fault_handler();
    faults.push_back((read - to_read + write - to_write) / 2);
  };
  for (unsigned s = 0; s < samples; ++s) round(true);
  results[0] = median(faults);
  results[1] = median(protects);
  results[2] = userfaultfd ? 1 : 0;
  protects.clear();
  std::atomic<bool> stop{false};
  std::thread sibling([&] {
    while (!stop.load(std::memory_order_relaxed)) {
    }
  });
  for (unsigned s = 0; s < samples; ++s) round(false);
  stop = true;
  sibling.join();
  results[3] = median(protects);
}

}  // namespace

Result<FaultTimes> time_faults(unsigned samples) {
  const auto results = in_child(
      4, [&](double* r) { time_faults_here(samples, r); }, "page faults");
  if (!results) return results.error();
  const std::vector<double>& r = *results;
  return FaultTimes{.fault = r[0], .protect = r[1], .protect_beside_sibling = r[3], .userfaultfd = r[2] > 0};
}

Result<double> time_lock_call(unsigned samples) {
  const auto results = in_child(
      1,
      [&](double* r) {
        dsm::Environment alone;
        alone.heap_mib = 1;
        dsm::join_machine(alone, nullptr);
        dsm::parallel([&](dsm::Node& node) {
          *r = ns_each(samples, kRow,
                       [&](int) {
                         node.lock(7);
                         node.unlock(7);
                       }) /
               2;
        });
      },
      "calls");
  if (!results) return results.error();
  return results->front();
}

}  // namespace braid::bench
