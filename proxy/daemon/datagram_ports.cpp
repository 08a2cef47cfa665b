#include "proxy/daemon/datagram_ports.h"

#include <algorithm>

namespace braid::proxy {

DatagramPorts::Bound DatagramPorts::bind(ClientId client, stack::ProtocolId protocol, PortId port) {
  if (const auto found = ports_.find({protocol, port}); found != ports_.end())
    return found->second.client == client ? Bound::kBound : Bound::kTaken;
  const auto its =
      std::count_if(ports_.begin(), ports_.end(), [&](const auto& p) { return p.second.client == client; });
  if (static_cast<std::size_t>(its) >= kMaxPortsPerClient) return Bound::kTooMany;
  ports_[{protocol, port}].client = client;
  return Bound::kBound;
}

void DatagramPorts::client_gone(ClientId client) {
  std::erase_if(ports_, [&](const auto& p) { return p.second.client == client; });
}

bool DatagramPorts::is_bound_by(ClientId client, stack::ProtocolId protocol, PortId port) const {
  const auto found = ports_.find({protocol, port});
  return found != ports_.end() && found->second.client == client;
}

DatagramReturn DatagramPorts::deliver(const Datagram& d) {
  const PortId port = d.returned == DatagramReturn::kNone ? d.destination : d.source;
  const auto found = ports_.find({d.protocol, port});
  if (found == ports_.end()) return DatagramReturn::kNoSuchPort;
  if (found->second.waiting.size() >= kMaxWaiting) return DatagramReturn::kNoRoom;
  found->second.waiting.push_back(d);
  return DatagramReturn::kNone;
}

std::optional<Datagram> DatagramPorts::take(ClientId client, stack::ProtocolId protocol, PortId port) {
  const auto found = ports_.find({protocol, port});
  if (found == ports_.end() || found->second.client != client || found->second.waiting.empty())
    return std::nullopt;
  const Datagram first = found->second.waiting.front();
  found->second.waiting.pop_front();
  return first;
}

}  // namespace braid::proxy
