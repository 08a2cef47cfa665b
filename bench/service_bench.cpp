// Round trips and one-way rates of messages through the service, against the barest thing that could carry
// them, in the same run and alternately, so that a slow machine slows both.
//
//   invoker   two processes, one core each; each drives its own proxy. Against boost::lockfree::spsc_queue
//             between two processes.
//   chain     application, proxy, proxy, application: four processes' threads on two cores, as `braid run`
//             has them. Against four threads that relay through such queues and yield when there is nothing
//             to do.
//
// Prints medians over the rounds and the ratio of ours to bare. With --sealed sealed packets are measured against plain ones
// instead, and both against what sealing takes alone: a sealed message of 8 KiB should take as long as a plain one and the
// sealing of its packet, and a round trip that of a plain one and two packets sealed and opened. With --udp the service
// runs over the shm wire and over kernel sockets, plain and sealed, against the round trip of bare kernel sockets.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/local_ring.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/round_trips.h"
#include "bench/seal_times.h"
#include "bench/transport/kernel_udp.h"
#include "bench/two_nodes.h"
#include "bench/two_processes.h"
#include "proxy/client/client.h"
#include "proxy/daemon/daemon.h"
#include "proxy/daemon/in_process.h"
#include "proxy/nic/shm_wire.h"

namespace braid {
namespace {

using bench::Latencies;
using bench::median;
using bench::shared;
using bench::spawn;
using proxy::Client;
using proxy::Connection;
using proxy::Endpoint;

struct Options {
  std::string mode = "invoker";
  bool sealed = false;
  bool udp = false;
  int rounds = 9;
  int trips = 20'000;
  int messages = 1'000'000;
  std::uint32_t bytes = 64;
  std::uint32_t large_bytes = 8192;
  int large_messages = 50'000;
  bench::OutputOptions output;
};

// Shared by the two sides of a measurement.
struct Shared {
  std::atomic<int> phase{0};  // counts the steps that the driving side has begun
  std::atomic<std::uint64_t> received{0};
  std::atomic<bool> paused{false};  // while the other system is measured
  std::atomic<bool> stop{false};
};

// ---------------------------------------------------------------- bare

struct Cell {
  std::byte bytes[64];
};
using BareRing = LocalRing<Cell, 1024>;

// A chain of rings there and back: hop i takes from ring i and gives to ring i + 1.
struct Bare {
  explicit Bare(int hop_count)
      : hops(hop_count), forth(shared<BareRing>(hop_count)), back(shared<BareRing>(hop_count)) {}
  int hops;  // rings in each direction
  BareRing* forth;
  BareRing* back;
};

void relax(bool yield) {
  if (yield)
    ::sched_yield();
  else
    __builtin_ia32_pause();
}

std::size_t relay_burst(BareRing& from, BareRing& to) {
  Cell burst[32];
  const std::size_t n = from.pop(burst, 32);
  for (std::size_t sent = 0; sent < n;) {
    sent += to.push(burst + sent, n - sent);
    if (sent < n) ::sched_yield();
  }
  return n;
}

// The thread between ring `hop` and the next, for both directions.
void relay(Bare& bare, int hop, const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    const std::size_t forth = relay_burst(bare.forth[hop], bare.forth[hop + 1]);
    const std::size_t back = relay_burst(bare.back[bare.hops - 2 - hop], bare.back[bare.hops - 1 - hop]);
    if (forth + back == 0) ::sched_yield();
  }
}

double bare_round_trip_us(Bare& bare, int trips, bool yield, Latencies* each) {
  Cell cell{};
  return bench::round_trip_us(trips, each, [&] {
    while (!bare.forth[0].push(cell)) relax(yield);
    while (!bare.back[bare.hops - 1].pop(cell)) relax(yield);
  });
}

void bare_echo(Bare& bare, const std::atomic<bool>& stop, bool yield) {
  Cell cell;
  while (!stop.load(std::memory_order_relaxed)) {
    if (!bare.forth[bare.hops - 1].pop(cell)) {
      relax(yield);
      continue;
    }
    while (!bare.back[0].push(cell)) relax(yield);
  }
}

// Bursts of 32 there; a count comes back at the end.
double bare_rate(Bare& bare, int messages, bool yield) {
  Cell burst[32] = {};
  const Instant begin = monotonic_now();
  for (int sent = 0; sent < messages;) {
    const std::size_t n = bare.forth[0].push(burst, static_cast<std::size_t>(std::min(32, messages - sent)));
    if (n == 0) relax(yield);
    sent += static_cast<int>(n);
  }
  Cell done;
  while (!bare.back[bare.hops - 1].pop(done)) relax(yield);
  return messages / (monotonic_now() - begin).s() / 1e6;
}

void bare_sink(Bare& bare, const std::atomic<bool>& stop, int messages, bool yield) {
  Cell burst[32];
  int got = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    const std::size_t n = bare.forth[bare.hops - 1].pop(burst, 32);
    if (n == 0) relax(yield);
    got += static_cast<int>(n);
    if (got == messages) {
      got = 0;
      while (!bare.back[0].push(burst[0])) relax(yield);
    }
  }
}

