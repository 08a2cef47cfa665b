// The transport between two processes, a core each: 64-byte messages one way and there and back, 8 KiB
// messages one way; over the shm wire, the kernel's UDP, memif, and with --veth AF_XDP and AF_PACKET.
//
//   stack     one whole protocol stack at each end, driven by its process: what the transport itself costs
//   service   the same under the client library and its node ("invoker" mode): what an application gets
//   bare      the same wire with nothing on it but the message: what the wire itself costs
//   kernel    UDP sockets over loopback, sendmmsg and recvmmsg of 64 one way, busy there and back; the same joined and cut
//             by the kernel (GSO, GRO); TCP with one send() for each message
//
// All take turns in every round, so that other load on the machine affects them alike; the medians of the
// rounds and their ratios are what counts. With --busy a third process computes on the far core during half
// of the rounds.
//
// One way the near side sends for a fixed time and the far side counts what arrives; every byte is copied out
// there once, into memory of the receiver's own.
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/json.h"
#include "bench/against.h"
#include "bench/latency_report.h"
#include "bench/transport/bare_stack.h"
#include "bench/transport/bare_wire.h"
#include "bench/transport/invoked_service.h"
#include "bench/transport/kernel_tcp.h"
#include "bench/transport/kernel_udp.h"
#include "bench/transport/report.h"
#include "bench/transport/rounds.h"
#include "bench/transport/system.h"
#include "bench/transport/veth.h"
#include "bench/two_processes.h"
#include "proxy/nic/shm_wire.h"
#include "proxy/udp/udp_queue.h"
#ifdef BRAID_WITH_DPDK
#include "proxy/nic/ethdev.h"
#endif

namespace braid {
namespace {

struct Options {
  int rounds = 9;
  int trips = 5'000;
  int milliseconds = 60;  // of each measurement one way
  bool busy = false;
  bool memif = true;
  bool veth = false;
  bool realtime = false;
  bench::OutputOptions output;
};

std::unique_ptr<proxy::NicQueue> socket_at(const proxy::UdpEnd& own) {
  auto queue = proxy::UdpQueue::open({.own = own}, nullptr);
  if (!queue) fmt::print(stderr, "transport_bench: {}\n", queue.error().text);
  CHECK(queue.ok());
  return std::move(*queue);
}

// The systems of one process, the near one or the far one.
std::vector<bench::NamedSystem> make_systems(const Options& o, bench::Shared& shared, bool near, int wire_fd,
                                             const std::string& memif_socket, const auto* veth,
                                             std::shared_ptr<void>& dpdk_ports) {
  constexpr std::uint32_t kShmMtu = 9000;
  std::vector<bench::NamedSystem> systems;
  auto wire = proxy::ShmWire::map(wire_fd, near ? proxy::ShmSide::kA : proxy::ShmSide::kB);
  CHECK(wire.ok());
  systems.push_back({"shm bare", bench::make_bare_wire((*wire)->queue(0))});
  systems.push_back({"shm stack", bench::make_bare_stack((*wire)->queue(1), near, kShmMtu)});
  systems.push_back({"shm service", bench::make_invoked_service((*wire)->queue(2), near, kShmMtu)});
  systems.push_back(
      {"udp stack", bench::make_bare_stack(socket_at(bench::bare_stack_end(near)), near, kShmMtu)});
  systems.push_back({"udp service", bench::make_invoked_service(socket_at(bench::invoked_service_end(near)),
                                                                near, kShmMtu)});
#if defined BRAID_WITH_DPDK && defined BRAID_WITH_XDP
  if (veth != nullptr) veth->add_systems(near, systems, dpdk_ports);
#else
  (void)veth;
#endif
#ifdef BRAID_WITH_DPDK
  if (o.memif) {
    constexpr std::uint32_t kMemifMtu = 1500;
    proxy::EthdevOptions options;
    options.vdevs = {
        proxy::memif_vdev(0, near ? proxy::MemifRole::kServer : proxy::MemifRole::kClient, memif_socket)};
    options.queues = 3;
    auto ports = proxy::EthdevPorts::start(options);
    if (!ports) fmt::print(stderr, "transport_bench: {}\n", ports.error().text);
    CHECK(ports.ok());
    CHECK((*ports)->wait_for_link(20_s).ok());
    systems.push_back({"memif bare", bench::make_bare_wire((*ports)->queue(0, 0))});
    systems.push_back({"memif stack", bench::make_bare_stack((*ports)->queue(0, 1), near, kMemifMtu)});
    systems.push_back({"memif service", bench::make_invoked_service((*ports)->queue(0, 2), near, kMemifMtu)});
    dpdk_ports = std::shared_ptr<proxy::EthdevPorts>(std::move(*ports));
  }
#else
  (void)o, (void)memif_socket, (void)dpdk_ports;
#endif
  systems.push_back({"kernel UDP", bench::make_kernel_udp(shared, near, bench::KernelUdp::kAlone)});
  systems.push_back({"kernel GSO", bench::make_kernel_udp(shared, near, bench::KernelUdp::kJoined)});
  systems.push_back({"kernel TCP", bench::make_kernel_tcp(shared, near)});
  return systems;
}

// Runs before the other programs of the machine, if the system permits it.
void take_realtime_priority(int level) {
  const sched_param priority{.sched_priority = level};
  if (::sched_setscheduler(0, SCHED_FIFO, &priority) != 0)
    fmt::print(stderr, "transport_bench: no real-time priority ({}): run as root\n", std::strerror(errno));
}

// A process that computes on the far core while it may. Under real-time priorities the scheduler would give it
// nothing or everything; there it takes half of the core itself, in slices like the scheduler's.
class BusyProcess {
 public:
  explicit BusyProcess(bool realtime) {
    pid_ = bench::spawn(1, [realtime] {
      if (realtime) take_realtime_priority(20);
      for (Instant begin = monotonic_now();;) {
        if (!realtime || monotonic_now() - begin < 4_ms) continue;
        ::usleep(4000);
        begin = monotonic_now();
      }
    });
    ::kill(pid_, SIGSTOP);
  }
  ~BusyProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;
  void run(bool on) const { ::kill(pid_, on ? SIGCONT : SIGSTOP); }

