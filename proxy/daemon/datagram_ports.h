// The ports that clients have bound for datagrams, and the datagrams that wait for each (PS-5). The ports of
// connections are others, and so are those of each protocol.
//
// Pure. Owned by the control plane.
#pragma once

#include <compare>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>

#include "base/ids.h"
#include "proxy/daemon/datagram.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class DatagramPorts {
 public:
  // Datagrams that wait at one port; what comes then goes back.
  static constexpr std::size_t kMaxWaiting = 64;
  static constexpr std::size_t kMaxPortsPerClient = 64;

  enum class Bound : std::uint8_t { kBound, kTaken, kTooMany };
  // kBound too if it was the client's before.
  Bound bind(ClientId client, stack::ProtocolId protocol, PortId port);
  void client_gone(ClientId client);
  bool is_bound_by(ClientId client, stack::ProtocolId protocol, PortId port) const;

  // A datagram for its destination port, or one of ours that came back, for its source port. kNone: it waits there;
  // else why it does not.
  [[nodiscard]] DatagramReturn deliver(const Datagram& datagram);
  // The next one that waits at the client's port.
  std::optional<Datagram> take(ClientId client, stack::ProtocolId protocol, PortId port);

 private:
  struct Key {
    stack::ProtocolId protocol;
    PortId port;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    ClientId client = 0;
    std::deque<Datagram> waiting;
  };

  std::map<Key, Entry> ports_;
};

}  // namespace braid::proxy
