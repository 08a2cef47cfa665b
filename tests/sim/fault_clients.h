// The clients of a fault world: production clients that attach, take a turn now and then, stop, die and come
// back. What they send and receive is their flows' (tests/sim/fault_flows.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/client/client.h"
#include "tests/sim/fault_datagrams.h"
#include "tests/sim/fault_flows.h"
#include "tests/sim/fault_nodes.h"
#include "tests/sim/fault_service.h"
#include "tests/sim/trouble.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

class FaultClients final : private FaultFlows::Clients {
 public:
  // All of them live longer.
  FaultClients(const WorldConfig& config, Prng& random, WorldEvents& events, WorldLog& log, FaultNodes& nodes,
               const TroublePlanner& trouble, FaultDriver& driver);

  // Draws the clients of all nodes, and their flows.
  void plan();
  std::size_t size() const { return clients_.size(); }
  const FaultFlows& flows() const { return flows_; }
  const FaultDatagrams& datagrams() const { return datagrams_; }
  bool all_over() const { return flows_.all_over() && datagrams_.all_over(); }
  // Text for the user: what is not.
  std::string unfinished() const { return flows_.unfinished() + datagrams_.unfinished(); }

  // An event of the kind kClient. False: it is superseded, and nothing happened.
  bool on_event(unsigned index);
  // The client dies: at once, or when its current call returns.
  void kill(unsigned index);
  void kill_those_of(unsigned node);
  // The client takes no messages until then.
  void stop(unsigned index, Instant until) { clients_[index].stopped_until = until; }
  // From now on all clients run at full speed.
  void end_stops();
  // All go, and do not come back.
  void end();
  // After that: what nodes counted differs from what clients did.
  void check_counters() { datagrams_.check_counters(); }

 private:
  struct ClientRun {
    unsigned node = 0;
    unsigned life = 0;  // of the node, when it attached
    std::unique_ptr<proxy::Client> client;
    bool busy = false;    // it takes its turn, and may wait in it
    bool doomed = false;  // to die when it stops waiting
    bool slow = false;
    Instant stopped_until;
    Instant wake = Instant::never();  // the event that counts
    unsigned turns = 0;
    unsigned quiet = 0;  // turns one after the other that found nothing to do
  };

  // --- FaultFlows::Clients
  unsigned node_of(unsigned client) const override { return clients_[client].node; }
  proxy::Endpoint& endpoint(unsigned client, unsigned endpoint) override {
    return clients_[client].client->endpoint(endpoint);
  }
  bool is_doomed(unsigned client) const override { return clients_[client].doomed; }
  bool has_its_node(unsigned client) const override {
    return clients_[client].life == nodes_.life(clients_[client].node);
  }
  proxy::SendStatus send_waiting(unsigned client, proxy::Connection& connection, ByteView message,
                                 Duration timeout, unsigned compute_node) override;
  bool anybody_waits() const override { return driver_.anybody_waits(); }

  unsigned endpoints() const { return static_cast<unsigned>(config_.endpoints); }
  void wake(unsigned index, Instant at);
  void take_turn(unsigned index);
  // True: there was something to do.
  bool work(unsigned index);
  void attach(unsigned index);
  void destroy(unsigned index);
  bool take_messages(unsigned index);
  bool needs(unsigned index) const { return flows_.needs(index) || datagrams_.needs(index); }

  const WorldConfig& config_;
  Prng& random_;
  WorldEvents& events_;
  WorldLog& log_;
  FaultNodes& nodes_;
  const TroublePlanner& trouble_;
  FaultDriver& driver_;
  std::vector<ClientRun> clients_;
  FaultFlows flows_;
  FaultDatagrams datagrams_;
};

}  // namespace braid::sim
