// The network of a cluster's runtime as one endpoint of its node's service: a parallel connection, unordered,
// to every other cluster. The cluster with the higher number connects; the other one listens.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "dsm/live/environment.h"
#include "dsm/live/network.h"
#include "proxy/client/client.h"

namespace braid::dsm {

class ServiceNetwork final : public Network {
 public:
  // The options with which its client must be attached.
  static proxy::ClientOptions client_options(const Environment& environment);
  // Listens, and connects to the clusters with lower numbers; waits for those to listen, until `deadline` by
  // the clock of the client's service.
  static Result<std::unique_ptr<ServiceNetwork>> begin(std::unique_ptr<proxy::Client> client,
                                                       const Environment& environment, Instant deadline);
  // Accepts the connections of the others, and waits for them at most this
  // long. True if all are there; before that the network must not be used.
  Result<bool> complete(Duration timeout);

  MutableBytes reserve(ClusterId to, std::uint32_t bytes, unsigned compute_node) override;
  void commit(ClusterId to, std::uint32_t bytes) override;
  void flush() override;
  int poll(Sink& sink, int limit) override;
  const char* trouble(ClusterId peer) override;
  int descriptor() const override { return client_->service().descriptor(); }
  NetworkCounts counts() const override;
  std::vector<CounterValues> proxy_counters() override;
  bool moves_only_in_poll() const override;
  bool has_arrivals() const override;
  void arm() override;
  void disarm() override;
  void wait(Duration timeout) override;
  void wake() override;

 private:
  ServiceNetwork(std::unique_ptr<proxy::Client> client, const Environment& environment);
  unsigned missing() const;

  std::unique_ptr<proxy::Client> client_;
  proxy::Endpoint* const endpoint_;
  const unsigned self_;
  std::vector<proxy::Connection*> links_;  // by cluster
};

}  // namespace braid::dsm
