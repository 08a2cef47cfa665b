// Delivers each control message once (CN-11): it numbers messages, knows which of a peer's were received, and
// which are sent again when the proxy that was to send them stalls.
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

  // The command to send a message, with a serial of its own. `by` is the proxy that will be told.
  SendControl number(ProxyId by, ClusterId to, convergence::ControlMessage message);
  // The messages that the stalled proxy was told to send, the oldest first, as far back as peers recognise
  // duplicates. They are forgotten here; hand_over() names the proxy that sends them instead.
  std::vector<SendControl> take(ProxyId from);
  void hand_over(ProxyId to, const SendControl& message);

  // False: it was received before.
  [[nodiscard]] bool receive(ClusterId from, std::uint32_t serial) {
    return received_[from.value()].receive(serial);
  }
  // The peer was lost. Its successor's serials start over, and no message for it is sent again.
  void peer_lost(ClusterId cluster);

 private:
  std::uint32_t next_serial_ = 1;
  std::vector<std::deque<SendControl>> given_;  // by proxy
  std::vector<RecentSerials> received_;         // by cluster
};

}  // namespace braid::proxy
