// Measures the operations on remote memory through the daemons, and in the same run the round-trip times of
// messages of the same sizes through these daemons, and a fault that needs no message.
//
//     braid run --clusters 2 --compute 1 dsm_service_bench
//
// Cluster 0 measures. Cluster 1, the home of everything, waits in the runtime, or echoes messages. All is
// measured in turn in every round; medians. Exit status: 0 measured, 1 it could not be.
#include <fmt/core.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/no_order.h"
#include "bench/round_trips.h"
#include "bench/two_processes.h"
#include "dsm/api.h"
#include "dsm/live/environment.h"
#include "proxy/client/client.h"

namespace {

using namespace braid;       // NOLINT
using namespace braid::dsm;  // NOLINT
using bench::Latencies;
using bench::median;
using bench::Operation;
using bench::time_of;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr std::uint32_t kSmall = 64, kLarge = 8192;
constexpr PortId kPort(9);

template <class T>
T must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "dsm_service_bench: {}\n", result.error().text);
    std::_Exit(1);
  }
  return std::move(result).value();
}

// A connection of its own beside the runtime's, through the same daemons.
class Messages {
 public:
  explicit Messages(std::uint16_t cluster) {
    proxy::ClientOptions options;
    client_ = must(proxy::Client::attach(must(Environment::read()).service, options));
    proxy::ConnectionOptions c;
    c.ordered = false;
    if (cluster == 1) {
      const Result<void> listening = endpoint().listen(kPort, c);
      CHECK(listening.ok());
      other_ = must(endpoint().accept(10_s));
    } else {
      other_ = must(endpoint().connect(ClusterId(1), kPort, c, 10_s));
    }
  }
  // Cluster 1, until end().
  void echo() {
    for (bool ended = false; !ended;) {
      const int got = endpoint().poll([&](proxy::Connection&, ByteView message) {
        const auto answer = load<std::uint32_t>(message.data());
        if (answer == kEnd) ended = true;
        if (answer != kEnd && answer != 0) send(0, answer);
      });
      if (got == 0) ::sched_yield();
    }
  }
  void end() { send(kEnd, kSmall); }
  // Cluster 0.
  void round_trips(std::uint32_t answer, Operation* trips) {
    trips->take([&](Latencies* round) {
      for (int i = 0; i < 2000; ++i) round->record(time_of([&] { ask(answer); }));
    });
  }
  double one_way_gb_s(std::size_t bytes) {
    const Duration time = time_of([&] {
      for (std::size_t sent = 0; sent < bytes; sent += kLarge) send(0, kLarge);
      ask(kSmall);
    });
    return static_cast<double>(bytes) / time.us() / 1e3;
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};

  proxy::Endpoint& endpoint() { return client_->endpoint(0); }
  void ask(std::uint32_t answer) {
    send(answer, kSmall);
    while (endpoint().poll([](proxy::Connection&, ByteView) {}) == 0) ::sched_yield();
  }
  void send(std::uint32_t answer, std::uint32_t bytes) {
    for (;;) {
      const MutableBytes room = other_->reserve(bytes);
      if (!room.empty()) {
        std::memcpy(room.data(), bytes_.data(), bytes);
        store(room.data(), answer);
        other_->commit(bytes);
        endpoint().flush();
        return;
      }
      if (endpoint().poll([](proxy::Connection&, ByteView) {}) == 0) ::sched_yield();
    }
  }

  std::unique_ptr<proxy::Client> client_;
  proxy::Connection* other_ = nullptr;
  std::array<std::byte, kLarge> bytes_{};
};

struct Figures {
  Operation trip, page_trip;  // the service's
  Operation bare;             // a fault that needs no message
  Operation read, write, lock, add;
  Operation barrier, dirty;  // of which each is the mean of a row
  std::vector<double> release_us, one_way_gb_s, scan_gb_s, copy_gb_s;

  bench::NamedOperations operations() const {
    return {{"64 B there and back", &trip},
            {"64 B and a page back", &page_trip},
            {"bare fault", &bare},
            {"read miss", &read},
            {"write miss", &write},
            {"barrier, mean of 20", &barrier},
            {"barrier with a dirty page", &dirty},
            {"remote lock", &lock},
            {"fetch-and-add", &add}};
  }
};

