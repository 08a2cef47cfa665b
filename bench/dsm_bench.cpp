// Measures the costs of remote memory: a remote read fault, a remote write fault, and the release of a page, each split
// into the parts of its way. A program as users' are; run it on two clusters:
//
//     braid run --clusters 2 --compute 1 --proxies 1 dsm_bench
//
// Cluster 0 measures, cluster 1 is the home of all pages. Medians over the pages of all rounds; pages were here
// before and have been invalidated, so what is measured is the protocol and not the first touch of memory. They are
// accessed in no order that the protocol recognises, or it would fetch them ahead (PG-25).
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "base/clock.h"
#include "base/json.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/round_trips.h"
#include "dsm/api.h"
#include "dsm/live/trace.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT
using bench::Latencies;
using bench::Operation;
using bench::time_of;

constexpr std::size_t kWordsPerPage = 4096 / sizeof(std::uint64_t);
// A prime, and more than the pages: its multiples reach every page once.
constexpr std::size_t kStep = 611'953;

// The faults of one kind: the whole, and its parts.
struct Faults {
  Operation all;
  Latencies entry, request, reply, install, back;

  void add(Instant before, const FaultStamps& s, Instant after, Latencies* round) {
    entry.record(s.entered - before);
    request.record(s.requested - s.entered);
    reply.record(s.answered - s.requested);
    install.record(s.installed - s.answered);
    back.record(after - s.installed);
    round->record(after - before);
  }
  void print(const char* what) const {
    fmt::print("{:<34}", what);
    for (const Latencies* part : {&entry, &request, &reply, &install, &back, &all.all})
      fmt::print(" {:8.2f}", part->percentile(0.5).us());
    fmt::print("\n");
  }
};

struct Figures {
  Faults read, write, computed;
  Operation lock;
  Operation barrier, dirty;  // of which each is the mean of a row

  bench::NamedOperations operations() const {
    return {{"remote read fault", &read.all},
            {"remote write fault", &write.all},
            {"read fault, home computes", &computed.all},
            {"lock and unlock, token here", &lock},
            {"barrier, mean of 20", &barrier},
            {"barrier with a dirty page", &dirty}};
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
  // Every page, or `count` of them.
  void fault(bool write, std::size_t count, Faults* faults) const {
    faults->all.take([&](Latencies* round) {
      for (std::size_t n = 0; n < count; ++n) {
        const std::size_t p = n * kStep % pages;
        const Instant before = monotonic_now();
        if (write) {
          word(p) = p;
        } else {
          [[maybe_unused]] const std::uint64_t seen = word(p);
        }
        const Instant after = monotonic_now();
        if (latest_fault().entered >= before) faults->add(before, latest_fault(), after, round);
      }
    });
  }
  // One barrier alone tells little: the cluster that gathers it may find the other one there already. So the means of
  // short rows of them. Each page is written at most once, because the only writer of a page soon has it to itself
  // (PG-23).
  void barriers(Node& node, bool dirty, Operation* rows) const {
    constexpr std::size_t kBarriers = 20;
    rows->take([&](Latencies* round) {
      for (std::size_t n = 0; n + kBarriers <= std::max(pages, kBarriers);) {
        node.barrier();
        const Instant start = monotonic_now();
        for (std::size_t i = 0; i < kBarriers; ++i, ++n) {
          if (dirty && node.id() == 0) word(n * kStep % pages) = word(n * kStep % pages) + 1;
          node.barrier(1);
        }
        round->record((monotonic_now() - start) / kBarriers);
      }
    });
  }

  // The same in both clusters; the figures are cluster 0's.
  void round(Node& node, Figures& f) const {
    const bool measures = node.id() == 0;
    take_home(node);
    if (measures) fault(false, pages, &f.read);
    node.barrier();
    take_home(node);
    if (measures) fault(true, pages, &f.write);
    node.barrier();

    // The home's compute node computes: its server thread must wake up for every request.
    take_home(node);
    if (node.cluster() == 1 && node.local() == 0) {
      const Instant until = monotonic_now() + Duration::ms(500);
      while (monotonic_now() < until) continue;
    }
    if (measures) fault(false, std::min<std::size_t>(pages, 200), &f.computed);
    node.barrier();

    if (measures) {
      f.lock.take([&](Latencies* calls) {
        for (int i = 0; i < 1000; ++i) {
          calls->record(time_of([&] {
            node.lock(7);
            node.unlock(7);
          }));
        }
      });
    }
    node.barrier();
    bring(node);
    Operation not_measured;  // other compute nodes' rows
    barriers(node, false, measures ? &f.barrier : &not_measured);
    barriers(node, true, measures ? &f.dirty : &not_measured);
  }
  // Brings current copies of all pages to cluster 0.
  void bring(Node& node) const {
    take_home(node);
    for (std::size_t p = 0; node.id() == 0 && p < pages; ++p) {
      [[maybe_unused]] const std::uint64_t seen = word(p * kStep % pages);
    }
    node.barrier();
  }
};

void print(const Figures& f, int rounds) {
  fmt::print("{:<34} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n",
             fmt::format("microseconds, medians, {} rounds", rounds), "entry", "request", "reply", "install",
             "return", "all");
  f.read.print("remote read fault, home waits");
  f.write.print("remote write fault, home waits");
  f.computed.print("remote read fault, home computes");
  fmt::print("{:<34} {:8.2f}\n", "lock and unlock, token here", f.lock.us());
  fmt::print("{:<34} {:8.2f}\n", "barrier, in rows of 20", f.barrier.us());
  fmt::print("{:<34} {:8.2f}  (write fault and release: {:.2f})\n\n", "barrier with one dirty page",
             f.dirty.us(), f.dirty.us() - f.barrier.us());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t pages = 1000;
  int rounds = 1;
  bench::OutputOptions output;
  CLI::App app("Latency of remote page faults and releases. Run it on two clusters of one compute node.",
               "dsm_bench");
  app.add_option("--pages", pages, "Faults of each kind in a round")
      ->check(CLI::Range(10, 20000))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "Times that all is measured")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = bench::run_against(
          output, argc, argv, rounds, {"--clusters", "2", "--compute", "1", "--proxies", "1"}))
    return *status;

  init();
  if (clusters() < 2) {
    fmt::print(stderr, "dsm_bench: needs two clusters: braid run --clusters 2 dsm_bench\n");
    return finish(2);
  }
  const Bench bench{allocate<std::uint64_t>(pages * kWordsPerPage, Placement::on(1)), pages};
  trace_faults(true);
  Figures figures;
  parallel([&](Node& node) {
    bench.bring(node);  // brings both clusters' memory into being
    for (int i = 0; i < rounds; ++i) bench.round(node, figures);
  });
  if (cluster() != 0) return finish(0);
  print(figures, rounds);
  bench::print_latencies("us", figures.operations());
  nlohmann::json json = bench::percentiles_json(figures.operations());
  json["write fault and release"]["median"] = figures.dirty.us() - figures.barrier.us();
  return finish(bench::write_output("dsm_bench", output, json, figures.operations()) ? 0 : 1);
}
