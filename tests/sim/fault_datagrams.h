// The datagrams of a fault world (PS-1 to PS-6): clients send them to each other, to ports that nobody has bound, and
// to proxies that serve a protocol of their own, which some nodes do not have. What arrives, comes back or is counted
// is compared with what was sent (tests/sim/datagram_ledger.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/time.h"
#include "proxy/client/client.h"
#include "proxy/client/datagrams.h"
#include "proxy/daemon/protocols.h"
#include "tests/sim/datagram_ledger.h"
#include "tests/sim/fault_nodes.h"
#include "tests/sim/trouble.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

class FaultDatagrams {
 public:
  // Registered at the first `serving_nodes` nodes: proxies serve ports below kFirstClientPort.
  static constexpr stack::ProtocolId kServed{70};

  // A client that may send, by number.
  struct Sender {
    unsigned client = 0;
    unsigned node = 0;
    // It ends as soon as its current call returns, or its node is gone.
    std::function<bool()> is_doomed;
    std::function<bool()> has_its_node;
  };

  // All of them live longer.
  FaultDatagrams(const WorldConfig& config, const WorldEvents& events, WorldLog& log, const FaultNodes& nodes,
                 const TroublePlanner& trouble);
  FaultDatagrams(const FaultDatagrams&) = delete;  // protocols of nodes point to it
  FaultDatagrams& operator=(const FaultDatagrams&) = delete;

  // `nodes`: of the clients, by number.
  void plan(const std::vector<unsigned>& nodes);
  // The node's protocols: Braid's and those of these worlds.
  proxy::Protocols protocols_of(unsigned node);

  // The client has something left to send.
  bool needs(unsigned client) const { return programs_[client].sent < planned(); }
  // A turn of an attached client. `worked` is set when something was done.
  void take_turn(const Sender& sender, proxy::Client& client, bool* worked);
  void on_client_gone(unsigned client);
  // All clients end, and nothing is expected to arrive any more.
  void end() { ended_ = true; }

  // Everything was sent, and all that must be is accounted for.
  bool all_over() const;
  // Text for the user: what is not.
  std::string unfinished() const;
  // At the end: fails the world where counters differ from what was sent, and nothing excuses it.
  void check_counters();

  std::uint64_t delivered() const { return delivered_; }
  std::uint64_t returned() const { return returned_; }

 private:
  class Service;
  enum Port : std::uint32_t { kAnswered = 1, kTaken, kRefused, kFirstClientPort = 10, kUnbound = 9999 };

  struct Program {
    unsigned node = 0;
    unsigned life = 0;  // of the node, when it bound its ports
    std::uint32_t sent = 0;
    unsigned ends = 0;  // how often the client has ended
    Instant ended;      // when it did last
    Instant bound = Instant::never();
    bool listens() const { return bound != Instant::never(); }
  };
  static PortId port_of(unsigned client) { return PortId(kFirstClientPort + client); }

  Instant now() const { return events_.now(); }
  std::uint32_t planned() const { return static_cast<std::uint32_t>(config_.datagrams); }
  bool serves(unsigned node) const { return node < static_cast<unsigned>(config_.serving_nodes); }
  std::vector<stack::ProtocolId> protocols_of_clients(unsigned node) const;
  // False: not bound, or the client is to end.
  bool bind(const Sender& sender, proxy::Client& client);
  bool send_one(const Sender& sender, proxy::Client& client);
  bool take(const Sender& sender, proxy::Client& client);
  DatagramLedger::Entry draw(const Sender& sender);
  void on_call_failed(const Sender& sender, const std::string& why);
  bool arrived(unsigned node, const proxy::Datagram& datagram);
  proxy::DatagramProtocol::Verdict serve(unsigned node, const proxy::Datagram& request,
                                         proxy::Datagram& answer);
  // Empty: it may come back for that reason.
  std::string check_reason(const DatagramLedger::Entry& entry, proxy::DatagramReturn reason);
  bool client_ended_since(PortId port, Instant when) const;
  // Paths may have been given up, so what they had is sent again over others.
  bool failed_over(const FaultNodes::Faults& faults) const;
  bool may_be_lost(const DatagramLedger::Entry& entry, const FaultNodes::Faults& faults) const;
  void check_counters(unsigned node, stack::ProtocolId protocol);

  const WorldConfig& config_;
  Prng random_;
  const WorldEvents& events_;
  WorldLog& log_;
  const FaultNodes& nodes_;
  const TroublePlanner& trouble_;
  DatagramLedger ledger_;
  std::vector<Program> programs_;  // by client
  bool ended_ = false;
  bool call_failed_ = false;  // so what it was about may have happened or not
  bool no_room_ = false;
  bool maybe_delivered_ = false;
  std::uint64_t delivered_ = 0;
  std::uint64_t returned_ = 0;
};

}  // namespace braid::sim
