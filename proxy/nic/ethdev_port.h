// One DPDK port: made of its vdev, with its queues; started, connected, stopped.
//
// Owned by the thread that sets up; each queue may then go to another.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "proxy/nic/memif_gate.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/nic/steering.h"

struct rte_mempool;

namespace braid::proxy {

inline constexpr const char* kMemifDriver = "net_memif";
inline constexpr const char* kAfPacketDriver = "net_af_packet";

// The EAL's memory that a queue takes. In ordinary memory no mbuf crosses a page, so each takes 4 KiB; the
// caches of all possible lcores take 1.1 MiB.
inline constexpr unsigned kMibPerQueue = 4;

class EthdevPort {
 public:
  // Makes the device and its queues. It is not started yet.
  static Result<EthdevPort> configure(const std::string& vdev, unsigned queues);

  const std::string& vdev() const { return vdev_; }
  // The client of a memif: connect() starts it. Every other port is started by start().
  bool is_memif_client() const { return is_memif_client_; }
  bool link_up() const;
  std::array<std::byte, 6> mac_address() const;

  Result<void> start();
  // Starts the client of a memif and waits until its server has answered. Blocks.
  Result<void> connect(Duration timeout);
  // No queue is in use any more.
  void stop();

  // Queue `index`, once each. `alive` counts those that exist, and outlives them.
  std::unique_ptr<NicQueue> queue(unsigned index, std::atomic<unsigned>* alive);
  // The port is started. Once.
  Result<Steered> steer(Steering wanted, std::uint16_t first_udp_port);

 private:
  struct Queue {
    rte_mempool* pool;
    MemifGate* gate;  // null where none is needed
    bool taken = false;
  };

  EthdevPort() = default;
  Result<void> make_device();
  Result<void> configure_device(unsigned queues);
  Result<void> set_up_queue(std::uint16_t index);
  Error failure(const char* what, int code) const;

  std::string vdev_;  // as configured
  std::uint16_t id_ = 0;
  bool is_memif_ = false;
  bool is_memif_client_ = false;
  std::vector<Queue> queues_;
};

}  // namespace braid::proxy
