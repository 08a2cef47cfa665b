#include "proxy/daemon/client_requests.h"

#include <fmt/core.h>

#include <algorithm>

namespace braid::proxy {
namespace {

std::string machine_problem(const control::ConnectMachine& c) {
  if (c.nis < 1 || c.nis > kMaxNis || c.udp_port == 0)
    return fmt::format("{} addresses, UDP port {}: name 1 to {}, and the port of its machines.udp_port",
                       c.nis, c.udp_port, kMaxNis);
  for (std::size_t i = 0; i < c.nis; ++i) {
    const stack::Ipv4Address address(c.addresses[i]);
    if (!address.is_unicast() || std::find(c.addresses, c.addresses + i, c.addresses[i]) != c.addresses + i)
      return fmt::format("{}: must be one host's address, and named once", address.to_string());
  }
  return "";
}

std::string datagram_problem(const control::DatagramMessage& d) {
  if (d.bytes > control::kMaxDatagramBytes)
    return fmt::format("{} bytes: a datagram has at most {}; use a connection", d.bytes,
                       control::kMaxDatagramBytes);
  return d.source == 0 || d.destination == 0 ? "port 0" : "";
}

}  // namespace

std::string request_problem(const control::Message& m, const ClientMemory* memory) {
  if (m.magic != control::kMagic || m.version != control::kVersion)
    return fmt::format(
        "this braidd speaks version {} of the control protocol, the client {}: build both from the same source",
        control::kVersion, m.version);
  if (m.kind == control::Kind::kAttach || m.kind == control::Kind::kCounters ||
      m.kind == control::Kind::kSetProxies)
    return "";
  if (memory == nullptr) return "attach first";
  const unsigned endpoints = memory->geometry().endpoints;
  switch (m.kind) {
    case control::Kind::kListen:
      return m.listen.endpoint >= endpoints || m.listen.port == 0 ? "no such endpoint, or port 0" : "";
    case control::Kind::kConnect:
      return m.connect.endpoint >= endpoints ? "no such endpoint" : "";
    case control::Kind::kConnectMachine:
      return m.connect_machine.connect.endpoint >= endpoints ? "no such endpoint"
                                                             : machine_problem(m.connect_machine);
    case control::Kind::kBindDatagrams:
    case control::Kind::kTakeDatagram:
      return m.bind_datagrams.port == 0 ? "port 0" : "";
    case control::Kind::kSendDatagram:
      return datagram_problem(m.datagram);
    case control::Kind::kClose:
      return "";
    case control::Kind::kAttach:
    case control::Kind::kCounters:
    case control::Kind::kSetProxies:
    case control::Kind::kAttached:
    case control::Kind::kOk:
    case control::Kind::kOpened:
    case control::Kind::kRefused:
    case control::Kind::kDatagram:
      break;
  }
  return "not a request";
}

Machines::Request machine_request(Instant now, ClientId client, const control::Message& m) {
  const control::ConnectMachine& c = m.connect_machine;
  Machines::Request request;
  request.client = client;
  request.serial = m.serial;
  request.endpoint = c.connect.endpoint;
  request.port = PortId(c.connect.port);
  request.window_bytes = c.connect.window_bytes;
  request.ordered = c.connect.ordered != 0;
  request.protocol = stack::ProtocolId(static_cast<std::uint8_t>(c.connect.protocol));
  request.deadline = now + Duration::ms(c.connect.timeout_ms);
  request.introduction_port = c.udp_port;
  for (std::size_t i = 0; i < c.nis; ++i) request.addresses.emplace_back(c.addresses[i]);
  return request;
}

Datagram requested_datagram(const control::DatagramMessage& m) {
  Datagram d;
  d.protocol = stack::ProtocolId(static_cast<std::uint8_t>(m.protocol));
  d.peer = ClusterId(m.cluster);
  d.source = PortId(m.source);
  d.destination = PortId(m.destination);
  d.bytes = static_cast<std::uint16_t>(m.bytes);
  std::copy_n(m.data, d.bytes, d.data.begin());
  return d;
}

control::Message datagram_message(const Datagram& d) {
  control::Message m;
  m.datagram.protocol = d.protocol.value();
  m.datagram.cluster = d.peer.value();
  m.datagram.returned = static_cast<std::uint16_t>(d.returned);
  m.datagram.source = d.source.value();
  m.datagram.destination = d.destination.value();
  m.datagram.bytes = d.bytes;
  std::copy_n(d.data.begin(), d.bytes, m.datagram.data);
  return m;
}

control::Message opened_message(const convergence::Ports::End& end, bool accepted) {
  control::Message m;
  m.opened.listener = accepted ? end.listener.value() : 0;
  m.opened.endpoint = end.endpoint;
  m.opened.port = end.port.value();
  m.opened.peer_port = end.peer_port.value();
  m.opened.peer_cluster = end.peer.value();
  m.opened.ordered = end.ordered ? 1 : 0;
  m.opened.cell = end.grant.cell;
  m.opened.window_offset = end.grant.window_offset;
  m.opened.window_bytes = end.window_bytes;
  m.opened.peer_window_bytes = end.peer_window_bytes;
  return m;
}

}  // namespace braid::proxy
