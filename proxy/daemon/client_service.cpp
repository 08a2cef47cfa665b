#include "proxy/daemon/client_service.h"

#include <fmt/core.h>

#include "proxy/daemon/client_requests.h"

namespace braid::proxy {

ClientService::Action ClientService::on_request(Instant now, ClientId id, const control::Message& m) {
  Clients::Client* const client = clients_.find(id);
  if (client == nullptr || client->gone) return Nothing{};
  if (const std::string problem = request_problem(m, client->memory.get()); !problem.empty()) {
    clients_.refuse(id, m.serial, problem);
    return Nothing{};
  }
  switch (m.kind) {
    case control::Kind::kAttach:
      attach(id, *client, m);
      break;
    case control::Kind::kCounters:
      send_counters(id, m);
      break;
    case control::Kind::kSetProxies:
      return set_proxies(id, m);
    case control::Kind::kListen:
      listen(id, m);
      break;
    case control::Kind::kConnect:
      connect(now, id, m);
      break;
    case control::Kind::kConnectMachine:
      if (refuses_protocol(id, m, m.connect_machine.connect.protocol, Protocol::Carries::kConnections))
        return Nothing{};
      return machine_request(now, id, m);
    case control::Kind::kClose:
      close(id, m);
      break;
    case control::Kind::kBindDatagrams:
      bind_datagrams(id, m);
      break;
    case control::Kind::kTakeDatagram:
      take_datagram(id, m);
      break;
    case control::Kind::kSendDatagram:
      return send_datagram(id, m);
    case control::Kind::kAttached:
    case control::Kind::kOk:
    case control::Kind::kOpened:
    case control::Kind::kRefused:
    case control::Kind::kDatagram:
      break;  // request_problem() refuses these
  }
  return Nothing{};
}

void ClientService::attach(ClientId id, Clients::Client& client, const control::Message& m) {
  const Result<ClientMemory*> memory = clients_.attach(client, m.attach, config_.proxies);
  if (!memory) return clients_.refuse(id, m.serial, memory.error().text);
  lanes_.add(id, **memory);
  control::Message reply;
  reply.attached.geometry = (*memory)->geometry();
  reply.attached.cluster = config_.cluster;
  reply.attached.clusters = config_.clusters;
  clients_.answer(id, control::Kind::kAttached, m.serial, reply, (*memory)->fd());
}

void ClientService::send_counters(ClientId id, const control::Message& m) {
  if (config_.counters_fd < 0) return clients_.refuse(id, m.serial, "this node keeps its counters to itself");
  clients_.answer(id, control::Kind::kOk, m.serial, {}, config_.counters_fd);
}

// A request for 0 proxies changes nothing, and asks how many are active.
ClientService::Action ClientService::set_proxies(ClientId id, const control::Message& m) {
  const unsigned count = m.set_proxies.active;
  if (count > config_.proxies) {
    clients_.refuse(id, m.serial,
                    fmt::format("{} proxies: this node was started with {}, so 1 to {} can be active", count,
                                config_.proxies, config_.proxies));
    return Nothing{};
  }
  control::Message body;
  body.set_proxies = {count != 0 ? count : lanes_.active(), config_.proxies};
  clients_.answer(id, control::Kind::kOk, m.serial, body);
  if (count == 0) return Nothing{};
  return SetActiveProxies{count};
}

void ClientService::listen(ClientId id, const control::Message& m) {
  std::set<std::uint32_t>& listeners = listeners_[id];
  if (listeners.size() >= kMaxListeners)
    return clients_.refuse(id, m.serial,
                           fmt::format("this client listens on {} ports already: close some", kMaxListeners));
  const control::Listen& l = m.listen;
  if (refuses_protocol(id, m, l.protocol, Protocol::Carries::kConnections)) return;
  const convergence::Refusal refusal =
      ports_.listen(id, PortId(l.port), l.endpoint, l.window_bytes, l.ordered != 0,
                    stack::ProtocolId(static_cast<std::uint8_t>(l.protocol)));
  if (refusal != convergence::Refusal::kNone)
    return clients_.refuse(id, m.serial, convergence::to_string(refusal));
  listeners.insert(l.port);
  clients_.answer(id, control::Kind::kOk, m.serial);
}

void ClientService::connect(Instant now, ClientId id, const control::Message& m) {
  const control::Connect& c = m.connect;
  if (c.cluster >= config_.clusters)
    return clients_.refuse(id, m.serial, convergence::to_string(convergence::Refusal::kNoSuchCluster));
  if (refuses_protocol(id, m, c.protocol, Protocol::Carries::kConnections)) return;
  ports_.connect(now, id, m.serial, c.endpoint, ClusterId(static_cast<std::uint16_t>(c.cluster)),
                 PortId(c.port), c.window_bytes, c.ordered != 0, Duration::ms(c.timeout_ms),
                 stack::ProtocolId(static_cast<std::uint8_t>(c.protocol)));
}

// PS-2
bool ClientService::refuses_protocol(ClientId id, const control::Message& m, std::uint32_t protocol,
                                     Protocol::Carries carries) {
  if (protocols_.carry(protocol, carries)) return false;
  clients_.refuse(
      id, m.serial,
      fmt::format("protocol {} is not registered at this node for {}: use one that is, or register "
                  "it (proxy/daemon/protocols.h)",
                  protocol, carries == Protocol::Carries::kConnections ? "connections" : "datagrams"));
  return true;
}

void ClientService::bind_datagrams(ClientId id, const control::Message& m) {
  const control::BindDatagrams& b = m.bind_datagrams;
  if (refuses_protocol(id, m, b.protocol, Protocol::Carries::kDatagrams)) return;
  switch (datagrams_.bind(id, stack::ProtocolId(static_cast<std::uint8_t>(b.protocol)), PortId(b.port))) {
    case DatagramPorts::Bound::kBound:
      return clients_.answer(id, control::Kind::kOk, m.serial);
    case DatagramPorts::Bound::kTaken:
      return clients_.refuse(id, m.serial, "another client has bound that port: choose another");
    case DatagramPorts::Bound::kTooMany:
      return clients_.refuse(
          id, m.serial, fmt::format("a client binds at most {} ports", DatagramPorts::kMaxPortsPerClient));
  }
}

void ClientService::take_datagram(ClientId id, const control::Message& m) {
  const control::BindDatagrams& b = m.bind_datagrams;
  const stack::ProtocolId protocol(static_cast<std::uint8_t>(b.protocol));
  if (b.protocol != protocol.value() || !datagrams_.is_bound_by(id, protocol, PortId(b.port)))
    return clients_.refuse(id, m.serial, "this client has not bound that port: bind it first");
  const std::optional<Datagram> datagram = datagrams_.take(id, protocol, PortId(b.port));
  if (!datagram) return clients_.answer(id, control::Kind::kOk, m.serial);
  clients_.answer(id, control::Kind::kDatagram, m.serial, datagram_message(*datagram));
}

ClientService::Action ClientService::send_datagram(ClientId id, const control::Message& m) {
  if (refuses_protocol(id, m, m.datagram.protocol, Protocol::Carries::kDatagrams)) return Nothing{};
  if (m.datagram.cluster >= config_.clusters || m.datagram.cluster == config_.cluster) {
    clients_.refuse(id, m.serial, convergence::to_string(convergence::Refusal::kNoSuchCluster));
    return Nothing{};
  }
  if (!datagrams_.is_bound_by(id, stack::ProtocolId(static_cast<std::uint8_t>(m.datagram.protocol)),
                              PortId(m.datagram.source))) {
    clients_.refuse(id, m.serial, "this client has not bound the source port: bind it first");
    return Nothing{};
  }
  return SendDatagram{m.serial, requested_datagram(m.datagram)};
}

void ClientService::close(ClientId id, const control::Message& m) {
  if (const auto found = listeners_.find(id); found != listeners_.end()) found->second.erase(m.close.port);
  ports_.close(id, PortId(m.close.port));
  clients_.answer(id, control::Kind::kOk, m.serial);
}

bool ClientService::client_gone(ClientId id) {
  const Clients::Client* const client = clients_.find(id);
  if (client == nullptr || client->gone) return false;
  clients_.gone(id);
  listeners_.erase(id);
  ports_.client_gone(id);
  datagrams_.client_gone(id);
  if (client->memory == nullptr) clients_.erase(id);
  return true;
}

std::vector<AddressedCommand> ClientService::free_gone(const ProxyMonitor& monitor) {
  std::vector<AddressedCommand> commands;
  // Messages that a stalled proxy has lent are read by others until they have dropped them.
  const bool lent = monitor.awaits_anybody();
  for (auto next = clients_.all().begin(); next != clients_.all().end();) {
    const auto& [id_of_next, client] = *next++;
    const ClientId id = id_of_next;
    if (!client.gone || (lanes_.serves(id) && ports_.held_by(id) > 0)) continue;
    if (lanes_.serves(id)) lanes_.detach(id);
    if (!lanes_.detached(id) || lent) continue;
    for (unsigned p = 0; p < monitor.proxies(); ++p)
      if (monitor.running(p) && client.memory->view(p) != nullptr) commands.push_back({p, UnmapClient{id}});
    lanes_.remove(id);
    clients_.erase(id);
  }
  return commands;
}

}  // namespace braid::proxy
