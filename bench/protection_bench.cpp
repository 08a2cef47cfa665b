// Compares the two ways to forbid accesses to the shared heap (dsm/live/memory.h), in turns in one run:
// a fault up to its handler and the page's opening in it, a change of protection alone, and the closing of a
// run; with the process's only thread, and while a sibling computes on the other core.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/fault_opener.h"
#include "bench/two_processes.h"
#include "dsm/live/memory.h"
#include "dsm/program/faults.h"

namespace {

using namespace braid;
using namespace braid::dsm;
using bench::median;

constexpr std::uint32_t kPages = 256;

volatile int* at(std::uint32_t page) {
  return static_cast<volatile int*>(application_address(PageId(page)));
}

double us_each(const std::function<void()>& operations, std::uint32_t count) {
  const Instant began = monotonic_now();
  operations();
  return static_cast<double>((monotonic_now() - began).ns()) / 1e3 / count;
}

using Figures = std::map<std::string, std::vector<double>>;

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
  const auto figure = [&](const char* what, std::uint32_t count, const std::function<void()>& operations) {
    figures[fmt::format("{}{}", what, how)].push_back(us_each(operations, count));
  };
  // Every other page, so that neighbours differ.
  const auto alternate = [&](Access access) {
    for (std::uint32_t p = 0; p < kPages; p += 2) memory.protect(PageId(p), 1, access);
  };
  memory.protect(PageId(0), kPages, Access::kNone);
  figure("read fault", kPages / 2, [&] {
    for (std::uint32_t p = 0; p < kPages; p += 2) (void)*at(p);
  });
  figure("write fault of a readable page", kPages / 2, [&] {
    for (std::uint32_t p = 0; p < kPages; p += 2) *at(p) = 1;
  });
  figure("closing a page for writing", kPages / 2, [&] { alternate(Access::kRead); });
  figure("invalidating a page", kPages / 2, [&] { alternate(Access::kNone); });
  memory.protect(PageId(0), kPages, Access::kWrite);
  for (std::uint32_t p = 0; p < kPages; ++p) *at(p) = 1;
  figure("closing a run of 256 pages for writing", 1,
         [&] { memory.protect(PageId(0), kPages, Access::kRead); });
  figure("invalidating a run of 256 pages", 1, [&] { memory.protect(PageId(0), kPages, Access::kNone); });
  remove_fault_handler();
}

}  // namespace

int main(int argc, char** argv) {
  unsigned rounds = 101;
  CLI::App app("Costs of protecting the shared heap's pages by mprotect and by userfaultfd, in turns");
  app.add_option("--rounds", rounds, "of each")->check(CLI::Range(1, 100000))->capture_default_str();
  CLI11_PARSE(app, argc, argv);
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
    for (unsigned round = 0; round < rounds; ++round) {
      measure(Protection::kMprotect, how, mprotect);
      measure(Protection::kUserfaultfd, how, userfaultfd);
    }
    stop = true;
    if (busy.joinable()) busy.join();
  }
  fmt::print("{:<62} {:>10} {:>12} {:>7}\n", "us, median", "mprotect", "userfaultfd", "ratio");
  for (const auto& [what, values] : mprotect) {
    const double a = median(values), b = median(userfaultfd[what]);
    fmt::print("{:<62} {:>10.2f} {:>12.2f} {:>7.2f}\n", what, a, b, b / a);
  }
}
