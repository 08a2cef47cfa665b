// How packets come to the receive queue of the proxy whose port they name. A port of a NIC has one of three
// ways, the first of them that it offers being the best:
//
//   flow      a rule for each queue: UDP packets to the port of proxy q go to queue q
//   rss       the NIC hashes addresses and ports, and a table turns the hash into a queue. Key and table are
//             known here, so each peer is told a source port that hashes to the right queue (SC-12)
//   hand-off  whichever queue they land on, that proxy hands them to the right one, in software
//
// The first two only spare the hand-off, which always works and is counted (`misdirected`).
//
// Pure: what the port offers comes in through SteerablePort, which ethdev_steering.cpp makes of DPDK.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace braid::proxy {

// The steering that is requested of a port, and the result.
enum class Steering : std::uint8_t {
  kAuto,  // wanted only: the best that there is
  kFlow,
  kRss,
  kHandoff,
};
constexpr std::string_view to_string(Steering steering) {
  switch (steering) {
    case Steering::kAuto:
      return "auto";
    case Steering::kFlow:
      return "flow";
    case Steering::kRss:
      return "rss";
    case Steering::kHandoff:
      return "handoff";
  }
  return "unknown";
}

// How a port turns an IPv4 UDP packet into a queue: the Toeplitz hash of source address, destination address,
// source port and destination port, whose low bits choose an entry of the table.
struct RssHash {
  std::vector<std::uint8_t> key;     // at least 16 bytes: what those 12 need
  std::vector<std::uint16_t> table;  // queues; a power of two of them
};

// Where packets come from and go to, in host order.
struct UdpFlow {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// The queue that such packets land on.
unsigned queue_of(const RssHash& hash, const UdpFlow& flow);
// The first of the `count` ports from `first` on that brings packets, `flow` otherwise, to `queue`; nullopt:
// none does.
std::optional<std::uint16_t> source_port_for(const RssHash& hash, UdpFlow flow, unsigned queue,
                                             std::uint16_t first, unsigned count);

// The features of a port that steering uses. Errors are the port's own reasons, for use in a sentence.
class SteerablePort {
 public:
  virtual ~SteerablePort() = default;
  // From now on UDP packets to `udp_port` go to `queue`.
  virtual Result<void> add_flow_rule(std::uint16_t udp_port, unsigned queue) = 0;
  // Takes back what add_flow_rule() did.
  virtual void remove_flow_rules() = 0;
  // The hash in use, over UDP ports too, with a table that names every queue.
  virtual Result<RssHash> rss_hash() = 0;
};

// The result. `hash` is used for kRss only.
struct Steered {
  Steering way = Steering::kHandoff;
  RssHash hash;
};

// Steers packets to `first_udp_port` + q to queue q, for all of `queues`. The error says why a way that was
// demanded is not available, and what to do; kAuto and kHandoff have none.
Result<Steered> steer(SteerablePort& port, Steering wanted, std::uint16_t first_udp_port, unsigned queues);

}  // namespace braid::proxy