// ---------------------------------------------------------------- ours

constexpr PortId kPort(7);
const proxy::ConnectionOptions kConnection{.ordered = true, .window_bytes = 256u << 10, .dispatch = {}};

using SharedSecret = std::shared_ptr<const stack::Secret>;  // null: packets are plain

// What is between the two nodes of a service.
struct Between {
  int fd = -1;           // the shm wire
  std::uint8_t net = 0;  // if there is none: kernel sockets at 127.98.net.1 and .2
  SharedSecret secret;
};

void use_sockets(proxy::NodeConfig& c, std::uint8_t net) {
  const auto address = [&](int cluster) {
    return stack::Ipv4Address(127, 98, net, static_cast<std::uint8_t>(1 + cluster));
  };
  proxy::LinkConfig link;
  link.kind = proxy::LinkConfig::Kind::kUdp;
  c.links.push_back(link);
  bench::use_addresses(c, address(c.cluster), address(1 - c.cluster));
}

proxy::NodeConfig node_config(std::uint16_t cluster, const Between& between, const std::string& address) {
  proxy::NodeConfig c = bench::one_of_two_nodes(cluster, 9000);
  if (between.fd >= 0)
    c.links.push_back(bench::end_of_wire(cluster, between.fd));
  else
    use_sockets(c, between.net);
  c.idle.spins = 0;  // more threads than cores
  c.listen_address = address;
  c.security.mode =
      between.secret != nullptr ? settings::SecurityMode::kRequired : settings::SecurityMode::kOff;
  c.secret = between.secret;
  return c;
}

SharedSecret some_secret() {
  stack::KeyBytes bytes;
  bytes.fill(std::byte{0x5e});
  return std::make_shared<const stack::Secret>(bytes);
}

int wire() {
  Result<int> fd = proxy::create_shm_wire({});
  if (!fd) fmt::print(stderr, "service_bench: {}\n", fd.error().text);
  CHECK(fd.ok());
  return fd.value();
}

std::unique_ptr<Client> attach(bool invoker, std::uint16_t cluster, const Between& between,
                               const std::string& address) {
  proxy::ClientOptions options;
  if (invoker) {
    Result<std::unique_ptr<proxy::Node>> node =
        proxy::Node::create(node_config(cluster, between, "@none"), monotonic_now());
    if (!node) fmt::print(stderr, "service_bench: {}\n", node.error().text);
    CHECK(node.ok());
    auto client = Client::attach(proxy::in_process_service(std::move(node).value()), options);
    CHECK(client.ok());
    return std::move(client).value();
  }
  for (;;) {
    auto client = Client::attach(address, options);
    if (client) return std::move(client).value();
    ::usleep(1000);
  }
}

// Yields where there are more threads than cores.
struct Waiting {
  bool yield;
  void operator()(int work) const {
    if (work == 0 && yield) ::sched_yield();
  }
};

