// The proxies of a node as its control plane reaches them: each with its rings to the others, and with the
// commands that its ring had no room for yet.
//
// Owned by the control plane; a proxy's own thread uses its Worker alone.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/handoff.h"
#include "proxy/daemon/links.h"
#include "proxy/daemon/proxy_state.h"
#include "proxy/daemon/relay.h"
#include "proxy/daemon/worker.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class Workers {
 public:
  // Makes the worker of each stack, with its queues of the links, and joins them by rings. `counters` and
  // `states` outlive this.
  static Result<std::unique_ptr<Workers>> create(const std::vector<stack::StackConfig>& stacks, Links& links,
                                                 NodeCounters& counters, ProxyStates& states, Instant now,
                                                 std::uint32_t max_ports, const Protocols& protocols);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  unsigned count() const { return static_cast<unsigned>(workers_.size()); }
  Worker& operator[](unsigned proxy) { return *workers_[proxy]; }

  // Commands are obeyed in the order in which they are given.
  void tell(unsigned proxy, const WorkerCommand& command);
  // Gives what was put off to rings that have room again.
  void flush();
  // Every command that the proxy was given has taken effect.
  bool caught_up(unsigned proxy) const;
  // Drops the commands that were put off for it.
  void forget_commands(unsigned proxy) { put_off_[proxy].clear(); }

  // All sub-connections of all of them are up.
  bool ready() const;
  // A peer was refused because its configuration differs.
  bool refused_peer() const;
  // Packets of that version of the transport are refused; 0: of none.
  std::uint8_t other_version() const;

 private:
  Workers() = default;
  void connect(std::uint32_t frame_bytes);

  std::vector<std::unique_ptr<Handoff>> handoffs_;
  std::vector<std::unique_ptr<Relay>> relays_;
  std::vector<std::unique_ptr<Worker>> workers_;    // before the rings that they use
  std::vector<std::deque<WorkerCommand>> put_off_;  // by proxy
};

}  // namespace braid::proxy
