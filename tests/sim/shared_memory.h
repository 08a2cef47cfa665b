// A random shared-memory program in a world: the production page engines, their messages carried by
// production clients, proxies and stacks over the world's bad network, and the oracle that knows what every
// read must return (tests/dsm/random_program.h). No fibres, no signals: a node that lacks a page asks the
// engine for it, as the fault handler would.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "dsm/engine/engine.h"
#include "dsm/live/environment.h"
#include "dsm/live/service_network.h"
#include "proxy/client/client.h"
#include "tests/dsm/array_memory.h"
#include "tests/dsm/random_program.h"

namespace braid::sim {

// The world in which the program runs, as the program uses it.
class Stage {
 public:
  virtual unsigned clusters() const = 0;
  virtual Instant now() const = 0;
  // A new client's way to the service of its node, in which the rest of the world goes on while the client
  // waits; nullptr while the node is down.
  virtual std::unique_ptr<proxy::Service> service(unsigned cluster) = 0;
  // Lets the proxies of the node look at what its client has written.
  virtual void wake_proxies(unsigned cluster) = 0;
  // Calls SharedMemory::turn(cluster) then.
  virtual void call_at(Instant at, unsigned cluster) = 0;
  // The faults so far may have made the two give each other up.
  virtual bool may_lose(unsigned a, unsigned b) const = 0;
  virtual void tell(const std::string& what) = 0;
  virtual void fail(const std::string& what) = 0;

 protected:
  ~Stage() = default;
};

class SharedMemory final : private dsm::ProgramMachine {
 public:
  // `pace`: between the turns of a cluster. `told`: prints what every node does.
  SharedMemory(Stage& stage, std::uint64_t seed, Duration pace, bool told);
  ~SharedMemory();

  // One cluster works: takes what has arrived, lets its nodes take some steps, and sends.
  void turn(unsigned cluster);
  // Every node has come to its end and nothing is on its way; or the program was given up.
  bool over() const { return over_; }
  // Two clusters lost each other, as they may: the program ended there.
  bool given_up() const { return given_up_; }
  std::string unfinished() const;

 private:
  struct Cluster {
    std::unique_ptr<dsm::ArrayMemory> memory;
    std::unique_ptr<dsm::Engine> engine;
    std::unique_ptr<dsm::ServiceNetwork> network;
    bool joining = false;   // further up on this stack
    bool complete = false;  // all others are connected
  };
  class Arrivals;

  dsm::Engine& engine(std::uint16_t cluster) override { return *clusters_[cluster].engine; }
  bool may(std::uint16_t cluster, std::size_t address, dsm::Access wanted) const override;
  std::uint8_t peek(std::uint16_t cluster, std::size_t address) override;
  void poke(std::uint16_t cluster, std::size_t address, std::uint8_t value) override;

  void join(unsigned cluster);
  bool complete(Cluster& cluster);
  void give_up(const std::string& why);
  bool take_arrivals(unsigned cluster);
  bool step_nodes(unsigned cluster);
  bool send(unsigned cluster);
  void look_after(unsigned cluster);
  void end();

  Stage& stage_;
  Prng random_;
  const Duration pace_;
  dsm::EngineConfig config_;
  convergence::Dispatch dispatch_;
  std::vector<Cluster> clusters_;
  std::optional<dsm::RandomProgram> program_;
  bool over_ = false;
  bool given_up_ = false;
};

}  // namespace braid::sim
