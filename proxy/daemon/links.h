// The links of a node, opened: shared-memory wires, DPDK ports, sockets, or what a simulation has instead; and on each a
// queue for every proxy, with the faults and the capture that the configuration asks for around it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/link_queues.h"
#include "proxy/daemon/node_config.h"
#include "proxy/nic/capture_queue.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/nic/steering.h"
#include "stack/stack.h"

namespace braid::proxy {

class EthdevPorts;
class SocketWaker;

// Makes the queue of a proxy on a link of the configuration, whatever kind that says the link is: for wires
// that exist in simulation only.
using MakeQueue = std::function<std::unique_ptr<NicQueue>(LinkId link, unsigned proxy)>;

class Links {
 public:
  // Fills in MAC addresses that `config` leaves out and the devices have. Counts how frames are
  // steered to each proxy. An error names the key to change.
  static Result<std::unique_ptr<Links>> open(NodeConfig& config, NodeCounters& counters,
                                             const MakeQueue& make_queue);
  // After the queues.
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // The proxy's queues, once. An error: one does not carry the frames of that stack.
  Result<std::vector<LinkQueue>> take_queues(const stack::StackConfig& stack);
  // A line for the log about a capture that lacks frames, once per capture. Any thread.
  std::optional<std::string> poll_capture_problem();
  // When no queue is used any more. An error: a file could not be written, and lacks frames.
  Result<void> finish_captures();
  // Asks each peer of the stack for a source port that the link's NIC brings to the queue of its proxy.
  Result<void> want_source_ports(const NodeConfig& config, stack::StackConfig& stack) const;

 private:
  explicit Links(const NodeConfig& config);
  Result<void> open_captures(const NodeConfig& config);
  Result<void> start_devices(NodeConfig& config);
  Result<void> open_link(NodeConfig& config, std::uint16_t link, unsigned& port, NodeCounters& counters);
  Result<void> open_wire(const NodeConfig& config, std::uint16_t link);
  Result<void> open_sockets(NodeConfig& config, std::uint16_t link);
  Result<void> open_interface(NodeConfig& config, std::uint16_t link, NodeCounters& counters);
  Result<std::shared_ptr<SocketWaker>> waker(std::uint16_t link);
  Result<void> open_device(const NodeConfig& config, std::uint16_t link, unsigned port,
                           NodeCounters& counters);
  void add(const NodeConfig& config, unsigned queue, std::uint16_t link, std::unique_ptr<NicQueue> nic);

  std::unique_ptr<EthdevPorts> ethdev_;
  std::shared_ptr<SocketWaker> waker_;                  // of the sockets, if there are any
  std::vector<std::shared_ptr<CaptureFile>> captures_;  // by proxy, if any are wanted
  std::map<std::pair<unsigned, std::uint16_t>, unsigned> capture_interfaces_;  // by proxy and link
  std::vector<std::vector<LinkQueue>> queues_;                                 // by proxy
  std::vector<Steered> steered_;                                               // by link
};

}  // namespace braid::proxy
