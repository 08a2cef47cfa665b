// Connects Machines, which decides about clusters of other machines, to what it needs: the introductions' datagrams,
// paths (Peers), connections (convergence::Ports), and the clients that request connections.
//
// In each turn of the control plane: observe(), then on_datagram() for each datagram that has arrived, then run();
// after that, the decisions of peers are to be carried out, and the datagrams of poll_datagram() to be sent.
//
// Pure. Owned by the control plane.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "convergence/ports.h"
#include "proxy/daemon/clients.h"
#include "proxy/daemon/machines.h"
#include "proxy/daemon/node_config.h"
#include "proxy/daemon/peers.h"
#include "proxy/daemon/plain_datagrams.h"

namespace braid::proxy {

class MachinesDriver {
 public:
  // `links`: of the node. `config`, `peers`, `ports` and `clients` outlive this.
  MachinesDriver(const NodeConfig& config, std::vector<stack::Interface> links, std::uint64_t seed,
                 Peers& peers, convergence::Ports& ports, Clients& clients);

  // A client requests a connection with a cluster of another machine. It is answered within the deadline.
  void connect(Instant now, Machines::Request request) { machines_.connect(now, std::move(request)); }
  void client_gone(ClientId client) { machines_.client_gone(client); }

  // Looks at the paths and connections of the slots. All earlier decisions have been carried out.
  void observe(Instant now);
  // A datagram has arrived, or a host on the way has reported that one did not. Those of other ports are dropped.
  void on_datagram(Instant now, const PlainDatagram& datagram);
  // Carries out decisions; returns their number.
  int run(Instant now);
  std::optional<PlainDatagram> poll_datagram();

  // The cluster is one of another machine.
  bool is_slot(ClusterId cluster) const { return machines_.is_slot(cluster); }
  // The peer that has the slot was lost, or has left.
  void lost(ClusterId slot) { machines_.lost(slot); }
  // The next event, as a line for the log.
  std::optional<std::string> poll_event();

 private:
  void carry_out(Instant now, const Machines::Event& event);
  void connect_paths(ClusterId slot, const Introduction& peer);
  void drain(ClusterId slot);
  bool free(ClusterId slot);

  const NodeConfig& config_;
  std::vector<stack::Interface> links_;
  Machines machines_;
  Peers& peers_;
  convergence::Ports& ports_;
  Clients& clients_;
  std::deque<std::string> events_;
};

}  // namespace braid::proxy
