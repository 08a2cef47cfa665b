// Serves the requests of a node's clients, and frees what clients that are gone have held.
//
// It carries requests to the parts that decide about them (Clients, Lanes, convergence::Ports), answers them, and
// returns the two kinds that concern the whole node. After each call, commands of Lanes are to be carried out.
//
// Pure. Owned by the control plane.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "convergence/ports.h"
#include "proxy/channel/control.h"
#include "proxy/daemon/clients.h"
#include "proxy/daemon/datagram_ports.h"
#include "proxy/daemon/lanes.h"
#include "proxy/daemon/machines.h"
#include "proxy/daemon/protocols.h"
#include "proxy/daemon/proxy_monitor.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

class ClientService {
 public:
  struct Config {
    std::uint16_t cluster = 0;
    std::uint16_t clusters = 1;  // of this machine
    unsigned proxies = 1;
    int counters_fd =
        -1;  // to read the node's counters, -1: they are not given to clients; owned by the node
  };
  // Ports on which one client listens; a request for one more is refused.
  static constexpr std::size_t kMaxListeners = 1024;

  // The node's part of a request.
  struct Nothing {};
  struct SetActiveProxies {
    unsigned count = 0;
  };
  // The client waits for an answer, which is whether a proxy has it.
  struct SendDatagram {
    std::uint32_t serial = 0;
    Datagram datagram;
  };
  using Action = std::variant<Nothing, SetActiveProxies, Machines::Request, SendDatagram>;

  // All of them outlive this.
  ClientService(const Config& config, Clients& clients, Lanes& lanes, convergence::Ports& ports,
                DatagramPorts& datagrams, const Protocols& protocols)
      : config_(config),
        clients_(clients),
        lanes_(lanes),
        ports_(ports),
        datagrams_(datagrams),
        protocols_(protocols) {}

  // The answer is in `clients`, now or later.
  [[nodiscard]] Action on_request(Instant now, ClientId client, const control::Message& request);

  // The client closed its socket, or died. False: that is known, or there is no such client.
  bool client_gone(ClientId client);
  // Frees the memory of clients that are gone, when no proxy uses it any more. All events of ports have been
  // carried out: a proxy has forgotten the last port of a client before it forgets the client, because until
  // then it may write to the client's memory. Returns what proxies are told after the commands of Lanes.
  [[nodiscard]] std::vector<AddressedCommand> free_gone(const ProxyMonitor& monitor);

 private:
  void attach(ClientId id, Clients::Client& client, const control::Message& request);
  void send_counters(ClientId id, const control::Message& request);
  Action set_proxies(ClientId id, const control::Message& request);
  void listen(ClientId id, const control::Message& request);
  void connect(Instant now, ClientId id, const control::Message& request);
  void close(ClientId id, const control::Message& request);
  void bind_datagrams(ClientId id, const control::Message& request);
  void take_datagram(ClientId id, const control::Message& request);
  Action send_datagram(ClientId id, const control::Message& request);
  // The protocol is not registered, or does not carry such records: the request is refused.
  bool refuses_protocol(ClientId id, const control::Message& request, std::uint32_t protocol,
                        Protocol::Carries carries);

  Config config_;
  Clients& clients_;
  Lanes& lanes_;
  convergence::Ports& ports_;
  DatagramPorts& datagrams_;
  const Protocols& protocols_;
  std::map<ClientId, std::set<std::uint32_t>> listeners_;  // their ports
};

}  // namespace braid::proxy
