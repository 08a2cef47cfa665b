// Measures the operations on remote memory when nothing but the protocol delays them: two clusters of one
// compute node, a process and a core each, and each process drives its own proxy ("invoker" mode).
//
//     dsm_invoker_bench
//
// Cluster 0 measures while cluster 1, the home of everything, waits inside the runtime. Medians, beside the
// goals of docs/PERFORMANCE.md. Exit status: 0 measured, 1 it could not be.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/no_order.h"
#include "bench/round_trips.h"
#include "bench/two_nodes.h"
#include "bench/two_processes.h"
#include "dsm/api.h"
#include "dsm/live/machine.h"
#include "dsm/live/service_network.h"
#include "proxy/daemon/in_process.h"
#include "proxy/nic/shm_wire.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT
using bench::Latencies;
using bench::Operation;
using bench::time_of;

constexpr std::size_t kWordsPerPage = 4096 / sizeof(std::uint64_t);
// The home of a word, and the manager of a lock, is its number modulo the clusters: these are cluster 1's.
constexpr unsigned kRemoteWord = 1;
constexpr unsigned kHandedLock = 1;
constexpr unsigned kRemoteLocks = 1000;  // from lock 3 on, every other one

proxy::NodeConfig node_config(std::uint16_t cluster, int wire) {
  proxy::NodeConfig c = bench::one_of_two_nodes(cluster, 9000);
  c.links.push_back(bench::end_of_wire(cluster, wire));
  return c;
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "dsm_invoker_bench: {}\n", result.error().text);
    std::_Exit(1);
  }
  return std::move(result).value();
}

void join(std::uint16_t cluster, int wire) {
  Environment environment;
  environment.cluster = cluster;
  environment.clusters = 2;
  environment.service = "inside the process";
  std::shared_ptr<proxy::Node> node = must(proxy::Node::create(node_config(cluster, wire), monotonic_now()));
  auto client = must(proxy::Client::attach(proxy::in_process_service(std::move(node)),
                                           ServiceNetwork::client_options(environment)));
  const Instant deadline = monotonic_now() + environment.connect_timeout;
  auto network = must(ServiceNetwork::begin(std::move(client), environment, deadline));
  if (!must(network->complete(environment.connect_timeout))) {
    fmt::print(stderr, "dsm_invoker_bench: the clusters did not find each other\n");
    std::_Exit(1);
  }
  join_machine(environment, std::move(network));
}

// In memory of both processes, beside the shared heap: for looking at the other side without touching it.
struct Beside {
  std::atomic<bool> wants[2] = {};        // a cluster is about to ask for the handed lock
  std::atomic<std::int64_t> released_ns;  // when the handed lock was given up last
};

constexpr std::size_t kMany = 32;  // pages of one release

struct Figures {
  Operation read_cold, read_again, write_cold, barrier, dirty, many_dirty, remote_lock, hand_off, fetch_add,
      relaxed_add;
  Operation one_relaxes, two_relax;  // an iteration of Jacobi on one cluster, and on both

  // The additional time of a barrier for dirty pages.
  double release_us() const { return dirty.us() - barrier.us(); }
  // Of each of many pages.
  double release_of_many_us() const { return (many_dirty.us() - barrier.us()) / kMany; }

  bench::NamedOperations operations() const {
    return {{"read miss, cold", &read_cold},
            {"read miss, again", &read_again},
            {"write miss, cold", &write_cold},
            {"barrier", &barrier},
            {"barrier with a dirty page", &dirty},
            {fmt::format("barrier with {} dirty pages", kMany), &many_dirty},
            {"remote lock, uncontended", &remote_lock},
            {"lock hand-off", &hand_off},
            {"fetch-and-add", &fetch_add},
            {"fetch-and-add, relaxed", &relaxed_add},
            {"Jacobi, one cluster", &one_relaxes},
            {"Jacobi, two clusters", &two_relax}};
  }
};

class Bench {
 public:
  Bench(std::size_t pages, Beside& beside)
      : pages_(pages),
        beside_(beside),
        read_(allocate<std::uint64_t>(pages * kWordsPerPage, Placement::on(1))),
        written_(allocate<std::uint64_t>(pages * kWordsPerPage, Placement::on(1))) {}

  void run(Node& node, Figures& f) {
    touch(node, read_, false, &f.read_cold);
    if (node.cluster() == 1) {
      for (std::size_t p = 0; p < pages_; ++p) read_[p * kWordsPerPage] = p;
    }
    touch(node, read_, false, &f.read_again);
    touch(node, written_, true, &f.write_cold);
    barriers(node, 0, &f.barrier);
    barriers(node, 1, &f.dirty);
    barriers(node, kMany, &f.many_dirty);
    remote_locks(node, &f.remote_lock);
    hand_offs(node, &f.hand_off);
    fetch_adds(node, MemoryOrder::kAcquireRelease, &f.fetch_add);
    fetch_adds(node, MemoryOrder::kRelaxed, &f.relaxed_add);
  }

