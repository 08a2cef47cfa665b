#include "proxy/client/datagrams.h"

#include <algorithm>

namespace braid::proxy {
namespace {

constexpr Duration kRequestTimeout = 5_s;

}  // namespace

Result<control::Message> Datagrams::call(const control::Message& request, const char* what) {
  Result<control::Message> answer = client_->service().call(request, kRequestTimeout);
  if (!answer)
    return error("{} datagram port {} of protocol {}: {}", what, port_.value(), protocol_.value(),
                 answer.error().text);
  return answer;
}

Result<Datagrams> Datagrams::bind(Client& client, PortId port, stack::ProtocolId protocol) {
  Datagrams bound(client, port, protocol);
  control::Message request;
  request.kind = control::Kind::kBindDatagrams;
  request.bind_datagrams = {protocol.value(), port.value()};
  if (const Result<control::Message> answer = bound.call(request, "bind"); !answer) return answer.error();
  return bound;
}

Result<void> Datagrams::send(ClusterId to, PortId destination, ByteView bytes) {
  control::Message request;
  request.kind = control::Kind::kSendDatagram;
  request.datagram.protocol = protocol_.value();
  request.datagram.cluster = to.value();
  request.datagram.source = port_.value();
  request.datagram.destination = destination.value();
  request.datagram.bytes = static_cast<std::uint32_t>(bytes.size());
  std::copy_n(bytes.begin(), std::min(bytes.size(), control::kMaxDatagramBytes), request.datagram.data);
  if (const Result<control::Message> answer = call(request, "send from"); !answer) return answer.error();
  return {};
}

Result<std::optional<ReceivedDatagram>> Datagrams::try_receive() {
  control::Message request;
  request.kind = control::Kind::kTakeDatagram;
  request.bind_datagrams = {protocol_.value(), port_.value()};
  const Result<control::Message> answer = call(request, "receive at");
  if (!answer) return answer.error();
  if (answer->kind != control::Kind::kDatagram) return std::optional<ReceivedDatagram>();
  const control::DatagramMessage& m = answer->datagram;
  ReceivedDatagram d;
  d.returned = static_cast<control::DatagramReturn>(m.returned);
  d.peer = ClusterId(m.cluster);
  d.source = PortId(m.source);
  d.destination = PortId(m.destination);
  d.bytes = std::min<std::size_t>(m.bytes, control::kMaxDatagramBytes);
  std::copy_n(m.data, d.bytes, d.data.begin());
  return std::optional<ReceivedDatagram>(d);
}

Result<ReceivedDatagram> Datagrams::receive(Duration timeout) {
  Service& service = client_->service();
  for (const Instant deadline = service.now() + timeout;;) {
    const Result<std::optional<ReceivedDatagram>> next = try_receive();
    if (!next) return next.error();
    if (*next) return **next;
    if (service.now() >= deadline)
      return error("datagram port {}: nothing arrived within {:.3f} s", port_.value(), timeout.s());
    service.wait_for_event(1_ms);
  }
}

}  // namespace braid::proxy
