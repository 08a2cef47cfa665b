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
#include <vector>

#include "base/check.h"
#include "base/clock.h"
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
  Latencies round_trips(std::uint32_t answer) {
    Latencies trips;
    for (int i = 0; i < 2000; ++i) trips.record(time_of([&] { ask(answer); }));
    return trips;
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
  Operation barrier;  // of which each is the mean of a row
  std::vector<double> release_us, one_way_gb_s, scan_gb_s;
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
      f.trip.take(messages.round_trips(kSmall));
      f.page_trip.take(messages.round_trips(kPageBytes));
      f.one_way_gb_s.push_back(messages.one_way_gb_s(scan_pages_ * kPageBytes));
      messages.end();
    } else {
      messages.echo();
    }
    // Both have the pages, so the home's next write faults, and needs no message.
    if (!measures) read_all(own_);
    node.barrier();
    if (measures) f.bare.take(touch(own_, true));
    measured(node, [&] { f.read.take(touch(remote_, false)); });
    measured(node, [&] { f.write.take(touch(remote_, true)); });
    f.barrier.take(barriers(node, false));
    f.release_us.push_back(barriers(node, true).percentile(0.5).us() - f.barrier.medians_us.back());
    const auto locks = [&] {
      return times([&](unsigned i) { node.lock(lock_of(i)); }, [&](unsigned i) { node.unlock(lock_of(i)); });
    };
    for (unsigned i = 0; !measures && i < kTimes; ++i) {  // brings the tokens here
      node.lock(lock_of(i));
      node.unlock(lock_of(i));
    }
    node.barrier();
    if (measures) f.lock.take(locks());
    node.barrier();
    if (measures) f.add.take(times([&](unsigned) { (void)node.fetch_add(1, 1); }, [](unsigned) {}));
    node.barrier();
    scan(node, f);
  }

 private:
  static constexpr std::size_t kPages = 500;
  static constexpr unsigned kTimes = 500;
  // Cluster 1 manages these.
  static unsigned lock_of(unsigned i) { return 3 + 2 * i; }

  template <class Call, class After>
  static Latencies times(Call&& call, After&& after) {
    Latencies all;
    for (unsigned i = 0; i < kTimes; ++i) {
      all.record(time_of([&] { call(i); }));
      after(i);
    }
    return all;
  }
  static void read_all(const volatile std::uint64_t* data) {
    for (std::size_t p = 0; p < kPages; ++p) (void)data[p * kWordsPerPage];
  }
  // Downwards: nothing comes ahead.
  static Latencies touch(volatile std::uint64_t* data, bool write) {
    Latencies all;
    for (std::size_t p = kPages; p-- > 0;) {
      all.record(time_of([&] {
        if (write)
          data[p * kWordsPerPage] = p;
        else
          (void)data[p * kWordsPerPage];
      }));
    }
    return all;
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
  Latencies barriers(Node& node, bool dirty) {
    constexpr int kRow = 20;
    Latencies all;
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
      all.record(time / kRow);
    }
    return all;
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

  std::size_t scan_pages_;
  std::uint64_t* own_;
  std::uint64_t* remote_;
  std::uint64_t* scanned_;
};

void print(const char* what, double us, double floor_us, const std::string& percentiles) {
  fmt::print("{:<24} {:8.2f} {:8.2f} {:8.2f} {:6}   {}\n", what, us, floor_us, us / floor_us,
             us <= 1.5 * floor_us ? "met" : "MISSED", percentiles);
}
void print(const char* what, const Operation& operation, double floor_us) {
  print(what, operation.us(), floor_us, operation.percentiles());
}

void print(const Figures& f) {
  const double trip = f.trip.us(), page = f.bare.us() + f.page_trip.us();
  fmt::print("{:<24} {:>8} {:>25}   {:>9} {:>9} {:>9}\n", "microseconds", "median", "", "p50", "p99",
             "p99.9");
  for (const auto& [what, operation] :
       {std::pair("bare fault", &f.bare), std::pair("64 B there and back", &f.trip),
        std::pair("64 B and a page back", &f.page_trip)})
    fmt::print("{:<24} {:8.2f} {:>25}   {}\n", what, operation->us(), "", operation->percentiles());
  fmt::print("\n{:<24} {:>8} {:>8} {:>8} {:>6}   {:>9} {:>9} {:>9}\n", "microseconds", "median", "floor",
             "ratio", "<= 1.5", "p50", "p99", "p99.9");
  print("read miss", f.read, page);
  print("write miss", f.write, page);
  print("barrier, in rows", f.barrier, trip);
  print("write miss and release", median(f.release_us), page + trip, "");
  print("remote lock", f.lock, trip);
  print("fetch-and-add", f.add, trip);
  const double scan = median(f.scan_gb_s), way = median(f.one_way_gb_s);
  fmt::print("\nsequential scan {:.2f} GB/s, messages of 8 KiB one way {:.2f} GB/s: {:.2f}   >= 0.5   {}\n",
             scan, way, scan / way, scan >= 0.5 * way ? "met" : "MISSED");
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 5;
  std::size_t scan_mib = 64;
  CLI::App app("Operations on remote memory against messages through the same daemons.", "dsm_service_bench");
  app.add_option("--rounds", rounds, "Times that all is measured")->check(CLI::Range(1, 99));
  app.add_option("--scan-mib", scan_mib, "Remote pages read in their order, MiB")->check(CLI::Range(1, 200));
  CLI11_PARSE(app, argc, argv);

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
  if (cluster() == 0) print(figures);
  return finish(0);
}