 private:
  static constexpr int kTimes = 2000;

  void touch(Node& node, volatile std::uint64_t* data, bool write, Operation* faults) const {
    node.barrier();
    // Or pages would come before they are missed.
    const std::vector<std::size_t> pages = in_no_order(node.cluster() == 0 ? pages_ : 0);
    faults->take([&](Latencies* round) {
      for (const std::size_t p : pages) {
        round->record(time_of([&] {
          if (write)
            data[p * kWordsPerPage] = p;
          else
            (void)data[p * kWordsPerPage];
        }));
      }
    });
    node.barrier();
  }
  // Cluster 1 is there already, and waits; the barrier's root is there too, so its message has to come. Both
  // write to the dirty pages, or they would move to their only writer and nothing would be released.
  void barriers(Node& node, std::size_t dirty, Operation* calls) const {
    const auto write = [&](std::size_t word) {
      // Not neighbours, which would be closed with one call.
      for (std::size_t p = 0; p < dirty; ++p)
        written_[2 * p * kWordsPerPage + word] = written_[2 * p * kWordsPerPage + word] + 1;
    };
    calls->take([&](Latencies* round) {
      for (int i = 0; i < kTimes / (dirty > 1 ? 10 : 1); ++i) {
        if (node.cluster() == 1) write(1);
        node.barrier(1);
        if (node.cluster() == 0) {
          (void)node.load(kRemoteWord);  // long enough for the other side to come
          write(0);
        }
        round->record(time_of([&] { node.barrier(3); }));
      }
    });
  }
  void remote_locks(Node& node, Operation* calls) const {
    const auto number = [](unsigned k) { return 3 + 2 * k; };
    for (unsigned k = 0; node.cluster() == 1 && k < kRemoteLocks; ++k) {
      node.lock(number(k));
      node.unlock(number(k));
    }
    node.barrier();
    calls->take([&](Latencies* round) {
      for (unsigned k = 0; node.cluster() == 0 && k < kRemoteLocks; ++k) {
        round->record(time_of([&] { node.lock(number(k)); }));
        node.unlock(number(k));
      }
    });
    node.barrier();
  }
  // From one's unlock to the other's return from lock(), which waited for it.
  void hand_offs(Node& node, Operation* hand_offs) const {
    beside_.released_ns = 0;
    node.barrier();
    hand_offs->take([&](Latencies* round) { hand_off_in_turn(node, round); });
    node.barrier();
  }
  void hand_off_in_turn(Node& node, Latencies* round) const {
    const unsigned self = node.cluster();
    for (int i = 0; i < kTimes; ++i) {
      beside_.wants[self] = true;
      node.lock(kHandedLock);
      const std::int64_t now = monotonic_now().ns();
      beside_.wants[self] = false;
      if (beside_.released_ns != 0) round->record(Duration::ns(now - beside_.released_ns));
      // Inside the runtime, so that the other's request is served: until it surely has come.
      const bool last = i + 1 == kTimes;
      while (!last && !beside_.wants[1 - self]) (void)node.fetch_add(1 - self, 0);
      for (int k = 0; k < 3; ++k) (void)node.fetch_add(1 - self, 0);
      beside_.released_ns = monotonic_now().ns();
      node.unlock(kHandedLock);
      // The lock could stay here if this cluster took it again at once (LK-15).
      while (!last && beside_.wants[1 - self]) (void)node.fetch_add(1 - self, 0);
    }
  }
  void fetch_adds(Node& node, MemoryOrder order, Operation* calls) const {
    node.barrier();
    calls->take([&](Latencies* round) {
      for (int i = 0; node.cluster() == 0 && i < kTimes; ++i)
        round->record(time_of([&] { (void)node.fetch_add(kRemoteWord, 1, order); }));
    });
    node.barrier();
  }

  std::size_t pages_;
  Beside& beside_;
  std::uint64_t* read_;
  std::uint64_t* written_;
};

// Jacobi relaxation of a square grid, whose halves are each at the cluster that computes it: of all rows by cluster 0 in
// memory of its own, and of its half by each cluster in shared memory.
class Jacobi {
 public:
  Jacobi() : shared_{allocate<double>(kSide * kSide), allocate<double>(kSide * kSide)} {}

