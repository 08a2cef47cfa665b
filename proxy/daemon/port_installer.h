// Installs the ends of connections: each port exists in every proxy that can reach its client's memory, and in
// the client's memory itself.
//
// It owns what proxies know of ports (InstalledPorts) and the drains in progress (PortDrains). Commands for
// proxies come out of poll_command(), to be given to them in that order before anything else is.
//
// Pure, but for the cells in clients' memory. Owned by the control plane.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "convergence/ports.h"
#include "proxy/channel/channel.h"
#include "proxy/daemon/clients.h"
#include "proxy/daemon/installed_ports.h"
#include "proxy/daemon/lanes.h"
#include "proxy/daemon/peers.h"
#include "proxy/daemon/port_drains.h"
#include "proxy/daemon/proxy_monitor.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class PortInstaller {
 public:
  using End = convergence::Ports::End;

  // All of them outlive this.
  PortInstaller(Clients& clients, const Lanes& lanes, const ProxyMonitor& monitor, const Peers& peers)
      : clients_(clients), lanes_(lanes), monitor_(monitor), peers_(peers), installed_(monitor.proxies()) {}

  // --- connections

  // The end exists from now on; nothing happens if its client is gone, because its removal follows.
  void install(const End& end);
  // The client reads the state in its memory.
  void mark(const End& end, PortState state);
  void remove(PortId port);

  // --- drains: everything that was handed over for the port is sent before it is removed

  void drain(PortId port);
  // PortDrained. True: that proxy was the last.
  [[nodiscard]] bool drained(PortId port, unsigned proxy) { return drains_.answered(port, proxy); }
  // A lane of the client has moved to that server, with what its former server left in it.
  void lane_moved(ClientId client, unsigned server);

  // --- proxies

  // Running proxies have carried out every command: they use nothing of removed ports.
  void release_removed();
  // The stalled proxy is settled: what was left in its lanes is sent by those that run.
  void drain_instead_of(unsigned proxy);
  // It runs again, and the clients' memory has views for it: it knows every port anew.
  void take_back(unsigned proxy);

  std::optional<AddressedCommand> poll_command();

 private:
  void install_at(unsigned proxy, const End& end);
  void drain_by(PortId port, unsigned proxy);
  void tell(unsigned proxy, const WorkerCommand& command) { commands_.push_back({proxy, command}); }

  Clients& clients_;
  const Lanes& lanes_;
  const ProxyMonitor& monitor_;
  const Peers& peers_;
  InstalledPorts installed_;
  PortDrains drains_;
  std::deque<AddressedCommand> commands_;
};

}  // namespace braid::proxy
