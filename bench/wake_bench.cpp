// The processor time of daemons whose clients are idle, and the time of the first message after a pause, from one process
// to another through two daemons, against three bare futex wakes.
//
//   service   client, proxy, proxy, client: all asleep but the first, on cores 0, 0, 1, 1
//   bare      a process on the same cores for each of the others; each waits on a futex word and wakes the next
//
// Both in turn, a pause before each, so that a slow machine slows both. Prints their latencies and the ratio of the medians.
#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <climits>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "bench/latency_report.h"
#include "bench/two_nodes.h"
#include "bench/two_processes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/daemon.h"
#include "proxy/nic/shm_wire.h"

namespace braid {
namespace {

using bench::Latencies;
using bench::shared;
using bench::spawn;
using proxy::Client;
using proxy::Connection;
using proxy::Endpoint;

struct Options {
  int rounds = 9;
  int messages = 33;
  int pause_ms = 20;
  int idle_s = 10;
  unsigned proxies = 2;
  bool polled = false;
  bool touch = false;
  bench::OutputOptions output;
};

constexpr int kHops = 3;
constexpr PortId kPort(7);
const proxy::ConnectionOptions kConnection{.ordered = true, .window_bytes = 256u << 10, .dispatch = {}};

// When the last of a chain ran, by round.
struct Arrival {
  std::atomic<std::uint32_t> round{0};
  std::atomic<std::int64_t> at_ns{0};

  void note(std::uint32_t of) {
    at_ns.store(monotonic_now().ns(), std::memory_order_relaxed);
    round.store(of, std::memory_order_release);
  }
  // Sleeps meanwhile: a thread that spins would take a core from the chain.
  Instant await(std::uint32_t of) const {
    while (round.load(std::memory_order_acquire) != of) ::usleep(500);
    return Instant::from_ns(at_ns.load(std::memory_order_relaxed));
  }
};

// ---------------------------------------------------------------- bare

// Lines of data that each woken process of the service touches for a single message (bench/cache_lines).
constexpr std::array<unsigned, kHops> kLinesTouched = {77, 68, 31};

struct Hop {
  alignas(64) std::atomic<std::uint32_t> word{0};
  // Of the process alone. One line of each page, as scattered as a service's.
  std::array<std::byte, std::size_t{128} * 4096> own{};

