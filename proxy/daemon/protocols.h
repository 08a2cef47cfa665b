// The protocols of a node, side by side behind one switch (paper 001): what each of their records is for, by the id
// in its header (PS-1). Registered before the node starts; a record of any other id is counted and refused.
//
// To add one of datagrams, derive from DatagramProtocol and add() it; examples/remote_counter.h is the whole of one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/datagram.h"
#include "stack/wire/protocol_id.h"

namespace braid::proxy {

// A proxy's handling of the datagrams of one protocol. Each proxy has an object of its own, which its thread alone
// calls: no locks, no blocking, and what objects of several proxies share is the protocol's care.
class DatagramProtocol {
 public:
  enum class Verdict : std::uint8_t {
    kForClient,  // the client that has bound its destination port takes it
    kAnswered,   // `answer` goes back to its source port
    kTaken,      // nothing more is to be done
    kRefused,    // it goes back to its sender as it came
  };
  virtual ~DatagramProtocol() = default;
  // A datagram has arrived, of any content. `answer`: empty, with the ports of an answer.
  virtual Verdict receive(Instant now, const Datagram& datagram, Datagram& answer) = 0;
};
using MakeDatagramProtocol = std::function<std::unique_ptr<DatagramProtocol>()>;

struct Protocol {
  enum class Carries : std::uint8_t {
    kNothing,      // it is unknown
    kConnections,  // messages and credits of parallel connections
    kControl,      // messages between control planes
    kDatagrams,
  };
  stack::ProtocolId id;
  std::string name;  // in the lists of counters
  Carries carries = Carries::kNothing;
  MakeDatagramProtocol make = {};  // of kDatagrams
};

class Protocols {
 public:
  // Braid's own: messages, shared memory, datagrams and control.
  Protocols();

  // One more, of datagrams; its id is kFirstFreeProtocol or above.
  Result<void> add(stack::ProtocolId id, const std::string& name, const MakeDatagramProtocol& make);
  // One more whose messages are those of parallel connections (ConnectionOptions::protocol).
  Result<void> add_of_connections(stack::ProtocolId id, const std::string& name);

  const std::vector<Protocol>& all() const { return protocols_; }
  // That protocol is registered and carries such records.
  bool carry(std::uint32_t id, Protocol::Carries carries) const;

 private:
  Result<void> add(Protocol protocol);

  std::vector<Protocol> protocols_;
};

}  // namespace braid::proxy
