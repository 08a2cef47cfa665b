// One cluster's node in virtual time: the production node with its workers and control
// plane, and a client of it, connected with the clients of all other clusters. It only
// builds and connects them; the ICCS (sim/iccs.h) gives the proxies their work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "convergence/dispatch.h"
#include "proxy/client/client.h"
#include "proxy/daemon/node.h"

namespace braid::sim {

struct VirtualNodesConfig {
  std::uint16_t clusters = 2;
  std::uint16_t proxies = 1;
  std::uint16_t nis = 1;
  proxy::TransportConfig transport;
  std::uint32_t window_bytes = 256u << 10;  // of each connection
  convergence::Dispatch dispatch = convergence::Dispatch::kRoundRobin;
  std::uint64_t seed = 1;
};

// A set-up that takes longer, in virtual time, has failed.
inline constexpr Duration kSetUpLimit = 60_s;

class VirtualNode {
 public:
  // Used by the client while it waits for the node's answer: `clock` returns the time,
  // `step` handles the next event, and `asked` is called when the control plane has a request.
  struct Driver {
    std::function<Instant()> clock;
    std::function<void()> step;
    std::function<void()> asked;
  };

  VirtualNode(const VirtualNodesConfig& config, unsigned cluster, Instant now, Driver driver,
              const proxy::Node::MakeQueue& make_queue);
  ~VirtualNode();

  proxy::Node& node() { return *node_; }
  proxy::Worker& worker(unsigned proxy) { return node_->worker(proxy); }

  // The set-up's steps, each done at all nodes before the next: the client attaches and listens; it requests
  // its connections; when all answers are there it takes them; it accepts the other clients' connections.
  void attach();
  void ask_for_connections();
  bool has_answers() const;
  // Error: too many frames are lost, or it took longer than kSetUpLimit.
  Result<void> take_connections();
  Result<void> accept_connections();

  struct Lost {
    ClusterId peer;
    const char* why;
  };
  // A connection that was made and is no longer open.
  std::optional<Lost> lost() const;

  proxy::Endpoint& endpoint() { return client_->endpoint(0); }
  proxy::Connection& connection(ClusterId to) { return *connections_[to.value()]; }

 private:
  class Service;

  const VirtualNodesConfig config_;
  const unsigned cluster_;
  const Driver driver_;
  std::shared_ptr<proxy::Node> node_;
  Service* service_ = nullptr;  // the client's
  std::unique_ptr<proxy::Client> client_;
  std::vector<proxy::Connection*> connections_;  // by cluster
};

// Waits until all nodes reach each other, attaches their clients and connects each with all others. `clock` and
// `step` are as a Driver's. An error names the cluster: too many frames are lost.
Result<void> connect_all(std::span<const std::unique_ptr<VirtualNode>> nodes,
                         const std::function<Instant()>& clock, const std::function<void()>& step);

}  // namespace braid::sim
