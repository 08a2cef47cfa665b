// A message without a connection: it goes to a port of another cluster at most once, in any order, and comes back
// where it can be told that nobody takes it (PS-4, PS-5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "proxy/channel/control.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

using control::DatagramReturn;

struct Datagram {
  static constexpr std::size_t kMaxBytes = control::kMaxDatagramBytes;
  stack::ProtocolId protocol = stack::kDatagrams;
  DatagramReturn returned =
      DatagramReturn::kNone;  // else it is one that this node sent, and why it came back
  // The other cluster, which it goes to or came from, and the ports as they were when it was sent.
  ClusterId peer;
  PortId source;
  PortId destination;
  std::uint16_t bytes = 0;
  std::array<std::byte, kMaxBytes> data{};

  ByteView content() const { return ByteView(data).first(bytes); }
};

}  // namespace braid::proxy
