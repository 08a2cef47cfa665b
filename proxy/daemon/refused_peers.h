// Peers whose hellos are refused because of the secret that they have, or have not, for the log: each with each reason once, however
// often it sends them (docs/PROTOCOL.md, SE-2).
//
// Pure. Owned by the node's control plane.
#pragma once

#include <fmt/core.h>

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/take_first.h"
#include "proxy/daemon/node_config.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class RefusedPeers {
 public:
  void add(const PeerRefused& peer) {
    if (told_.emplace(peer.cluster, peer.why).second) pending_.push_back(peer);
  }
  // The next one that was not told yet.
  std::optional<PeerRefused> poll() { return take_first(pending_); }

  // Anybody can send from an address, so it names that, and not who did.
  static std::string text(const NodeConfig& config, const PeerRefused& peer) {
    const char* why = "";
    switch (peer.why) {
      case stack::Refusal::kNone:
      case stack::Refusal::kOtherSettings:
        break;
      case stack::Refusal::kNoSecret:
        why = "it is not sealed, and this node is; give both the same security.mode";
        break;
      case stack::Refusal::kOtherSecret:
        why =
            "it has another secret, or what it sends is changed on the way; give every node the same "
            "security.secret_file";
        break;
      case stack::Refusal::kUnexpectedSecret:
        why = "it is sealed, and this node is not; give both the same security.mode";
        break;
    }
    return fmt::format("{} is refused: {} (docs/SECURITY.md)", name(config, peer.cluster), why);
  }

 private:
  static std::string name(const NodeConfig& config, ClusterId cluster) {
    for (const PeerConfig& peer : config.peers)
      if (peer.cluster == cluster.value())
        return fmt::format("cluster {} ({})", cluster.value(), peer.address);
    return "a cluster of another machine";
  }

  std::set<std::pair<ClusterId, stack::Refusal>> told_;
  std::deque<PeerRefused> pending_;
};

}  // namespace braid::proxy