  void run(Node& node, Figures& f) {
    fill(node.cluster() * kSide / 2, kSide / 2, shared_);
    node.barrier();
    relaxations(
        [&](const double* from, double* to) {
          // The row that the other side also needs is last: a page is sent by a process that is in the runtime.
          const std::size_t edge = node.cluster() == 0 ? kSide / 2 - 1 : kSide / 2;
          relax(from, to, node.cluster() == 0 ? 1 : edge + 1, node.cluster() == 0 ? edge : kSide - 1);
          relax(from, to, edge, edge + 1);
          node.barrier();
        },
        shared_, &f.two_relax);
    if (node.cluster() == 0) {
      std::vector<double> a(kSide * kSide), b(kSide * kSide);
      const Grids own{a.data(), b.data()};
      fill(0, kSide, own);
      relaxations([](const double* from, double* to) { relax(from, to, 1, kSide - 1); }, own, &f.one_relaxes);
      CHECK(std::equal(a.begin(), a.end(), shared_[0]));
    }
    node.barrier();
  }

 private:
  static constexpr std::size_t kSide = 1024;
  static constexpr int kIterations = 100;
  using Grids = std::array<double*, 2>;

  // Other values at the upper edge, and different ones everywhere: a row that came late would show.
  static void fill(std::size_t first, std::size_t rows, const Grids& grids) {
    for (double* const grid : grids)
      for (std::size_t i = first * kSide; i < (first + rows) * kSide; ++i)
        grid[i] = i < kSide ? 1 : static_cast<double>(i % 7);
  }
  static void relax(const double* from, double* to, std::size_t first, std::size_t end) {
    for (std::size_t i = first * kSide; i < end * kSide; i += kSide)
      for (std::size_t j = i + 1; j < i + kSide - 1; ++j)
        to[j] = 0.25 * ((from[j - kSide] + from[j + kSide]) + (from[j - 1] + from[j + 1]));
  }
  // Ends with the result in the first grid.
  static void relaxations(auto&& iteration, const Grids& grids, Operation* times) {
    times->take([&](Latencies* round) {
      for (int k = 0; k < kIterations; ++k)
        round->record(time_of([&] { iteration(grids[k % 2], grids[1 - k % 2]); }));
    });
  }

  Grids shared_;
};

void print(const char* what, double us, double goal) {
  fmt::print("{:<28} {:8.2f} {:8.2f}   {}\n", what, us, goal, us <= goal ? "met" : "MISSED");
}

void print(const Figures& f) {
  fmt::print("{:<28} {:>8} {:>8}\n", "microseconds", "median", "goal");
  print("read miss, cold", f.read_cold.us(), 10);
  print("read miss, again", f.read_again.us(), 4.5);
  print("write miss, cold", f.write_cold.us(), 14);
  print("release of one page", f.release_us(), 6);
  fmt::print("{:<28} {:8.2f}   each\n", fmt::format("release of {} pages", kMany), f.release_of_many_us());
  print("barrier", f.barrier.us(), 6);
  print("remote lock, uncontended", f.remote_lock.us(), 4);
  print("lock hand-off", f.hand_off.us(), 12);
  print("fetch-and-add", f.fetch_add.us(), 4);
  print("fetch-and-add, relaxed", f.relaxed_add.us(), 1.05);
  print("Jacobi, two over one (ratio)", f.two_relax.us() / f.one_relaxes.us(), 1);
  fmt::print("\n");
  bench::print_latencies("us", f.operations());
}

nlohmann::json json_of(const Figures& f) {
  nlohmann::json json = bench::percentiles_json(f.operations());
  json["Jacobi, two clusters over one"]["median"] = f.two_relax.us() / f.one_relaxes.us();
  json["release of one page"]["median"] = f.release_us();
  json["release of many pages, each"]["median"] = f.release_of_many_us();
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t pages = 1000;
  int rounds = 1;
  bench::OutputOptions output;
  CLI::App app("Latency of operations on remote memory without a scheduler in between.", "dsm_invoker_bench");
  app.add_option("--pages", pages, "Faults of each kind")
      ->check(CLI::Range(64, 16000))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "Times that all is measured, each on new pages")
      ->check(CLI::Range(1, 20))
      ->capture_default_str();
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = bench::run_against(output, argc, argv, rounds)) return *status;

  Beside& beside = *bench::shared<Beside>();
  const int wire = must(proxy::create_shm_wire({}));
  const auto cluster = [&](std::uint16_t self) {
    join(self, wire);
    Figures f;
    Jacobi jacobi;
    for (int i = 0; i < rounds; ++i) {
      Bench measured(pages, beside);
      parallel([&](Node& node) {
        measured.run(node, f);
        jacobi.run(node, f);
      });
    }
    if (self != 0) return finish(0);
    print(f);
    return finish(bench::write_output("dsm_invoker_bench", output, json_of(f), f.operations()) ? 0 : 1);
  };
  const pid_t other = bench::spawn(1, [&] { cluster(1); });
  const int status = cluster(0);
  ::waitpid(other, nullptr, 0);
  return status;
}
