// The network of a cluster's runtime as one endpoint of its node's service: a parallel connection, unordered,
// to every other cluster. The cluster with the higher number connects; the other one listens.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "dsm/live/network.h"
#include "proxy/client/client.h"

namespace braid::dsm {

namespace {

// Where runtimes listen. One machine runs one program at a time, so one number is enough.
constexpr PortId kPort{1};

class ServiceNetwork final : public Network {
 public:
  static Result<std::unique_ptr<Network>> connect(const Environment& environment);

  MutableBytes reserve(ClusterId to, std::uint32_t bytes, unsigned lane) override {
    return links_[to.value()]->reserve(bytes, lane);
  }
  void commit(ClusterId to, std::uint32_t bytes) override { links_[to.value()]->commit(bytes); }
  void flush() override { endpoint_->flush(); }
  int poll(Sink& sink, int limit) override {
    return endpoint_->poll(
        [&sink](proxy::Connection& from, ByteView message) { sink.on_message(from.peer(), message); }, limit);
  }

  const char* trouble(ClusterId peer) override {
    const proxy::ConnectionState state = links_[peer.value()]->state();
    if (state != proxy::ConnectionState::kOpen) return proxy::to_string(state);
    return endpoint_->service().alive() ? nullptr : proxy::to_string(proxy::ConnectionState::kServiceLost);
  }

  NetworkCounts counts() const override {
    const proxy::EndpointCounts& c = endpoint_->counts();
    return {c.messages_sent, c.messages_received, c.duplicates, c.bad_arrivals, c.no_credit, c.channel_full};
  }

  bool has_arrivals() const override { return endpoint_->has_arrivals(); }
  void arm() override { endpoint_->doorbell().arm(); }
  void disarm() override { endpoint_->doorbell().disarm(); }
  void wait(Duration timeout) override { endpoint_->doorbell().wait(timeout); }
  void wake() override { endpoint_->doorbell().wake(); }

 private:
  explicit ServiceNetwork(const Environment& environment) : links_(environment.clusters) {}
  Result<void> join(const Environment& environment);
  Result<void> accept_all(const Environment& environment, Instant deadline);

  std::unique_ptr<proxy::Client> client_;
  proxy::Endpoint* endpoint_ = nullptr;
  std::vector<proxy::Connection*> links_;  // by cluster
};

Result<std::unique_ptr<Network>> ServiceNetwork::connect(const Environment& environment) {
  std::unique_ptr<ServiceNetwork> network(new ServiceNetwork(environment));
  const Result<void> joined = network->join(environment);
  if (!joined) return error("cluster {}: {}", environment.cluster, joined.error().text);
  return std::unique_ptr<Network>(std::move(network));
}

Result<void> ServiceNetwork::join(const Environment& environment) {
  const Instant deadline = monotonic_now() + environment.connect_timeout;
  proxy::ConnectionOptions options;
  options.ordered = false;  // the page protocol bears any order, so no page waits behind another
  options.window_bytes = environment.window_kib * 1024;
  options.dispatch = environment.dispatch;

  proxy::ClientOptions client_options;
  client_options.receive_bytes = options.window_bytes * (environment.clusters - 1u);
  Result<std::unique_ptr<proxy::Client>> client = proxy::Client::attach(environment.service, client_options);
  if (!client) return client.error();
  client_ = std::move(client).value();
  endpoint_ = &client_->endpoint(0);
  if (client_->cluster() != ClusterId(environment.cluster) || client_->clusters() != environment.clusters) {
    return error("the braidd at {} ({}) serves cluster {} of {}, but {} and {} say {} of {}",
                 environment.service, variable::kService, client_->cluster().value(), client_->clusters(),
                 variable::kCluster, variable::kClusters, environment.cluster, environment.clusters);
  }

  const Result<void> listening = endpoint_->listen(kPort, options);
  if (!listening) return listening;
  for (std::uint16_t k = 0; k < environment.cluster; ++k) {
    const Result<proxy::Connection*> connection =
        endpoint_->connect(ClusterId(k), kPort, options, deadline - monotonic_now());
    if (!connection) {
      return error("no connection to cluster {} within {} ms ({}): {}", k,
                   environment.connect_timeout.ns() / 1'000'000, variable::kConnectTimeoutMs,
                   connection.error().text);
    }
    links_[k] = connection.value();
  }
  return accept_all(environment, deadline);
}

Result<void> ServiceNetwork::accept_all(const Environment& environment, Instant deadline) {
  for (unsigned missing = environment.clusters - 1u - environment.cluster; missing > 0;) {
    const Result<proxy::Connection*> connection =
        endpoint_->accept(std::max(Duration(), deadline - monotonic_now()));
    if (!connection) {
      return error("{} cluster(s) with a higher number did not connect within {} ms ({}): {}", missing,
                   environment.connect_timeout.ns() / 1'000'000, variable::kConnectTimeoutMs,
                   connection.error().text);
    }
    const std::uint16_t peer = connection.value()->peer().value();
    // Another program's connection, or a second one: not part of this run.
    if (peer <= environment.cluster || peer >= environment.clusters || links_[peer] != nullptr) {
      endpoint_->close(connection.value());
      continue;
    }
    links_[peer] = connection.value();
    --missing;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Network>> connect_through_service(const Environment& environment) {
  return ServiceNetwork::connect(environment);
}

}  // namespace braid::dsm
