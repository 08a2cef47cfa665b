// Between the Ethernet frames of a stack and the datagrams of the kernel: which datagram a departing frame is, and which
// frame an arriving datagram would have been.
//
// Behind the kernel there are no stations, so every address has one that follows from it. Pure; owned by one proxy's
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/addresses.h"
#include "stack/wire/flow.h"

namespace braid::proxy {

// The Ethernet address that stands for an IPv4 address: 02:62 and its four bytes.
stack::MacAddress station_of(stack::Ipv4Address address);

// Where a datagram goes or comes from.
struct UdpEnd {
  stack::Ipv4Address address;
  std::uint16_t port = 0;
  bool operator==(const UdpEnd&) const = default;
};

// A departing frame as the datagram that the kernel sends.
struct DepartingDatagram {
  UdpEnd to;
  ByteView payload;  // in the frame
};

class UdpFrames {
 public:
  // Ethernet, IPv4 and UDP; what arrival() needs in front of a payload.
  static constexpr std::size_t kHeaderBytes = stack::kFlowHeaderBytes;

  // `own`: what the kernel's socket is bound to.
  explicit UdpFrames(const UdpEnd& own) : own_(own), station_(station_of(own.address)) {}

  // nullopt: the frame is none that the socket can send: not a whole UDP packet from its address and port.
  std::optional<DepartingDatagram> departure(ByteView frame) const;

  // Writes the headers of a datagram with this payload right in front of it, where there is room for kHeaderBytes. The
  // payload is at most stack::kUdpMaxPayloadBytes long. Returns the whole frame.
  MutableBytes arrival(const UdpEnd& from, MutableBytes payload);

 private:
  // The headers of one peer's datagrams; a few dozen peers are enough for most nodes, and more only take turns.
  struct Flow {
    UdpEnd from;
    stack::FlowHeader header;
  };
  static constexpr std::size_t kFlows = 64;
  const stack::FlowHeader& header_of(const UdpEnd& from);

  const UdpEnd own_;
  const stack::MacAddress station_;
  std::array<Flow, kFlows> flows_{};
};

}  // namespace braid::proxy
