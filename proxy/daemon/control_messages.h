// What makes control messages arrive once (CN-11): the serial of each, which of a peer's were received, and
// which are sent again when the proxy that had them stalls.
//
// Pure. Owned by the control plane. Not on the message path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "convergence/ports.h"
#include "proxy/daemon/recent_serials.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class ControlMessages {
 public:
  // Messages of a proxy that can be sent again: more than it can have in flight, and so few that the peers
  // remember them all.
  static constexpr std::size_t kRepeatable = 1024;
  static_assert(2 * kRepeatable <= RecentSerials::kRemembered);

  ControlMessages(unsigned proxies, std::size_t clusters);

  // The command to send a message, with a serial of its own. `by` is the proxy that will get it.
  SendControl number(ProxyId by, ClusterId to, convergence::ControlMessage message);
  // What the stalled proxy was given, the oldest first, as far as peers know what they have
  // received of it. It is forgotten: whoever sends it is named to hand_over().
  std::vector<SendControl> take(ProxyId from);
  void hand_over(ProxyId to, const SendControl& message);

  // False: it was received before.
  [[nodiscard]] bool receive(ClusterId from, std::uint32_t serial) {
    return received_[from.value()].hear(serial);
  }
  // Its successor numbers anew, and nothing that was for it is sent again.
  void peer_lost(ClusterId cluster);

 private:
  std::uint32_t next_serial_ = 1;
  std::vector<std::deque<SendControl>> given_;  // by proxy
  std::vector<RecentSerials> received_;         // by cluster
};

}  // namespace braid::proxy