 private:
  pid_t pid_;
};

// Measures, prints, and writes what was asked for. False: that could not be written.
bool run_near_side(const Options& o, bench::Shared& shared, std::vector<bench::NamedSystem>& systems,
                   const BusyProcess* third) {
  bench::NearSide near(o.trips, o.busy, shared, systems);
  bench::Figures quiet, busy;
  for (int i = 0; i < o.rounds; ++i) {
    near.round(quiet, bench::kTests, o.milliseconds);
    if (third == nullptr) continue;
    // Long against the scheduler's slices. A round trip would only measure those.
    third->run(true);
    near.round(busy, std::span(bench::kTests).subspan(1), o.milliseconds * 5);
    third->run(false);
  }
  near.stop();
  std::vector<std::string> names;
  for (const bench::NamedSystem& system : systems) names.push_back(system.name);
  bench::print(quiet, names, o.rounds);
  nlohmann::json json = bench::json_of(quiet);
  if (third != nullptr) bench::print_busy(quiet, busy, json);
  bench::NamedOperations trips;
  for (const std::string& name : names) {
    trips.emplace_back(name, &near.trip_times().at(name));
    json["systems"][name]["round_trip_us_percentiles"] = bench::percentiles_json(*trips.back().second);
  }
  bench::print_latencies("64 B trip, us", trips);
  return bench::write_output("transport_bench", o.output, json, trips);
}

int run(const Options& o) {
  bench::Shared& shared = *bench::shared<bench::Shared>();
  proxy::ShmWireOptions wire_options;
  wire_options.queues = 3;
  const Result<int> wire = proxy::create_shm_wire(wire_options);
  if (!wire) {
    fmt::print(stderr, "transport_bench: {}\n", wire.error().text);
    return 1;
  }
  const std::string socket = fmt::format("braid-bench-{}", ::getpid());
#if defined BRAID_WITH_DPDK && defined BRAID_WITH_XDP
  const std::unique_ptr<bench::VethPair> veth = o.veth ? std::make_unique<bench::VethPair>() : nullptr;
#else
  const std::unique_ptr<int> veth;
#endif
  std::unique_ptr<BusyProcess> third;
  if (o.busy) third = std::make_unique<BusyProcess>(o.realtime);
  const pid_t far = bench::spawn(1, [&] {
    std::shared_ptr<void> ports;
    std::vector<bench::NamedSystem> systems =
        make_systems(o, shared, false, wire.value(), socket, veth.get(), ports);
    if (o.realtime) take_realtime_priority(10);
    bench::run_far_side(shared, systems);
    systems.clear();
  });
  std::shared_ptr<void> ports;
  std::vector<bench::NamedSystem> systems =
      make_systems(o, shared, true, wire.value(), socket, veth.get(), ports);
  while (!shared.far_ready.load()) ::usleep(1000);

  // Not before DPDK's interrupt thread has brought the links up: it shares the core.
  if (o.realtime) take_realtime_priority(10);
  const bool written = run_near_side(o, shared, systems, third.get());
  int status = 0;
  ::waitpid(far, &status, 0);
  systems.clear();
  return written && status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  CLI::App app("The transport against the bare wire and the kernel's UDP, between two processes, in one run");
  braid::Options options;
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--trips", options.trips, "round trips of a measurement")
      ->check(CLI::Range(10, 10'000'000))
      ->capture_default_str();
  app.add_option("--milliseconds", options.milliseconds, "of a measurement one way")
      ->check(CLI::Range(5, 100'000))
      ->capture_default_str();
  app.add_flag("--busy", options.busy, "every round also with a third busy process");
  app.add_flag("--memif,!--no-memif", options.memif, "over DPDK's memif too")->capture_default_str();
#if defined BRAID_WITH_DPDK && defined BRAID_WITH_XDP
  app.add_flag(
      "--veth", options.veth,
      "over AF_XDP and AF_PACKET too, both on one veth pair between network namespaces (needs root; without memif)");
#endif
  app.add_flag("--realtime", options.realtime, "before all other programs of the machine (needs root)");
  options.output.add_to(app);
  CLI11_PARSE(app, argc, argv);
  // DPDK starts once in a process, here in the namespace of the veth.
  options.memif = options.memif && !options.veth;
  if (const std::optional<int> status = braid::bench::run_against(options.output, argc, argv, options.rounds))
    return *status;
  return braid::run(options);
}