class Bench {
 public:
  explicit Bench(std::size_t scan_mib)
      : scan_pages_((scan_mib << 20) / kPageBytes),
        own_(allocate<std::uint64_t>(kPages * kWordsPerPage, Placement::on(0))),
        remote_(allocate<std::uint64_t>(kPages * kWordsPerPage, Placement::on(1))),
        scanned_(allocate<std::uint64_t>(scan_pages_ * kWordsPerPage, Placement::on(1))) {}

  // The same in both clusters; the figures are cluster 0's.
  void round(Node& node, Messages& messages, Figures& f) {
    const bool measures = node.cluster() == 0;
    if (measures) {
      messages.round_trips(kSmall, &f.trip);
      messages.round_trips(kPageBytes, &f.page_trip);
      f.one_way_gb_s.push_back(messages.one_way_gb_s(scan_pages_ * kPageBytes));
      messages.end();
    } else {
      messages.echo();
    }
    // Both have the pages, so the home's next write faults, and needs no message.
    if (!measures) read_all(own_);
    node.barrier();
    if (measures) touch(own_, true, &f.bare);
    measured(node, [&] { touch(remote_, false, &f.read); });
    measured(node, [&] { touch(remote_, true, &f.write); });
    barriers(node, false, &f.barrier);
    barriers(node, true, &f.dirty);
    f.release_us.push_back(f.dirty.medians_us.back() - f.barrier.medians_us.back());
    for (unsigned i = 0; !measures && i < kTimes; ++i) {  // brings the tokens here
      node.lock(lock_of(i));
      node.unlock(lock_of(i));
    }
    node.barrier();
    if (measures) locks(node, &f.lock);
    node.barrier();
    if (measures) {
      f.add.take([&](Latencies* round) {
        for (unsigned i = 0; i < kTimes; ++i) round->record(time_of([&] { (void)node.fetch_add(1, 1); }));
      });
    }
    node.barrier();
    scan(node, f);
    copy_all(node, f);
  }

 private:
  static constexpr std::size_t kPages = 500;
  static constexpr unsigned kTimes = 500;
  // Cluster 1 manages these.
  static unsigned lock_of(unsigned i) { return 3 + 2 * i; }

  static void locks(Node& node, Operation* calls) {
    calls->take([&](Latencies* round) {
      for (unsigned i = 0; i < kTimes; ++i) {
        round->record(time_of([&] { node.lock(lock_of(i)); }));
        node.unlock(lock_of(i));
      }
    });
  }
  static void read_all(const volatile std::uint64_t* data) {
    for (std::size_t p = 0; p < kPages; ++p) (void)data[p * kWordsPerPage];
  }
  // Nothing comes ahead.
  static void touch(volatile std::uint64_t* data, bool write, Operation* faults) {
    const std::vector<std::size_t> pages = in_no_order(kPages);
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
  }
  // Pages that were here before and that their home has written since.
  template <class Call>
  void measured(Node& node, Call&& call) {
    if (node.cluster() == 1) {
      for (std::size_t p = 0; p < kPages; ++p) remote_[p * kWordsPerPage + 1] = p;
    }
    node.barrier();
    if (node.cluster() == 0) call();
    node.barrier();
  }
  // One alone tells little, because the other side may be there already: rows of them. Both write, or the
  // page would move to its only writer.
  void barriers(Node& node, bool dirty, Operation* rows) {
    constexpr int kRow = 20;
    rows->take([&](Latencies* round) {
      for (int row = 0; row < 30; ++row) {
        node.barrier();
        const Duration time = time_of([&] {
          for (int i = 0; i < kRow; ++i) {
            if (dirty) {
              volatile std::uint64_t& word = remote_[node.cluster()];
              word = word + 1;
            }
            node.barrier(1);
          }
        });
        round->record(time / kRow);
      }
    });
  }
  void scan(Node& node, Figures& f) {
    if (node.cluster() == 1) {
      for (std::size_t p = 0; p < scan_pages_; ++p) scanned_[p * kWordsPerPage] = p;
    }
    node.barrier();
    if (node.cluster() == 0) {
      std::uint64_t sum = 0;
      const Duration time = time_of([&] {
        for (std::size_t p = 0; p < scan_pages_; ++p) sum += scanned_[p * kWordsPerPage];
      });
      CHECK_EQ(sum, scan_pages_ * (scan_pages_ - 1) / 2);
      f.scan_gb_s.push_back(static_cast<double>(scan_pages_ * kPageBytes) / time.us() / 1e3);
    }
    node.barrier();
  }