// The far side: echoes while phase is odd, counts while it is even.
void far_side(Client& client, Shared& shared, bool yield) {
  Endpoint& endpoint = client.endpoint(0);
  CHECK(endpoint.listen(kPort, kConnection).ok());
  Result<Connection*> accepted = endpoint.accept(10_s);
  CHECK(accepted.ok());
  const Waiting waiting{yield};
  std::uint64_t received = 0;
  while (!shared.stop.load(std::memory_order_relaxed)) {
    if (shared.paused.load(std::memory_order_relaxed)) {
      endpoint.poll([](Connection&, ByteView) {});
      ::usleep(1000);
      continue;
    }
    const bool echo = shared.phase.load(std::memory_order_relaxed) % 2 == 1;
    const int got = endpoint.poll([&](Connection& from, ByteView message) {
      if (echo)
        CHECK(from.try_send(message) == proxy::SendStatus::kSent);
      else
        ++received;
    });
    if (got > 0) shared.received.store(received, std::memory_order_release);
    waiting(got);
  }
}

void begin_phase(Endpoint& endpoint, Shared& shared, bool echo) {
  int phase = shared.phase.load() + 1;
  if ((phase % 2 == 1) != echo) ++phase;
  shared.phase.store(phase);
  for (int i = 0; i < 1000; ++i) endpoint.poll([](Connection&, ByteView) {});
}

double service_round_trip_us(Endpoint& endpoint, Connection& c, const Options& o, bool yield,
                             Latencies* each) {
  const std::vector<std::byte> message(o.bytes);
  const Waiting waiting{yield};
  return bench::round_trip_us(o.trips, each, [&] {
    CHECK(c.try_send(message) == proxy::SendStatus::kSent);
    for (int got = 0; got == 0; waiting(got)) got = endpoint.poll([](Connection&, ByteView) {});
  });
}

double rate(Endpoint& endpoint, Connection& c, Shared& shared, std::uint32_t bytes, int messages,
            bool yield) {
  begin_phase(endpoint, shared, false);
  const std::vector<std::byte> message(bytes);
  const std::uint64_t before = shared.received.load();
  const Waiting waiting{yield};
  const Instant begin = monotonic_now();
  for (int sent = 0; sent < messages;) {
    const int burst_end = std::min(messages, sent + 32);
    const int burst_begin = sent;
    while (sent < burst_end && c.try_send(message) == proxy::SendStatus::kSent) ++sent;
    endpoint.poll([](Connection&, ByteView) {});
    waiting(sent - burst_begin);
  }
  while (shared.received.load(std::memory_order_acquire) - before < static_cast<std::uint64_t>(messages)) {
    endpoint.poll([](Connection&, ByteView) {});
    waiting(0);
  }
  return messages / (monotonic_now() - begin).s() / 1e6;
}

// By round.
struct Results {
  std::vector<double> trip, trip_bare, messages, messages_bare, large;
  bench::Operation trip_times, trip_times_bare;  // of all rounds
};

// Prints, and writes what was asked for. False: that could not be written.
bool report(const Options& o, const Results& r) {
  fmt::print("{}: {} B messages, medians of {} rounds\n", o.mode, o.bytes, o.rounds);
  fmt::print("  round trip   {:8.3f} us   bare {:8.3f} us   ratio {:.2f}\n", median(r.trip),
             median(r.trip_bare), median(r.trip) / median(r.trip_bare));
  fmt::print("  one way      {:8.3f} M/s  bare {:8.3f} M/s  bare / ours {:.2f}\n", median(r.messages),
             median(r.messages_bare), median(r.messages_bare) / median(r.messages));
  fmt::print("  {} B       {:8.3f} GB/s\n", o.large_bytes, median(r.large));
  const bench::NamedOperations trips = {{"service", &r.trip_times}, {"bare", &r.trip_times_bare}};
  bench::print_latencies("round trip, us", trips);
  const nlohmann::json json = {{"round_trip_us", median(r.trip)},
                               {"bare_round_trip_us", median(r.trip_bare)},
                               {"round_trip_over_bare", median(r.trip) / median(r.trip_bare)},
                               {"one_way_million_per_s", median(r.messages)},
                               {"bare_one_way_million_per_s", median(r.messages_bare)},
                               {"large_one_way_gb_per_s", median(r.large)},
                               {"round_trip_p99_us", r.trip_times.all.percentile(0.99).us()}};
  return bench::write_output("service_bench", o.output, json, trips);
}

