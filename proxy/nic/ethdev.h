// Ports of DPDK as NicQueues: memif between daemons of one host, af_packet over any kernel interface, and any
// other port whose driver is linked in (proxy/nic/CMakeLists.txt names them). Runs as an ordinary user
// without huge pages where the driver itself allows it (memif does; af_packet asks for CAP_NET_RAW).
//
// Nothing of DPDK shows here, and no checksum is left to the port: the stack computes them all.
//
// memif and the death of a peer: DPDK 22.11 unmaps the shared rings in its interrupt thread as soon as the
// peer's socket closes, while a proxy may be inside them. Here the driver's unmapping waits until no queue is
// inside a burst, and a queue whose link is down does not enter one (memif_gate.h), so a peer may
// be killed at any moment. A server accepts its peer's successor; a client that lost its server stays down.
//
// A memif server's link is up a moment before its client has laid out buffers to receive into; what it sends
// in that moment is dropped and counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ethernet.h"
#include "base/result.h"
#include "base/time.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/nic/steering.h"

namespace braid::proxy {

// The longest frame of memif and af_packet: an MTU of 1500.
inline constexpr std::uint32_t kEthdevMaxFrameBytes = 1500 + kEthernetHeaderBytes;

struct EthdevOptions {
  // Devices as the EAL's --vdev takes them, name first; memif_vdev() and af_packet_vdev() write them. Port i
  // is the i-th of them.
  std::vector<std::string> vdevs;
  // Receive and transmit queues of every port: as many as the cluster has proxies. Both ends of a memif need
  // the same number.
  unsigned queues = 1;
  // Name of the EAL's folder, which is empty and gone before start() returns. Nothing is shared by way of it,
  // so all processes may have the same.
  std::string file_prefix = "braid";
  // Memory that the EAL takes from the system at start; 0: as much as the ports and queues need.
  unsigned memory_mib = 0;
  // How long start() tries to reach the servers of the memif clients among the vdevs.
  Duration connect_timeout = Duration::s(10);

  Result<void> validate() const;
};

enum class MemifRole { kServer, kClient };

// The vdev of one end of a memif link. `socket` is a name in the abstract namespace (nothing in the file
// system), unique to the run and the pair of clusters; the server is the side that starts to listen, by
// custom the lower cluster id.
std::string memif_vdev(unsigned index, MemifRole role, const std::string& socket);
// The vdev over the kernel's interface `interface`, which should have no address, or the kernel answers for
// us.
std::string af_packet_vdev(unsigned index, const std::string& interface, unsigned queues);

// The ports of this process. Made, used for set-up and destroyed by one thread; each queue may then go to
// another.
class EthdevPorts {
 public:
  // Starts the EAL, which works once in a process's life, then the ports: memif servers first, then clients,
  // which are connected when start() returns. The calling thread's CPU affinity is left as it was.
  static Result<std::unique_ptr<EthdevPorts>> start(const EthdevOptions& options);
  // All queues are gone by now.
  ~EthdevPorts();
  EthdevPorts(const EthdevPorts&) = delete;
  EthdevPorts& operator=(const EthdevPorts&) = delete;

  unsigned ports() const;
  unsigned queues() const;
  // Each (port, index) once. The calling thread of the queue's methods is made known to DPDK at its first
  // call.
  std::unique_ptr<NicQueue> queue(unsigned port, unsigned index);
  std::array<std::byte, 6> mac_address(unsigned port) const;
  // Has the port bring UDP packets to `first_udp_port` + i to queue i, as far as it can (steering.h). Once.
  Result<Steered> steer(unsigned port, Steering wanted, std::uint16_t first_udp_port);

  // Until every port's link is up; the error names those that are not. Blocks.
  Result<void> wait_for_link(Duration timeout) const;

 private:
  struct State;
  explicit EthdevPorts(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace braid::proxy
