// The loop of a proxy's thread in braidd: turns of its worker, and between them the waits of an idle proxy.
#pragma once

#include <atomic>

#include "base/time.h"
#include "proxy/daemon/idle.h"
#include "proxy/daemon/node.h"
#include "proxy/daemon/proxy_sleep.h"

namespace braid::proxy {

// Owned by the proxy's thread.
class ProxyLoop {
 public:
  // `can_sleep`: ProxySleep::supported(), and the settings want it. `control_plane_fd`: an eventfd that the control plane waits on. The node and
  // the descriptor outlive this.
  ProxyLoop(Node& node, unsigned proxy, bool can_sleep, int control_plane_fd);

  // Until `stop`. Whoever sets that calls Worker::wake() afterwards.
  void run(const std::atomic<bool>& stop);

 private:
  int turn();
  void worked();
  void wake_control_plane();
  void wait();
  void sleep();
  void nap(Duration longest);

  Node& node_;
  Worker& worker_;
  ProxyCounters& counters_;
  const int control_plane_fd_;
  Idle idle_;
  ProxySleep sleep_;
  const Duration longest_sleep_;
  bool woken_ = false;     // and no work was found since
  bool prepared_ = false;  // about_to_sleep() since there was work
  const std::atomic<bool>* stop_ = nullptr;
  Instant now_;  // of the last turn
};

}  // namespace braid::proxy