// Two nodes, and a connection from this process to the far side's.
class Service {
 public:
  Service(const Options& o, const char* name, const Between& between) {
    const bool invoker = o.mode == "invoker";
    const std::string addresses[2] = {fmt::format("@braid-bench-{}-{}-0", ::getpid(), name),
                                      fmt::format("@braid-bench-{}-{}-1", ::getpid(), name)};
    if (!invoker) {
      for (const std::uint16_t cluster : {std::uint16_t{0}, std::uint16_t{1}}) {
        children_.push_back(spawn(cluster, [&] {
          const Result<proxy::DaemonEnd> ended =
              proxy::run_daemon(node_config(cluster, between, addresses[cluster]));
          if (!ended) fmt::print(stderr, "service_bench: {}\n", ended.error().text);
        }));
      }
    }
    children_.push_back(
        spawn(1, [&] { far_side(*attach(invoker, 1, between, addresses[1]), shared, !invoker); }));
    client_ = attach(invoker, 0, between, addresses[0]);
    Result<Connection*> connected = endpoint().connect(ClusterId(1), kPort, kConnection, 10_s);
    if (!connected) fmt::print(stderr, "service_bench: {}\n", connected.error().text);
    CHECK(connected.ok());
    connection_ = *connected;
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() {
    shared.stop = true;
    bench::end(children_, SIGTERM);
  }
  Endpoint& endpoint() const { return client_->endpoint(0); }
  Connection& connection() const { return *connection_; }
  // Its far side leaves the core to others.
  void pause(bool paused) {
    shared.paused = paused;
    ::usleep(paused ? 20'000 : 2'000);
  }

  Shared& shared = *bench::shared<Shared>();

 private:
  std::vector<pid_t> children_;
  std::unique_ptr<Client> client_;
  Connection* connection_ = nullptr;
};

// Of one of several services, by round.
struct ServiceRounds {
  std::vector<double> trip, large;
  bench::Operation trip_times;
};

// A round of one service, whose far side rests while others are measured.
void measure(const Options& o, Service& service, bool yield, ServiceRounds& results) {
  Endpoint& endpoint = service.endpoint();
  Connection& c = service.connection();
  service.pause(false);
  begin_phase(endpoint, service.shared, true);
  results.trip.push_back(service_round_trip_us(endpoint, c, o, yield, nullptr));
  results.trip_times.take([&](Latencies* each) { (void)service_round_trip_us(endpoint, c, o, yield, each); });
  results.large.push_back(rate(endpoint, c, service.shared, o.large_bytes, o.large_messages, yield) *
                          o.large_bytes / 1e3);
  service.pause(true);
}

int run_sealed(const Options& o) {
  const bool yield = o.mode != "invoker";
  Service plain(o, "plain", {.fd = wire(), .secret = nullptr});
  Service sealed(o, "sealed", {.fd = wire(), .secret = some_secret()});
  Service* const services[] = {&plain, &sealed};
  for (Service* service : services) service->pause(true);
  const stack::CipherKind cipher =
      stack::has_aes_instructions() ? stack::CipherKind::kAesGcm : stack::CipherKind::kChaChaPoly;
  ServiceRounds results[2];
  std::vector<double> small_ns, large_ns;  // of an operation, and of the slower one
  for (int round = 0; round < o.rounds; ++round) {
    for (int i = 0; i < 2; ++i) measure(o, *services[i], yield, results[i]);
    const bench::SealTimes small = bench::seal_times(cipher, stack::kWholeRecordBytes + o.bytes);
    const bench::SealTimes large = bench::seal_times(cipher, stack::kWholeRecordBytes + o.large_bytes);
    small_ns.push_back((small.seal + small.open) / 2);
    large_ns.push_back(std::max(large.seal, large.open));
  }
  const double a = median(results[0].large), b = o.large_bytes / median(large_ns),
               ours = median(results[1].large);
  const double both = 1 / (1 / a + 1 / b);
  const double more_us = median(results[1].trip) - median(results[0].trip);
  const double operations = more_us * 1e3 / median(small_ns);
  fmt::print("{}: medians of {} rounds\n", o.mode, o.rounds);
  fmt::print(
      "  {} B one way     plain {:.3f} GB/s, sealing alone {:.3f} GB/s, together {:.3f}; sealed {:.3f}, ratio {:.2f}\n",
      o.large_bytes, a, b, both, ours, ours / both);
  fmt::print("  {} B round trip    plain {:.3f} us, sealed {:.3f}: {:.1f} times sealing alone, {:.0f} ns\n",
             o.bytes, median(results[0].trip), median(results[1].trip), operations, median(small_ns));
  const bench::NamedOperations trips = {{"plain", &results[0].trip_times},
                                        {"sealed", &results[1].trip_times}};
  bench::print_latencies("round trip, us", trips);
  const nlohmann::json json = {{"plain_large_gb_per_s", a},
                               {"sealing_large_gb_per_s", b},
                               {"sealed_large_gb_per_s", ours},
                               {"sealed_over_plain_and_sealing", ours / both},
                               {"plain_round_trip_us", median(results[0].trip)},
                               {"sealed_round_trip_us", median(results[1].trip)},
                               {"round_trip_sealing_operations", operations}};
  return bench::write_output("service_bench_sealed", o.output, json, trips) ? 0 : 1;
}

// Round trips of bare kernel sockets, whose far side polls only meanwhile.
class KernelTrips {
 public:
  KernelTrips() {
    far_ = spawn(1, [this] {
      const auto system = bench::make_kernel_udp(shared_, false, bench::KernelUdp::kAlone);
      for (;;) {
        if (const std::uint64_t step = shared_.step.load(); step % 2 == 1)
          system->far(bench::Test::kTrip, bench::Turn(shared_, step));
        ::usleep(1000);
      }
    });
    system_ = bench::make_kernel_udp(shared_, true, bench::KernelUdp::kAlone);
  }
  KernelTrips(const KernelTrips&) = delete;
  KernelTrips& operator=(const KernelTrips&) = delete;
  ~KernelTrips() { bench::end({far_}, SIGKILL); }
  double trip_us(int trips) {
    ++shared_.step;
    (void)system_->trip_us(trips / 10, nullptr);
    const double us = system_->trip_us(trips, nullptr);
    ++shared_.step;
    ::usleep(5000);
    return us;
  }

