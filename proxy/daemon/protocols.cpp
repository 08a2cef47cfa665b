#include "proxy/daemon/protocols.h"

#include <algorithm>
#include <utility>

namespace braid::proxy {
namespace {

// Datagrams of programs: each is for a client.
class ForClients final : public DatagramProtocol {
 public:
  Verdict receive(Instant /*now*/, const Datagram& /*datagram*/, Datagram& /*answer*/) override {
    return Verdict::kForClient;
  }
};

}  // namespace

Protocols::Protocols()
    : protocols_{{stack::kMessages, "messages", Protocol::Carries::kConnections},
                 {stack::kSharedMemory, "shared_memory", Protocol::Carries::kConnections},
                 {stack::kDatagrams, "datagrams", Protocol::Carries::kDatagrams,
                  [] { return std::make_unique<ForClients>(); }},
                 {stack::kControl, "control", Protocol::Carries::kControl}} {}

Result<void> Protocols::add(stack::ProtocolId id, const std::string& name, const MakeDatagramProtocol& make) {
  return add({id, name, Protocol::Carries::kDatagrams, make});
}

Result<void> Protocols::add_of_connections(stack::ProtocolId id, const std::string& name) {
  return add({id, name, Protocol::Carries::kConnections});
}

Result<void> Protocols::add(Protocol protocol) {
  const unsigned id = protocol.id.value();
  if (protocol.id < stack::kFirstFreeProtocol)
    return error("protocol {} ({}): ids below {} are Braid's own", id, protocol.name,
                 stack::kFirstFreeProtocol.value());
  for (const Protocol& other : protocols_)
    if (other.id == protocol.id || other.name == protocol.name)
      return error("protocol {} ({}): {} ({}) is registered: give each an id and a name of its own", id,
                   protocol.name, other.id.value(), other.name);
  if (protocol.name.empty() || protocol.name.size() >= sizeof(ProtocolName::name))
    return error("protocol {}: a name has 1 to {} characters", id, sizeof(ProtocolName::name) - 1);
  if (protocols_.size() == kMaxProtocols)
    return error("protocol {} ({}): a node has at most {} protocols", id, protocol.name, kMaxProtocols);
  protocols_.push_back(std::move(protocol));
  return {};
}

bool Protocols::carry(std::uint32_t id, Protocol::Carries carries) const {
  return std::any_of(protocols_.begin(), protocols_.end(),
                     [&](const Protocol& p) { return p.id.value() == id && p.carries == carries; });
}

}  // namespace braid::proxy
