#include "proxy/nic/ethdev_port.h"

#include <fmt/core.h>
#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "proxy/nic/eal.h"
#include "proxy/nic/ethdev_queue.h"
#include "proxy/nic/ethdev_steering.h"

namespace braid::proxy {
namespace {

// The software drivers copy frames into rings of their own, so mbufs are needed only for what a queue has
// lent out (2 bursts), what the driver holds during a call (1 burst) and the owner's cache (1.5 times its
// size): 192.
constexpr unsigned kMbufsPerQueue = 511;  // one less than a power of two suits the pool's ring
constexpr unsigned kMbufCache = 64;
constexpr std::uint16_t kDescriptors = 512;

// A memif server that is there answers within a few milliseconds.
constexpr Duration kMemifAnswer = Duration::ms(100);

}  // namespace

Error EthdevPort::failure(const char* what, int code) const {
  return error("DPDK: vdev '{}': {}: {}", vdev_, what, rte_strerror(-code));
}

Result<EthdevPort> EthdevPort::configure(const std::string& vdev, unsigned queues) {
  EthdevPort port;
  port.vdev_ = vdev;
  port.is_memif_ = vdev.starts_with(kMemifDriver);
  port.is_memif_client_ = port.is_memif_ && vdev.find("role=client") != std::string::npos;
  if (const Result<void> made = port.make_device(); !made) return made.error();
  if (const Result<void> configured = port.configure_device(queues); !configured) return configured.error();
  for (unsigned q = 0; q < queues; ++q) {
    const Result<void> set_up = port.set_up_queue(static_cast<std::uint16_t>(q));
    if (!set_up) return set_up.error();
  }
  return port;
}

Result<void> EthdevPort::make_device() {
  const std::string name = vdev_.substr(0, vdev_.find(','));
  const std::string arguments = name.size() == vdev_.size() ? "" : vdev_.substr(name.size() + 1);
  if (const int made = rte_vdev_init(name.c_str(), arguments.c_str()); made != 0)
    return failure("cannot be made (unknown driver, wrong argument, no such interface, or no CAP_NET_RAW)",
                   made);
  if (const int found = rte_eth_dev_get_port_by_name(name.c_str(), &id_); found != 0)
    return failure("made no port", found);
  return {};
}

Result<void> EthdevPort::configure_device(unsigned queues) {
  rte_eth_dev_info info{};
  if (const int done = rte_eth_dev_info_get(id_, &info); done != 0)
    return failure("does not tell its capabilities", done);
  rte_eth_conf conf{};
  if (queues > 1 && hashes_udp(info.flow_type_rss_offloads)) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
  }
  const auto n = static_cast<std::uint16_t>(queues);
  if (const int done = rte_eth_dev_configure(id_, n, n, &conf); done != 0)
    return failure("cannot have that many queues", done);
  return {};
}

Result<void> EthdevPort::set_up_queue(std::uint16_t index) {
  const std::string pool_name = fmt::format("braid_{}_{}", id_, index);
  rte_mempool* const pool = rte_pktmbuf_pool_create(pool_name.c_str(), kMbufsPerQueue, kMbufCache, 0,
                                                    RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
  if (pool == nullptr) return failure("no memory for its packets: raise memory_mib", -rte_errno);
  queues_.push_back({pool, is_memif_ ? MemifGate::make() : nullptr});
  int done = rte_eth_rx_queue_setup(id_, index, kDescriptors, SOCKET_ID_ANY, nullptr, pool);
  if (done != 0) return failure("receive queue", done);
  done = rte_eth_tx_queue_setup(id_, index, kDescriptors, SOCKET_ID_ANY, nullptr);
  if (done != 0) return failure("transmit queue", done);
  return {};
}

bool EthdevPort::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

std::array<std::byte, 6> EthdevPort::mac_address() const {
  rte_ether_addr address{};
  CHECK_EQ(rte_eth_macaddr_get(id_, &address), 0);
  std::array<std::byte, 6> bytes;
  std::memcpy(bytes.data(), address.addr_bytes, bytes.size());
  return bytes;
}

Result<void> EthdevPort::start() {
  if (const int done = rte_eth_dev_start(id_); done != 0) return failure("cannot be started", done);
  // The stack has addresses of its own making. Drivers that cannot filter (memif) need not be told.
  (void)rte_eth_promiscuous_enable(id_);
  return {};
}

// A client that comes before its server's port is started is turned away, so it tries again.
Result<void> EthdevPort::connect(Duration timeout) {
  const Instant deadline = monotonic_now() + timeout;
  do {
    if (rte_eth_dev_start(id_) == 0) {
      const Instant next_try = monotonic_now() + kMemifAnswer;
      while (monotonic_now() < next_try) {
        if (link_up()) {
          // An empty burst lays out the buffers that the server sends into.
          for (std::uint16_t q = 0; q < queues_.size(); ++q) rte_eth_rx_burst(id_, q, nullptr, 0);
          return {};
        }
        ::usleep(500);
      }
      stop();
    }
    ::usleep(2000);
  } while (monotonic_now() < deadline);
  return error(
      "DPDK: vdev '{}': no server answered within {} ms: is the other daemon running, with as many queues?",
      vdev_, timeout.ns() / 1'000'000);
}

void EthdevPort::stop() {
  if (is_memif_) {
    run_in_interrupt_thread([](void* self) { rte_eth_dev_stop(static_cast<const EthdevPort*>(self)->id_); },
                            this);
  } else {
    rte_eth_dev_stop(id_);
    rte_eth_dev_close(id_);
  }
}

std::unique_ptr<NicQueue> EthdevPort::queue(unsigned index, std::atomic<unsigned>* alive) {
  CHECK_LT(index, queues_.size());
  Queue& queue = queues_[index];
  CHECK(!queue.taken);
  queue.taken = true;
  return std::make_unique<EthdevQueue>(id_, static_cast<std::uint16_t>(index), queue.pool, queue.gate, alive);
}

Result<Steered> EthdevPort::steer(Steering wanted, std::uint16_t first_udp_port) {
  const auto queues = static_cast<unsigned>(queues_.size());
  EthdevSteering steering(id_, queues);
  Result<Steered> steered = proxy::steer(steering, wanted, first_udp_port, queues);
  if (!steered) return error("DPDK: vdev '{}': {}", vdev_, steered.error().text);
  return steered;
}

}  // namespace braid::proxy