 private:
  bench::Shared& shared_ = *shared<bench::Shared>();
  pid_t far_;
  std::unique_ptr<bench::System> system_;
};

int run_udp(const Options& o) {
  const bool yield = o.mode != "invoker";
  Service shm(o, "shm", {.fd = wire(), .secret = nullptr});
  Service plain(o, "udp", {.net = 4, .secret = nullptr});
  Service sealed(o, "udp-sealed", {.net = 5, .secret = some_secret()});
  Service* const services[] = {&shm, &plain, &sealed};
  for (Service* service : services) service->pause(true);
  KernelTrips kernel;
  ServiceRounds results[3];
  std::vector<double> kernel_trip;
  for (int round = 0; round < o.rounds; ++round) {
    kernel_trip.push_back(kernel.trip_us(o.trips));
    for (int i = 0; i < 3; ++i) measure(o, *services[i], yield, results[i]);
  }
  const double bare = median(kernel_trip), over_shm = median(results[0].trip);
  fmt::print("{}: medians of {} rounds\n", o.mode, o.rounds);
  fmt::print("  {} B round trip    kernel {:.3f} us, service over shm {:.3f} us\n", o.bytes, bare, over_shm);
  nlohmann::json json = {{"kernel_round_trip_us", bare}, {"shm_round_trip_us", over_shm}};
  bench::NamedOperations trips = {{"shm", &results[0].trip_times}};
  for (int i = 1; i < 3; ++i) {
    const std::string name = i == 1 ? "udp" : "udp sealed";
    const double trip = median(results[i].trip);
    fmt::print(
        "  {:10}  round trip {:.3f} us: {:.2f} of the kernel's, {:.2f} of both together; {} B {:.3f} GB/s\n",
        name, trip, trip / bare, trip / (bare + over_shm), o.large_bytes, median(results[i].large));
    json[name] = {{"round_trip_us", trip},
                  {"over_kernel", trip / bare},
                  {"over_kernel_and_shm", trip / (bare + over_shm)},
                  {"large_gb_per_s", median(results[i].large)}};
    trips.emplace_back(name, &results[i].trip_times);
  }
  bench::print_latencies("round trip, us", trips);
  return bench::write_output("service_bench_udp", o.output, json, trips) ? 0 : 1;
}

int run(const Options& o) {
  const bool invoker = o.mode == "invoker";
  const bool yield = !invoker;
  Service service(o, "ours", {.fd = wire(), .secret = nullptr});
  Shared& ours = service.shared;
  Endpoint& endpoint = service.endpoint();
  Connection& c = service.connection();

  Results r;
  for (int round = 0; round < o.rounds; ++round) {
    begin_phase(endpoint, ours, true);
    r.trip.push_back(service_round_trip_us(endpoint, c, o, yield, nullptr));
    r.trip_times.take([&](Latencies* each) { (void)service_round_trip_us(endpoint, c, o, yield, each); });
    r.messages.push_back(rate(endpoint, c, ours, o.bytes, o.messages, yield));
    r.large.push_back(rate(endpoint, c, ours, o.large_bytes, o.large_messages, yield) * o.large_bytes / 1e3);

    service.pause(true);
    for (const bool echo : {true, false}) {
      Bare bare(invoker ? 1 : 3);
      Shared& s = *shared<Shared>();
      std::vector<pid_t> far;
      for (int hop = 0; hop + 1 < bare.hops; ++hop) {
        far.push_back(spawn(hop, [&] { relay(bare, hop, s.stop); }));
      }
      far.push_back(spawn(1, [&] {
        if (echo)
          bare_echo(bare, s.stop, yield);
        else
          bare_sink(bare, s.stop, o.messages, yield);
      }));
      if (echo) {
        (void)bare_round_trip_us(bare, 1000, yield, nullptr);
        r.trip_bare.push_back(bare_round_trip_us(bare, o.trips, yield, nullptr));
        r.trip_times_bare.take(
            [&](Latencies* each) { (void)bare_round_trip_us(bare, o.trips, yield, each); });
      } else {
        r.messages_bare.push_back(bare_rate(bare, o.messages, yield));
      }
      s.stop = true;
      for (const pid_t pid : far) ::waitpid(pid, nullptr, 0);
    }
    service.pause(false);
  }
  return report(o, r) ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  CLI::App app("Round trips and rates of the service against bare queues, in one run");
  braid::Options options;
  app.add_option("--mode", options.mode, "invoker or chain")
      ->check(CLI::IsMember({"invoker", "chain"}))
      ->capture_default_str();
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--trips", options.trips, "round trips a round")->capture_default_str();
  app.add_option("--messages", options.messages, "messages one way a round")->capture_default_str();
  app.add_option("--bytes", options.bytes, "of a message")
      ->check(CLI::Range(0, 16384))
      ->capture_default_str();
  CLI::Option* const sealed = app.add_flag("--sealed", options.sealed, "sealed packets against plain ones");
  app.add_flag("--udp", options.udp, "over kernel sockets, against the shm wire and bare kernel sockets")
      ->excludes(sealed);
  options.output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (const std::optional<int> status = braid::bench::run_against(options.output, argc, argv, options.rounds))
    return *status;
  if (options.udp) return braid::run_udp(options);
  return options.sealed ? braid::run_sealed(options) : braid::run(options);
}