  // The same pages by copy(), into private memory.
  void copy_all(Node& node, Figures& f) {
    if (node.cluster() == 1) {
      for (std::size_t p = 0; p < scan_pages_; ++p) scanned_[p * kWordsPerPage] = p + 1;
    }
    node.barrier();
    if (node.cluster() == 0) {
      std::vector<std::uint64_t> seen(scan_pages_ * kWordsPerPage, 1);  // its memory is there
      const Duration time = time_of([&] { copy(seen.data(), scanned_, scan_pages_ * kPageBytes); });
      for (std::size_t p = 0; p < scan_pages_; ++p) CHECK_EQ(seen[p * kWordsPerPage], p + 1);
      f.copy_gb_s.push_back(static_cast<double>(scan_pages_ * kPageBytes) / time.us() / 1e3);
    }
    node.barrier();
  }

  std::size_t scan_pages_;
  std::uint64_t* own_;
  std::uint64_t* remote_;
  std::uint64_t* scanned_;
};

void print(const char* what, double us, double floor_us) {
  fmt::print("{:<24} {:8.2f} {:8.2f} {:8.2f} {:>6}\n", what, us, floor_us, us / floor_us,
             us <= 1.5 * floor_us ? "met" : "MISSED");
}

void print(const Figures& f) {
  const double trip = f.trip.us(), page = f.bare.us() + f.page_trip.us();
  fmt::print("{:<24} {:>8} {:>8} {:>8} {:>6}\n", "microseconds", "median", "floor", "ratio", "<= 1.5");
  print("read miss", f.read.us(), page);
  print("write miss", f.write.us(), page);
  print("barrier, in rows", f.barrier.us(), trip);
  print("write miss and release", median(f.release_us), page + trip);
  print("remote lock", f.lock.us(), trip);
  print("fetch-and-add", f.add.us(), trip);
  const double scan = median(f.scan_gb_s), way = median(f.one_way_gb_s);
  const double copied = median(f.copy_gb_s);
  fmt::print("\ncopy() {:.2f} GB/s: {:.2f}   >= 0.5   {}", copied, copied / way,
             copied >= 0.5 * way ? "met" : "MISSED");
  fmt::print("\nsequential scan {:.2f} GB/s, messages of 8 KiB one way {:.2f} GB/s: {:.2f}   >= 0.5   {}\n\n",
             scan, way, scan / way, scan >= 0.5 * way ? "met" : "MISSED");
  bench::print_latencies("us", f.operations());
}

nlohmann::json json_of(const Figures& f) {
  const double trip = f.trip.us(), page = f.bare.us() + f.page_trip.us();
  nlohmann::json json = bench::percentiles_json(f.operations());
  json["over floor"] = {
      {"read miss", f.read.us() / page},   {"write miss", f.write.us() / page},
      {"barrier", f.barrier.us() / trip},  {"write miss and release", median(f.release_us) / (page + trip)},
      {"remote lock", f.lock.us() / trip}, {"fetch-and-add", f.add.us() / trip}};
  json["scan GB/s"] = median(f.scan_gb_s);
  json["copy GB/s"] = median(f.copy_gb_s);
  json["8 KiB one way GB/s"] = median(f.one_way_gb_s);
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::size_t scan_mib = 64;
  CLI::App app("Operations on remote memory against messages through the same daemons.", "dsm_service_bench");
  app.add_option("--rounds", rounds, "Times that all is measured")->check(CLI::Range(1, 99));
  app.add_option("--scan-mib", scan_mib, "Remote pages read in their order, MiB")->check(CLI::Range(1, 200));
  bench::OutputOptions output;
  output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status =
          bench::run_against(output, argc, argv, rounds, {"--clusters", "2", "--compute", "1"}))
    return *status;

  init();
  if (clusters() != 2) {
    fmt::print(stderr, "dsm_service_bench: needs two clusters: braid run --compute 1 dsm_service_bench\n");
    return finish(1);
  }
  Bench bench(scan_mib);
  Messages messages(static_cast<std::uint16_t>(cluster()));
  Figures figures;
  parallel([&](Node& node) {
    if (node.local() != 0) return;
    for (int i = 0; i < rounds; ++i) bench.round(node, messages, figures);
  });
  if (cluster() != 0) return finish(0);
  print(figures);
  return finish(bench::write_output("dsm_service_bench", output, json_of(figures), figures.operations()) ? 0
                                                                                                         : 1);
}
