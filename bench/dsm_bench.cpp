// Measures the costs of remote memory: a remote read fault, a remote write fault, and the release of a page, each split
// into the parts of its way. A program as users' are; run it on two clusters:
//
//     braid run --clusters 2 --compute 1 --proxies 1 dsm_bench
//
// Cluster 0 measures, cluster 1 is the home of all pages. Medians over the pages of a round; pages were here
// before and have been invalidated, so what is measured is the protocol and not the first touch of memory. They are
// accessed in no order that the protocol recognises, or it would fetch them ahead (PG-25).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "dsm/api.h"
#include "dsm/live/trace.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT

constexpr std::size_t kWordsPerPage = 4096 / sizeof(std::uint64_t);
// A prime, and more than the pages: its multiples reach every page once.
constexpr std::size_t kStep = 611'953;

class Samples {
 public:
  void add(Duration d) { ns_.push_back(d.ns()); }
  double us(double quantile) {
    std::sort(ns_.begin(), ns_.end());
    return static_cast<double>(
               ns_[static_cast<std::size_t>(quantile * static_cast<double>(ns_.size() - 1))]) /
           1e3;
  }

 private:
  std::vector<std::int64_t> ns_;
};

struct FaultSamples {
  Samples entry, request, reply, install, back, all;
  void add(Instant before, const FaultStamps& s, Instant after) {
    entry.add(s.entered - before);
    request.add(s.requested - s.entered);
    reply.add(s.answered - s.requested);
    install.add(s.installed - s.answered);
    back.add(after - s.installed);
    all.add(after - before);
  }
  void print(const char* what) {
    fmt::print("{:<42} {:8.2f} {:8.2f} {:8.2f} {:8.2f} {:8.2f} | {:8.2f} {:8.2f}\n", what, entry.us(0.5),
               request.us(0.5), reply.us(0.5), install.us(0.5), back.us(0.5), all.us(0.5), all.us(0.9));
  }
};

struct Bench {
  volatile std::uint64_t* data;
  std::size_t pages;

  volatile std::uint64_t& word(std::size_t page) const { return data[page * kWordsPerPage]; }

  // The home writes every page, so that no other cluster has a copy after the barrier.
  void take_home(Node& node) const {
    if (node.cluster() == 1 && node.local() == 0) {
      for (std::size_t p = 0; p < pages; ++p) word(p) = word(p) + 1;
    }
    node.barrier();
  }
  FaultSamples fault_all(bool write) const {
    FaultSamples samples;
    for (std::size_t n = 0; n < pages; ++n) {
      const std::size_t p = n * kStep % pages;
      const Instant before = monotonic_now();
      if (write) {
        word(p) = p;
      } else {
        [[maybe_unused]] const std::uint64_t seen = word(p);
      }
      const Instant after = monotonic_now();
      if (latest_fault().entered >= before) samples.add(before, latest_fault(), after);
    }
    return samples;
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::size_t pages = 1000;
  CLI::App app("Latency of remote page faults and releases. Run it on two clusters of one compute node.",
               "dsm_bench");
  app.add_option("--pages", pages, "Faults of each kind")
      ->check(CLI::Range(10, 20000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);

  init();
  if (clusters() < 2) {
    fmt::print(stderr, "dsm_bench: needs two clusters: braid run --clusters 2 dsm_bench\n");
    return finish(2);
  }
  const Bench bench{allocate<std::uint64_t>(pages * kWordsPerPage, Placement::on(1)), pages};
  trace_faults(true);
  parallel([&](Node& node) {
    const bool measures = node.id() == 0;
    bench.take_home(node);
    if (measures) (void)bench.fault_all(false);  // brings both clusters' memory into being
    node.barrier();
    bench.take_home(node);
    FaultSamples read, write, computed;
    if (measures) read = bench.fault_all(false);
    node.barrier();
    bench.take_home(node);
    if (measures) write = bench.fault_all(true);
    node.barrier();

    // The home's compute node computes: its server thread must wake up for every request.
    bench.take_home(node);
    if (node.cluster() == 1 && node.local() == 0) {
      const Instant until = monotonic_now() + Duration::ms(500);
      while (monotonic_now() < until) continue;
    }
    if (measures) {
      Bench some = bench;
      some.pages = std::min<std::size_t>(pages, 200);
      computed = some.fault_all(false);
    }
    node.barrier();

    Samples lock_calls;
    for (int i = 0; measures && i < 1000; ++i) {
      const Instant before = monotonic_now();
      node.lock(7);
      node.unlock(7);
      lock_calls.add(monotonic_now() - before);
    }
    node.barrier();

    // One barrier alone tells little: the cluster that gathers it may find the other one there already. So:
    // the median of short rows of them. Each page is written once, because the only writer of a page soon has it
    // to itself (PG-23).
    bench.take_home(node);
    if (measures) (void)bench.fault_all(false);
    const auto row = [&](bool dirty) {
      constexpr std::size_t kBarriers = 20;
      Samples rows;
      for (std::size_t n = 0; n + kBarriers <= std::max(pages, kBarriers);) {
        node.barrier();
        const Instant start = monotonic_now();
        for (std::size_t i = 0; i < kBarriers; ++i, ++n) {
          volatile std::uint64_t& word = bench.word(n * kStep % pages);
          if (dirty && measures) word = word + 1;
          node.barrier(1);
        }
        rows.add((monotonic_now() - start) / kBarriers);
      }
      return rows.us(0.5);
    };
    const double clean = row(false);
    const double dirty = row(true);
    if (!measures) return;
    fmt::print("{:<42} {:>8} {:>8} {:>8} {:>8} {:>8} | {:>8} {:>8}\n", "microseconds, medians", "entry",
               "request", "reply", "install", "return", "all", "p90");
    read.print("remote read fault, home waits");
    write.print("remote write fault, home waits");
    computed.print("remote read fault, home computes");
    fmt::print("{:<42} {:8.2f}\n", "lock and unlock, token here", lock_calls.us(0.5));
    fmt::print("{:<42} {:8.2f}\n", "barrier, in rows of 20", clean);
    fmt::print("{:<42} {:8.2f}  (write fault and release: {:.2f})\n", "barrier with one dirty page", dirty,
               dirty - clean);
  });
  return finish(0);
}
