// Compares the two ways to forbid accesses to the shared heap (dsm/live/memory.h), in turns in one run:
// a fault up to its handler and the page's opening in it, a change of protection alone, and the closing of a
// run; with the process's only thread, and while a sibling computes on the other core. Each operation is timed, which adds
// a reading of the clock (20 ns).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/json.h"
#include "bench/against.h"
#include "bench/fault_opener.h"
#include "bench/latency_report.h"
#include "bench/round_trips.h"
#include "dsm/live/memory.h"
#include "dsm/program/faults.h"

namespace {

using namespace braid;
using namespace braid::dsm;
using bench::Latencies;
using bench::Operation;

constexpr std::uint32_t kPages = 256;

volatile int* at(std::uint32_t page) {
  return static_cast<volatile int*>(application_address(PageId(page)));
}

using Figures = std::map<std::string, Operation>;

// One turn of one of the two.
void measure(Protection protection, const std::string& how, Figures& figures) {
  Result<Memory> made = Memory::make(kPages, protection);
  if (!made) {
    fmt::print(stderr, "{}\n", made.error().text);
    std::exit(1);
  }
  Memory& memory = made.value();
  for (std::uint32_t p = 0; p < kPages; ++p) *memory.page(PageId(p)) = std::byte{1};
  bench::FaultOpener opener(memory);
  const SignalStack stack;
  if (const Result<void> installed = install_fault_handler(&opener, HandlerStack::kSignalStack); !installed)
    std::exit(1);
  const auto figure = [&](const char* what, std::uint32_t step, const auto& operation) {
    figures[fmt::format("{}{}", what, how)].take([&](Latencies* each) {
      for (std::uint32_t p = 0; p < kPages; p += step) each->record(bench::time_of([&] { operation(p); }));
    });
  };
  const auto protect = [&](std::uint32_t first, std::uint32_t count, Access access) {
    memory.protect(PageId(first), count, access);
  };
  // Every other page, so that neighbours differ.
  protect(0, kPages, Access::kNone);
  figure("read fault", 2, [&](std::uint32_t p) { (void)*at(p); });
  figure("write fault of a readable page", 2, [&](std::uint32_t p) { *at(p) = 1; });
  figure("closing a page for writing", 2, [&](std::uint32_t p) { protect(p, 1, Access::kRead); });
  figure("invalidating a page", 2, [&](std::uint32_t p) { protect(p, 1, Access::kNone); });
  protect(0, kPages, Access::kWrite);
  for (std::uint32_t p = 0; p < kPages; ++p) *at(p) = 1;
  figure("closing a run of 256 pages for writing", kPages,
         [&](std::uint32_t p) { protect(p, kPages, Access::kRead); });
  figure("invalidating a run of 256 pages", kPages,
         [&](std::uint32_t p) { protect(p, kPages, Access::kNone); });
  remove_fault_handler();
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 101;
  bench::OutputOptions output;
  CLI::App app("Costs of protecting the shared heap's pages by mprotect and by userfaultfd, in turns");
  app.add_option("--rounds", rounds, "of each")->check(CLI::Range(1, 100000))->capture_default_str();
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = bench::run_against(output, argc, argv, rounds)) return *status;
  Figures mprotect, userfaultfd;
  for (const bool sibling : {false, true}) {
    std::atomic<bool> stop{false};
    std::thread busy;
    if (sibling) {
      busy = std::thread([&] {
        while (!stop.load(std::memory_order_relaxed)) {
        }
      });
    }
    const std::string how = sibling ? ", a sibling computes" : "";
    for (int round = 0; round < rounds; ++round) {
      measure(Protection::kMprotect, how, mprotect);
      measure(Protection::kUserfaultfd, how, userfaultfd);
    }
    stop = true;
    if (busy.joinable()) busy.join();
  }
  fmt::print("{:<62} {:>10} {:>12} {:>7}\n", "us, median", "mprotect", "userfaultfd", "ratio");
  bench::NamedOperations operations;
  for (const auto& [what, operation] : mprotect) {
    const Operation& other = userfaultfd.at(what);
    const double a = operation.us(), b = other.us();
    fmt::print("{:<62} {:>10.2f} {:>12.2f} {:>7.2f}\n", what, a, b, b / a);
    operations.emplace_back(what + ", mprotect", &operation);
    operations.emplace_back(what + ", userfaultfd", &other);
  }
  fmt::print("\n");
  bench::print_latencies("us", operations);
  return bench::write_output("protection_bench", output, bench::percentiles_json(operations), operations) ? 0
                                                                                                          : 1;
}
