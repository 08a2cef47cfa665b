#include "dsm/live/service_network.h"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

namespace braid::dsm {

namespace {

// Where runtimes listen. One machine runs one program at a time, so one number is enough.
constexpr PortId kPort{1};

// The page protocol allows any order, so no page waits for another.
proxy::ConnectionOptions connection_options(const Environment& environment) {
  proxy::ConnectionOptions options;
  options.ordered = false;
  options.protocol = stack::kSharedMemory;
  options.window_bytes = environment.window_kib * 1024;
  options.dispatch = environment.dispatch;
  return options;
}

}  // namespace

proxy::ClientOptions ServiceNetwork::client_options(const Environment& environment) {
  proxy::ClientOptions options;
  options.receive_bytes = connection_options(environment).window_bytes * (environment.clusters - 1u);
  return options;
}

ServiceNetwork::ServiceNetwork(std::unique_ptr<proxy::Client> client, const Environment& environment)
    : client_(std::move(client)),
      endpoint_(&client_->endpoint(0)),
      self_(environment.cluster),
      links_(environment.clusters) {}

Result<std::unique_ptr<ServiceNetwork>> ServiceNetwork::begin(std::unique_ptr<proxy::Client> client,
                                                              const Environment& environment,
                                                              Instant deadline) {
  if (client->cluster() != ClusterId(environment.cluster) || client->clusters() != environment.clusters) {
    return error("the braidd at {} ({}) serves cluster {} of {}, but {} and {} say {} of {}",
                 environment.service, variable::kService, client->cluster().value(), client->clusters(),
                 variable::kCluster, variable::kClusters, environment.cluster, environment.clusters);
  }
  std::unique_ptr<ServiceNetwork> network(new ServiceNetwork(std::move(client), environment));
  const proxy::ConnectionOptions options = connection_options(environment);
  if (const Result<void> listening = network->endpoint_->listen(kPort, options); !listening)
    return listening.error();
  proxy::Service& service = network->endpoint_->service();
  for (std::uint16_t k = 0; k < environment.cluster; ++k) {
    const Result<proxy::Connection*> connection =
        network->endpoint_->connect(ClusterId(k), kPort, options, deadline - service.now());
    if (!connection) {
      return error("no connection to cluster {} within {} ms ({}): {}", k,
                   environment.connect_timeout.ns() / 1'000'000, variable::kConnectTimeoutMs,
                   connection.error().text);
    }
    network->links_[k] = connection.value();
  }
  return network;
}

unsigned ServiceNetwork::missing() const {
  return static_cast<unsigned>(std::count(links_.begin() + self_ + 1, links_.end(), nullptr));
}

Result<bool> ServiceNetwork::complete(Duration timeout) {
  const Instant deadline = endpoint_->service().now() + timeout;
  while (missing() > 0) {
    const Result<proxy::Connection*> accepted =
        endpoint_->accept(std::max(Duration(), deadline - endpoint_->service().now()));
    if (!accepted) return endpoint_->service().alive() ? Result<bool>(false) : accepted.error();
    proxy::Connection* const connection = accepted.value();
    const std::uint16_t peer = connection->peer().value();
    // Another program's connection, or a second one: not part of this run.
    if (peer <= self_ || peer >= links_.size() || links_[peer] != nullptr) {
      endpoint_->close(connection);
      continue;
    }
    links_[peer] = connection;
  }
  return true;
}

MutableBytes ServiceNetwork::reserve(ClusterId to, std::uint32_t bytes, unsigned compute_node) {
  proxy::Connection& link = *links_[to.value()];
  return link.reserve(std::min(bytes, link.max_message_bytes()), compute_node);
}

void ServiceNetwork::commit(ClusterId to, std::uint32_t bytes) {
  links_[to.value()]->commit(bytes);
}

void ServiceNetwork::flush() {
  endpoint_->flush();
  if (moves_only_in_poll()) endpoint_->service().turn();
}

int ServiceNetwork::poll(Sink& sink, int limit) {
  return endpoint_->poll(
      [&sink](proxy::Connection& from, ByteView message) { sink.on_message(from.peer(), message); }, limit);
}

const char* ServiceNetwork::trouble(ClusterId peer) {
  const proxy::ConnectionState state = links_[peer.value()]->state();
  if (state != proxy::ConnectionState::kOpen) return proxy::to_string(state);
  if (links_[peer.value()]->corrupted()) return "a message from it was damaged in flight, and is lost";
  return endpoint_->service().alive() ? nullptr : proxy::to_string(proxy::ConnectionState::kServiceLost);
}

NetworkCounts ServiceNetwork::counts() const {
  const proxy::EndpointCounts& c = endpoint_->counts();
  return {c.messages_sent, c.messages_received, c.duplicates, c.bad_arrivals, c.no_credit, c.channel_full};
}

std::vector<CounterValues> ServiceNetwork::proxy_counters() {
  std::vector<CounterValues> all;
  const Result<const proxy::NodeCounters*> node = client_->counters();
  if (!node) return all;
  for (unsigned p = 0; p < (*node)->proxies; ++p) all.push_back(proxy::values_of(**node, p));
  return all;
}

bool ServiceNetwork::moves_only_in_poll() const {
  return endpoint_->service().works_only_in_turn();
}

bool ServiceNetwork::has_arrivals() const {
  return endpoint_->has_arrivals();
}

void ServiceNetwork::arm() {
  endpoint_->doorbell().arm();
}

void ServiceNetwork::disarm() {
  endpoint_->doorbell().disarm();
}

void ServiceNetwork::wait(Duration timeout) {
  endpoint_->doorbell().wait(timeout);
}

void ServiceNetwork::wake() {
  endpoint_->doorbell().wake();
}

Result<std::unique_ptr<Network>> connect_through_service(const Environment& environment) {
  const auto failed = [&](const std::string& why) {
    return error("cluster {}: {}", environment.cluster, why);
  };
  Result<std::unique_ptr<proxy::Client>> client =
      proxy::Client::attach(environment.service, ServiceNetwork::client_options(environment));
  if (!client) return failed(client.error().text);
  proxy::Service& service = client.value()->service();
  const Instant deadline = service.now() + environment.connect_timeout;
  Result<std::unique_ptr<ServiceNetwork>> network =
      ServiceNetwork::begin(std::move(client).value(), environment, deadline);
  if (!network) return failed(network.error().text);
  const Result<bool> complete = network.value()->complete(deadline - service.now());
  if (!complete) return failed(complete.error().text);
  if (!complete.value()) {
    return failed(fmt::format("not all clusters with a higher number connected within {} ms ({})",
                              environment.connect_timeout.ns() / 1'000'000, variable::kConnectTimeoutMs));
  }
  return std::unique_ptr<Network>(std::move(network).value());
}

}  // namespace braid::dsm
