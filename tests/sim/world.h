// A whole cluster of SMPs in one thread and in virtual time: production nodes with their workers and control
// planes, production clients on top, a bad network between them, and programs whose every message is
// accounted for.
//
// Nothing here knows the protocol. The world hands time, frames and descriptors to the same objects that
// braidd runs, in an order that the seed decides, and compares what programs get with what was sent:
//
//   exactly once      what is delivered was sent, and once; while both ends live all of it arrives
//   in order          where a connection asks for it; else any order
//   integrity         every byte
//   credits           no sender has more in flight than the receiver's window holds
//   liveness          once faults stop, everything accepted arrives and every connection ends, in bounded
//                     time
//   datagrams         each is delivered at most once, to its protocol and port, or comes back for a reason that
//                     is true; it is lost without notice only where PS-5 allows it
//   clear ends        a connection ends as closed only if its peer closed or died, as lost only if its peer
//                     was
//   bounded memory    frames in flight, and the heap of the process
//   clear deaths      a node that is silent is given up within peer_death_ms, time in which its peer was not
//                     scheduled aside
//   no leak           when its clients are gone a node holds nothing of them
//
// One seed is one world: the same seed gives the same trace, event for event.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/prng.h"
#include "base/time.h"
#include "tests/sim/fault_clients.h"
#include "tests/sim/fault_nodes.h"
#include "tests/sim/fault_service.h"
#include "tests/sim/network.h"
#include "tests/sim/shared_memory.h"
#include "tests/sim/trouble.h"
#include "tests/sim/world_config.h"
#include "tests/sim/world_events.h"

namespace braid::sim {

struct WorldResult {
  // Empty: the world behaved. Else what was wrong, for a person.
  std::string failure;
  std::uint64_t events = 0;
  Duration virtual_time;
  std::uint64_t trace_hash = 0;  // of every event
  std::uint64_t messages = 0;    // delivered
  std::uint64_t connections = 0;
  std::uint64_t datagrams = 0;           // delivered
  std::uint64_t datagrams_returned = 0;  // to their senders
  std::uint64_t peers_lost = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t trains_sent = 0;
  std::uint64_t trains_received = 0;  // whole
  std::uint64_t paths_fenced = 0;
  std::uint64_t proxies_fenced = 0;
  std::uint64_t programs = 0;  // of shared memory, that came to their end
  NetworkCounts network;
};

class FaultWorld final : private NetworkEvents, private FaultDriver, private Stage {
 public:
  // `trace`: prints every event on standard output.
  FaultWorld(const WorldConfig& config, bool trace);
  ~FaultWorld() override;

  WorldResult run();

 private:
  // --- NetworkEvents
  Instant now() const override { return events_.now(); }
  void arrives(Instant at, unsigned node, unsigned link, FrameRef frame) override;
  void traced(unsigned from, unsigned to, unsigned link, const char* fate, ByteView frame) override;

  // --- FaultDriver
  bool step() override;
  bool run_until(Instant end) override;

  // --- Stage
  unsigned clusters() const override { return nodes_.size(); }
  std::unique_ptr<proxy::Service> service(unsigned cluster) override;
  void call_at(Instant at, unsigned cluster) override;
  void wake_proxies(unsigned cluster) override { nodes_.wake_proxies(cluster); }
  bool may_lose(unsigned a, unsigned b) const override { return nodes_.may_lose(a, b); }
  void tell(const std::string& what) override { log_.trace("{}", what); }
  void fail(const std::string& what) override { log_.fail(what); }

  // False: the event is superseded, and nothing happened.
  bool handle(const WorldEvent& event);
  void end_faults();
  void on_trouble(const WorldEvent& event);
  void carry_out(const Partition& partition);
  void carry_out(const PathCut& cut);
  void carry_out(const LinkChange& change);
  void carry_out(const ProxyStall& stall);
  void carry_out(const ProxyDeath& death);
  void carry_out(const ProxyResize& resize);
  void carry_out(const ControlStall& stall);
  void carry_out(const ClockJump& jump);
  void carry_out(const NodeHold& hold);
  void carry_out(const NodeStop& stop);
  void carry_out(const NodeContinue&);
  void carry_out(const ForgedArp& forged);
  void carry_out(const NodeDeath& death);
  void carry_out(const NodeStart& start);
  void carry_out(const ClientDeath& death);
  void carry_out(const ClientStop& stop);
  void carry_out(const Pause& pause);

  void note_memory();
  bool all_over() const;
  void check_end();
  std::string unfinished() const;

  const WorldConfig config_;
  Prng random_;
  WorldEvents events_;
  WorldLog log_;
  Network network_;
  FaultNodes nodes_;
  TroublePlanner trouble_;
  FaultClients clients_;
  std::unique_ptr<SharedMemory> shared_memory_;
  WorldResult result_;
  std::size_t heap_at_start_ = 0;
  std::size_t heap_most_ = 0;
};

}  // namespace braid::sim
