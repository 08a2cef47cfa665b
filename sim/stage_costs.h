// The costs of a frame for the proxies that send and receive it: its stages, priced by a cost
// model. Pure: the input is the frame's shape and the stack's result, the output is cycles.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "settings/cost_model.h"
#include "stack/stack.h"

namespace braid::sim {

// The stages of a proxy's work; each includes the cost of its bytes.
enum class Stage : std::uint8_t {
  kWindowSend,
  kAckSend,
  kUdpSend,
  kIpSend,
  kNiSend,
  kNiReceive,
  kIpReceive,
  kUdpReceive,
  kWindowReceive,
  kAckReceive,
  kDeliver,
  kTimer,
};
// The names in a model's file, in the order of Stage.
inline constexpr std::array<const char*, 12> kStageNames = {
    "window_send", "ack_send",    "udp_send",       "ip_send",     "ni_send", "ni_receive",
    "ip_receive",  "udp_receive", "window_receive", "ack_receive", "deliver", "timer"};
using StageCycles = std::array<double, kStageNames.size()>;

// One piece of a proxy's work, in cycles of a compute node.
struct Service {
  double cycles = 0;
  StageCycles stages{};
  void add(Stage stage, double of_it) {
    cycles += of_it;
    stages[static_cast<std::size_t>(stage)] += of_it;
  }
};

// The properties of a frame that decide what it costs and where it goes.
struct FrameShape {
  bool ip = false;
  bool first = false;  // it is the first fragment of a datagram, or the whole
  bool last = false;
  bool has_records = false;          // first: otherwise it acknowledges, or is of the handshake
  std::uint16_t udp_port = 0;        // first: its destination
  std::uint32_t frame_bytes = 0;     // with the Ethernet header
  std::uint32_t datagram_end = 0;    // of the fragment's payload in the datagram
  std::uint32_t datagram_bytes = 0;  // first: the length of the whole datagram, from UDP's header
};
FrameShape shape_of(ByteView frame);

class StageCosts {
 public:
  // `proxy_speed`: relative to a compute node. `checksums`: false makes them free (a mutant of the model).
  StageCosts(const settings::CostModel& model, double proxy_speed, bool checksums)
      : model_(model), proxy_speed_(proxy_speed), checksum_byte_(checksums ? model.checksum_byte : 0) {}

  Service send(const FrameShape& frame) const;
  Service receive(const FrameShape& frame, const stack::Stack::Received& received) const;
  Service timer() const;
  Duration time(const Service& service) const { return time(service.cycles); }
  Duration time(double cycles) const { return model_.time(cycles / proxy_speed_); }
  // The least time that a packet with a record takes, one way.
  Duration least_to_send() const;
  Duration least_to_receive() const;
  double proxy_speed() const { return proxy_speed_; }

 private:
  const settings::CostModel model_;
  const double proxy_speed_;
  const double checksum_byte_;
};

}  // namespace braid::sim
