// One cluster's node in virtual time: the production node with its workers and control
// plane, and a client of it, connected with the clients of the other clusters: of all from the
// start, or of each when the first message is to be sent to it (transport.connect). It only
// builds and connects them; the ICCS (sim/iccs.h) gives the proxies their work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

  bool connects_at_first_use() const;

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
    std::string why;
  };
  // A connection that was made and is no longer open, or one that could not be made.
  std::optional<Lost> lost() const;

  proxy::Endpoint& endpoint() { return client_->endpoint(0); }
  // The connection that messages to the cluster take; nullptr: there is none yet, and it is requested now. Both
  // clusters may do so at once: then there are two, and each sends over the one that it had first.
  proxy::Connection* connection(ClusterId to);
  // After a turn of the control plane. True: there are connections that were not there before.
  bool take_new_connections();

 private:
  class Service;

  const VirtualNodesConfig config_;
  const unsigned cluster_;
  const Driver driver_;
  std::shared_ptr<proxy::Node> node_;
  Service* service_ = nullptr;  // the client's
  std::unique_ptr<proxy::Client> client_;
  std::vector<proxy::Connection*> connections_;  // by cluster
  std::vector<ClusterId> requested_;             // at first use, and not answered yet
  std::optional<Lost> refused_;
};

// Waits until all nodes reach each other, attaches their clients and, unless that is done at first use, connects each
// with all others. `clock` and `step` are as a Driver's. An error names the cluster: too many frames are lost.
Result<void> connect_all(std::span<const std::unique_ptr<VirtualNode>> nodes,
                         const std::function<Instant()>& clock, const std::function<void()>& step);

}  // namespace braid::sim
