#include "proxy/nic/ethdev.h"

#include <fmt/core.h>
#include <unistd.h>

#include <atomic>

#include "base/check.h"
#include "base/clock.h"
#include "proxy/nic/eal.h"
#include "proxy/nic/ethdev_port.h"
#include "proxy/nic/ethdev_queue.h"
#include "proxy/nic/memif_gate.h"

namespace braid::proxy {
namespace {

static_assert(kEthdevMaxFrameBytes == EthdevQueue::kMaxFrameBytes);

// Ports and control channels: 16 ports of one queue start with 52 MiB in all, so this is spare.
constexpr unsigned kMibBase = 16;

unsigned memory_mib_of(const EthdevOptions& options) {
  if (options.memory_mib != 0) return options.memory_mib;
  return kMibBase + static_cast<unsigned>(options.vdevs.size()) * options.queues * kMibPerQueue;
}

}  // namespace

Result<void> EthdevOptions::validate() const {
  if (vdevs.empty()) return error("DPDK: no vdev named, so no port to use");
  if (queues < 1 || queues > 256) return error("DPDK: {} queues; 1 to 256 are possible", queues);
  if (vdevs.size() * queues > MemifGate::kMaxGates) {
    return error("DPDK: {} ports of {} queues are more than {} queues in all", vdevs.size(), queues,
                 MemifGate::kMaxGates);
  }
  if (file_prefix.empty() || file_prefix.find('/') != std::string::npos) {
    return error("DPDK: file_prefix '{}' must be a plain name", file_prefix);
  }
  for (const std::string& vdev : vdevs) {
    if (vdev.find("zero-copy=yes") != std::string::npos) {
      return error(
          "DPDK: vdev '{}': zero-copy needs memory in files, which --no-huge does not have: set zero-copy=no",
          vdev);
    }
  }
  return {};
}

std::string memif_vdev(unsigned index, MemifRole role, const std::string& socket) {
  return fmt::format("{}{},role={},id=0,socket-abstract=yes,socket={},zero-copy=no,bsize=2048", kMemifDriver,
                     index, role == MemifRole::kServer ? "server" : "client", socket);
}

std::string af_packet_vdev(unsigned index, const std::string& interface, unsigned queues) {
  // A frame of the ring holds the kernel's header and 1514 bytes; 2048 of them fit an mbuf and two a page.
  return fmt::format("{}{},iface={},qpairs={},blocksz=4096,framesz=2048,framecnt=512", kAfPacketDriver, index,
                     interface, queues);
}

struct EthdevPorts::State {
  unsigned queues = 0;
  std::vector<EthdevPort> ports;
  std::atomic<unsigned> queues_alive{0};

  // The EAL stays as it is. It cannot be started again in this process, and its interrupt thread lives on with
  // a memif server's listening socket, so neither that port nor the EAL's memory may be taken from under it.
  ~State() {
    CHECK_EQ(queues_alive.load(), 0u);
    for (EthdevPort& port : ports) port.stop();
  }
};

EthdevPorts::EthdevPorts(std::unique_ptr<State> state) : state_(std::move(state)) {}
EthdevPorts::~EthdevPorts() = default;

Result<std::unique_ptr<EthdevPorts>> EthdevPorts::start(const EthdevOptions& options) {
  if (Result<void> valid = options.validate(); !valid) return valid.error();
  MemifGate::choose_fences();
  if (Result<void> eal = start_eal({options.file_prefix, memory_mib_of(options)}); !eal) return eal.error();
  auto state = std::make_unique<State>();
  state->queues = options.queues;
  for (const std::string& vdev : options.vdevs) {
    Result<EthdevPort> port = EthdevPort::configure(vdev, options.queues);
    if (!port) return port.error();
    state->ports.push_back(std::move(port).value());
  }
  // Servers only begin to listen, so when all daemons start theirs before they wait for others, none waits
  // for ever.
  for (EthdevPort& port : state->ports) {
    if (port.is_memif_client()) continue;
    if (Result<void> started = port.start(); !started) return started.error();
  }
  for (EthdevPort& port : state->ports) {
    if (!port.is_memif_client()) continue;
    if (Result<void> connected = port.connect(options.connect_timeout); !connected) return connected.error();
  }
  return std::unique_ptr<EthdevPorts>(new EthdevPorts(std::move(state)));
}

unsigned EthdevPorts::ports() const {
  return static_cast<unsigned>(state_->ports.size());
}
unsigned EthdevPorts::queues() const {
  return state_->queues;
}

std::unique_ptr<NicQueue> EthdevPorts::queue(unsigned port, unsigned index) {
  CHECK_LT(port, ports());
  return state_->ports[port].queue(index, &state_->queues_alive);
}

std::array<std::byte, 6> EthdevPorts::mac_address(unsigned port) const {
  CHECK_LT(port, ports());
  return state_->ports[port].mac_address();
}

Result<Steered> EthdevPorts::steer(unsigned port, Steering wanted, std::uint16_t first_udp_port) {
  CHECK_LT(port, ports());
  return state_->ports[port].steer(wanted, first_udp_port);
}

Result<void> EthdevPorts::wait_for_link(Duration timeout) const {
  const Instant deadline = monotonic_now() + timeout;
  for (;;) {
    std::string down;
    for (const EthdevPort& port : state_->ports) {
      if (!port.link_up()) down += fmt::format(" '{}'", port.vdev());
    }
    if (down.empty()) return {};
    if (monotonic_now() >= deadline) {
      return error("DPDK: no link within {} ms on{}: is the other side running?", timeout.ns() / 1'000'000,
                   down);
    }
    ::usleep(1000);
  }
}

}  // namespace braid::proxy