  void touch(unsigned lines) {
    for (unsigned i = 0; i < lines; ++i) {
      volatile std::byte& byte = own[std::size_t{i} * 4096 + i * 64 % 4096];
      byte = byte ^ std::byte{1};
    }
  }
};

void ring(Hop& hop, std::uint32_t round) {
  hop.word.store(round, std::memory_order_release);
  ::syscall(SYS_futex, &hop.word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Waits for each round at its hop, and wakes the next.
[[noreturn]] void relay(Hop* hops, int own, bool touches, Arrival& arrival) {
  for (std::uint32_t round = 1;; ++round) {
    while (hops[own].word.load(std::memory_order_acquire) != round)
      ::syscall(SYS_futex, &hops[own].word, FUTEX_WAIT, round - 1, nullptr, nullptr, 0);
    if (touches) hops[own].touch(kLinesTouched[static_cast<std::size_t>(own)]);
    if (own + 1 < kHops)
      ring(hops[own + 1], round);
    else
      arrival.note(round);
  }
}

// ---------------------------------------------------------------- service

proxy::NodeConfig node_config(const Options& o, std::uint16_t cluster, int wire, const std::string& address) {
  proxy::NodeConfig c = bench::one_of_two_nodes(cluster, 9000);
  c.proxies = static_cast<std::uint16_t>(o.proxies);
  c.peers[0].proxies = c.proxies;
  c.links.push_back(bench::end_of_wire(cluster, wire));
  c.idle.spins = 0;  // more threads than cores
  c.idle.wakeups = !o.polled;
  c.listen_address = address;
  return c;
}

std::unique_ptr<Client> attach(const std::string& address) {
  for (;;) {
    auto client = Client::attach(address, {});
    if (client) return std::move(client).value();
    ::usleep(1000);
  }
}

// Takes messages, asleep until one arrives.
[[noreturn]] void receive(const std::string& address, Arrival& arrival) {
  const std::unique_ptr<Client> client = attach(address);
  Endpoint& endpoint = client->endpoint(0);
  CHECK(endpoint.listen(kPort, kConnection).ok());
  CHECK(endpoint.accept(10_s).ok());
  for (std::uint32_t round = 0;;) {
    endpoint.doorbell().arm();
    if (!endpoint.has_arrivals()) endpoint.doorbell().wait(10_s);
    endpoint.doorbell().disarm();
    if (endpoint.poll([](Connection&, ByteView) {}) > 0) arrival.note(++round);
  }
}

// Of all threads of a process.
Duration processor_time(pid_t pid) {
  std::int64_t sum_ns = 0;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::int64_t ns = 0;
    std::ifstream(task.path() / "schedstat") >> ns;
    sum_ns += ns;
  }
  return Duration::ns(sum_ns);
}

// ---------------------------------------------------------------- both

struct Results {
  std::vector<double> idle_percent;  // of a core, by daemon
  bench::Operation service, bare;
};

bool report(const Options& o, const Results& r) {
  const bench::NamedOperations operations = {{"first message after a pause", &r.service},
                                             {"three bare futex wakes", &r.bare}};
  const double ratio = r.service.us() / r.bare.us();
  fmt::print("{} proxies, {}, {} rounds of {} messages, {} ms between them\n", o.proxies,
             o.polled ? "polling while they sleep" : "asleep until woken", o.rounds, o.messages, o.pause_ms);
  fmt::print("idle daemons: {:.3f} % and {:.3f} % of a core over {} s\n", r.idle_percent[0],
             r.idle_percent[1], o.idle_s);
  bench::print_latencies("us", operations);
  fmt::print("ratio of the medians of rounds: {:.2f}\n", ratio);
  nlohmann::json figures = bench::percentiles_json(operations);
  figures["idle_percent_of_a_core"] = r.idle_percent[0];
  figures["first_message_over_three_wakes"] = ratio;
  return bench::write_output("wake_bench", o.output, figures, operations);
}

std::vector<double> idle_percent(const Options& o, const std::vector<pid_t>& daemons) {
  std::vector<Duration> before;
  for (const pid_t pid : daemons) before.push_back(processor_time(pid));
  const Instant begin = monotonic_now();
  ::usleep(static_cast<unsigned>(o.idle_s) * 1'000'000);
  const double elapsed_s = (monotonic_now() - begin).s();
  std::vector<double> percent;
  for (std::size_t i = 0; i < daemons.size(); ++i)
    percent.push_back((processor_time(daemons[i]) - before[i]).s() / elapsed_s * 100);
  return percent;
}

int run(const Options& o) {
  const Result<int> wire = proxy::create_shm_wire({.queues = o.proxies});
  CHECK(wire.ok());
  Arrival& by_service = *shared<Arrival>();
  Arrival& by_relays = *shared<Arrival>();
  Hop* const hops = shared<Hop>(kHops);
  std::vector<pid_t> daemons, others;
  std::vector<std::string> addresses;
  for (const int cluster : {0, 1}) {
    addresses.push_back(fmt::format("@braid-bench-{}-{}", ::getpid(), cluster));
    daemons.push_back(spawn(cluster, [&] {
      const Result<proxy::DaemonEnd> ended =
          proxy::run_daemon(node_config(o, static_cast<std::uint16_t>(cluster), *wire, addresses.back()));
      if (!ended) fmt::print(stderr, "wake_bench: {}\n", ended.error().text);
    }));
  }
  others.push_back(spawn(1, [&] { receive(addresses[1], by_service); }));
  for (int hop = 0; hop < kHops; ++hop)
    others.push_back(spawn(hop == 0 ? 0 : 1, [&, hop] { relay(hops, hop, o.touch, by_relays); }));

  const std::unique_ptr<Client> client = attach(addresses[0]);
  Endpoint& endpoint = client->endpoint(0);
  Result<Connection*> connected = endpoint.connect(ClusterId(1), kPort, kConnection, 10_s);
  CHECK(connected.ok());
  Results r;
  ::usleep(1'000'000);  // what connecting began is over
  r.idle_percent = idle_percent(o, daemons);
  const std::vector<std::byte> message(64);
  const auto pause = [&] { ::usleep(static_cast<unsigned>(o.pause_ms) * 1000); };
  std::uint32_t number = 0;
  const auto measure = [&](Latencies& service, Latencies& bare) {
    for (int i = 0; i < o.messages; ++i) {
      ++number;
      pause();
      Instant begin = monotonic_now();
      CHECK((*connected)->try_send(message) == proxy::SendStatus::kSent);
      endpoint.flush();
      service.record(by_service.await(number) - begin);
      endpoint.poll([](Connection&, ByteView) {});
      pause();
      begin = monotonic_now();
      ring(hops[0], number);
      bare.record(by_relays.await(number) - begin);
    }
  };
  for (int round = 0; round < o.rounds; ++round)
    r.service.take(
        [&](Latencies* service) { r.bare.take([&](Latencies* bare) { measure(*service, *bare); }); });
  bench::end(daemons, SIGTERM);
  bench::end(others, SIGKILL);
  return report(o, r) ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  CLI::App app("Sleeping proxies: their processor time, and the first message after a pause");
  braid::Options options;
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--messages", options.messages, "a round")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--pause-ms", options.pause_ms, "between them")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--idle-s", options.idle_s, "for how long the idle daemons are watched")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--proxies", options.proxies, "of each daemon")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  app.add_flag("--polled", options.polled, "idle proxies poll, as with idle.wakeups: false");
  app.add_flag("--touch", options.touch,
               "the bare wakes also touch as many cache lines as the service's hops do for a message");
  options.output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = braid::bench::run_against(options.output, argc, argv, options.rounds))
    return *status;
  return braid::run(options);
}
