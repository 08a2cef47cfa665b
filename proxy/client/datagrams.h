// Datagrams of a client: messages without a connection (PS-4, PS-5).
//
// Each takes the way over the node's control plane, with a request to it: tens of microseconds. They are for what is
// rare and needs no connection: to find each other, to ask something once, to speak a protocol that proxies serve.
// Everything else belongs on a connection.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "proxy/channel/control.h"
#include "proxy/client/client.h"
#include "stack/wire/protocol_id.h"

namespace braid::proxy {

struct ReceivedDatagram {
  // kNone: a peer has sent it. Else this client has, to that peer, and it came back for that reason.
  control::DatagramReturn returned = control::DatagramReturn::kNone;
  ClusterId peer;
  PortId source;
  PortId destination;
  std::size_t bytes = 0;
  std::array<std::byte, control::kMaxDatagramBytes> data{};

  ByteView content() const { return ByteView(data).first(bytes); }
};

// One bound port. Any thread, one at a time. The client outlives it; the port is free again when the client ends.
class Datagrams {
 public:
  // `port`: not 0, and of no other client of this node. `protocol`: one of datagrams that the node has.
  static Result<Datagrams> bind(Client& client, PortId port, stack::ProtocolId protocol = stack::kDatagrams);

  // To `destination` of another cluster of this machine, from this port; at most control::kMaxDatagramBytes.
  // It arrives at most once. If it cannot, it comes back, unless a proxy or a node dies on the way.
  Result<void> send(ClusterId to, PortId destination, ByteView bytes);
  // The next one that has arrived at this port, or has come back.
  Result<std::optional<ReceivedDatagram>> try_receive();
  // Waits for it.
  Result<ReceivedDatagram> receive(Duration timeout);

 private:
  Datagrams(Client& client, PortId port, stack::ProtocolId protocol)
      : client_(&client), port_(port), protocol_(protocol) {}
  Result<control::Message> call(const control::Message& request, const char* what);

  Client* client_;
  PortId port_;
  stack::ProtocolId protocol_;
};

}  // namespace braid::proxy
