#include "proxy/client/endpoint.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/limits.h"
#include "proxy/client/client.h"

namespace braid::proxy {

Endpoint::Endpoint(Client& client, Service* service, std::byte* memory, const ChannelGeometry& g,
                   unsigned index)
    : client_(client),
      service_(service),
      memory_(memory),
      geometry_(g),
      index_(index),
      doorbell_(reinterpret_cast<Doorbell*>(memory + g.doorbell(index))),
      lanes_(memory, g, index) {}

Connection* Endpoint::open(const control::Opened& opened, convergence::Dispatch dispatch) {
  const ConnectionContext context{lanes_, *service_, counts_, memory_, geometry_};
  return connections_.add(std::make_unique<Connection>(context, opened, dispatch));
}

Result<void> Endpoint::prepare(convergence::Dispatch dispatch) {
  if (dispatch != convergence::Dispatch::kLeastLoaded || lanes_.has_counters()) return {};
  const Result<const NodeCounters*> counters = client_.counters();
  if (!counters) return error("dispatch least-loaded: {}", counters.error().text);
  lanes_.set_counters(**counters);
  return {};
}

Result<void> Endpoint::listen(PortId port, const ConnectionOptions& options) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  control::Message request;
  request.kind = control::Kind::kListen;
  request.listen = {port.value(), index_, options.window_bytes, options.ordered ? 1u : 0u,
                    options.protocol.value()};
  const Result<control::Message> reply = service_->call(request, 5_s);
  if (!reply) return error("listen on port {}: {}", port.value(), reply.error().text);
  listeners_.push_back({port, options});
  return {};
}

control::Connect Endpoint::connect_request(PortId port, const ConnectionOptions& options,
                                           Duration timeout) const {
  return {0,
          port.value(),
          index_,
          options.window_bytes,
          options.ordered ? 1u : 0u,
          static_cast<std::uint32_t>(timeout.ns() / 1'000'000),
          options.protocol.value()};
}

Result<Connection*> Endpoint::connect(const RemoteCluster& cluster, PortId port,
                                      const ConnectionOptions& options, Duration timeout) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  if (cluster.addresses.empty() || cluster.addresses.size() > kMaxNis)
    return error("connect to port {} of another machine: {} addresses: name 1 to {}", port.value(),
                 cluster.addresses.size(), kMaxNis);
  control::Message request;
  request.kind = control::Kind::kConnectMachine;
  request.connect_machine = {};
  request.connect_machine.connect = connect_request(port, options, timeout);
  request.connect_machine.udp_port = cluster.udp_port;
  std::string names;
  for (const std::string& text : cluster.addresses) {
    in_addr address{};
    if (::inet_pton(AF_INET, text.c_str(), &address) != 1)
      return error("connect to port {} of another machine: '{}' is no IPv4 address, e.g. 10.98.0.1",
                   port.value(), text);
    request.connect_machine.addresses[request.connect_machine.nis++] = ntohl(address.s_addr);
    names += (names.empty() ? "" : ", ") + text;
  }
  const Result<control::Message> reply = service_->call(request, timeout + 1_s);
  if (!reply) return error("connect to port {} of {}: {}", port.value(), names, reply.error().text);
  return open(reply.value().opened, options.dispatch);
}

Result<Connection*> Endpoint::connect(ClusterId cluster, PortId port, const ConnectionOptions& options,
                                      Duration timeout) {
  if (const Result<void> prepared = prepare(options.dispatch); !prepared) return prepared.error();
  control::Message request;
  request.kind = control::Kind::kConnect;
  request.connect = connect_request(port, options, timeout);
  request.connect.cluster = cluster.value();
  const Result<control::Message> reply = service_->call(request, timeout + 1_s);
  if (!reply)
    return error("connect to port {} of cluster {}: {}", port.value(), cluster.value(), reply.error().text);
  return open(reply.value().opened, options.dispatch);
}

Connection* Endpoint::try_accept() {
  service_->turn();
  take_accepted();
  if (accepted_.empty()) return nullptr;
  Connection* const connection = accepted_.front();
  accepted_.pop_front();
  return connection;
}

void Endpoint::take_accepted() {
  control::Message event;
  while (service_->next_event(index_, &event)) {
    const auto listener = std::find_if(listeners_.begin(), listeners_.end(), [&](const Listener& l) {
      return l.port.value() == event.opened.listener;
    });
    const ConnectionOptions options = listener == listeners_.end() ? ConnectionOptions{} : listener->options;
    accepted_.push_back(open(event.opened, options.dispatch));
  }
}

Result<Connection*> Endpoint::accept(Duration timeout) {
  const Instant deadline = service_->now() + timeout;
  for (;;) {
    if (Connection* const connection = try_accept()) return connection;
    if (!service_->alive()) return error("accept: {}", to_string(ConnectionState::kServiceLost));
    if (service_->now() >= deadline) return error("accept: no peer connected within {:.3f} s", timeout.s());
    service_->wait_for_event(5_ms);
  }
}

void Endpoint::close(Connection* connection) {
  flush();
  control::Message request;
  request.kind = control::Kind::kClose;
  request.close = {connection->port().value()};
  (void)service_->call(request, 5_s);  // if the service is gone there is nothing to close
  std::erase(accepted_, connection);
  handover_.closed(connections_.remove(connection));
}

// A peer that has connected may send before the control plane has announced it.
Endpoint::Taken Endpoint::take_early_arrival(ArrivalLane& lane, const ArrivalDescriptor& arrival,
                                             Connection** to) {
  const PortId port(arrival.destination_port);
  *to = nullptr;
  take_accepted();
  Connection* const connection = connections_.find(port);
  if (connection == nullptr && !connections_.was_removed(port)) return keep_or_drop(lane, arrival);
  lane.handled();
  if (connection != nullptr && connection->on_arrival(arrival) == convergence::Accepted::kNew)
    *to = connection;
  return Taken::kArrival;
}

Endpoint::Taken Endpoint::keep_or_drop(ArrivalLane& lane, const ArrivalDescriptor& arrival) {
  if (lane.keep(arrival, service_->now())) return Taken::kNothingYet;
  // Its connection ended before it was announced. What is behind it in the ring must not wait for ever.
  ++counts_.bad_arrivals;
  return Taken::kArrival;
}

void Endpoint::return_credit(Connection* connection) {
  if (connection == nullptr || connections_.find(connection->port()) != connection) return;
  if (!connection->return_credit()) credit_pending_ = true;
}

void Endpoint::return_pending_credit() {
  credit_pending_ = false;
  for (const auto& connection : connections_.all())
    if (!connection->return_credit()) credit_pending_ = true;
}

}  // namespace braid::proxy
