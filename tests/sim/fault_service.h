// A client's way to its node in a fault world. While the client waits the rest of the world goes on.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "sim/virtual_service.h"
#include "tests/sim/fault_nodes.h"

namespace braid::sim {

// The driver of a fault world.
class FaultDriver {
 public:
  // The next event. False: the world has failed, or nothing is left to happen.
  virtual bool step() = 0;
  // All events until then. The same.
  virtual bool run_until(Instant end) = 0;
  virtual Instant now() const = 0;

  // A call waits while this object lives, and the world continues below it.
  class Waiting {
   public:
    explicit Waiting(FaultDriver& driver) : driver_(driver) { ++driver_.waiting_; }
    ~Waiting() { --driver_.waiting_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    FaultDriver& driver_;
  };
  bool anybody_waits() const { return waiting_ > 0; }

 protected:
  ~FaultDriver() = default;

 private:
  unsigned waiting_ = 0;
};

class FaultService final : public VirtualService {
 public:
  // The node runs. Both live longer.
  FaultService(FaultDriver& driver, FaultNodes& nodes, unsigned node);
  ~FaultService() override;

  Result<proxy::control::Message> call(const proxy::control::Message& request, Duration timeout,
                                       int* fd) override;
  void wait_for_event(Duration timeout) override { driver_.run_until(driver_.now() + timeout); }
  int turn() override;
  Instant now() override { return nodes_.now(index_); }

  // The client waits for something in a loop of its own, and calls turn() there.
  bool in_loop = false;

 private:
  proxy::Node* node() override { return nodes_.life(index_) == life_ ? nodes_.node(index_) : nullptr; }
  void on_posted() override { nodes_.wake_control(index_, driver_.now()); }
  bool step() override { return driver_.step(); }

  FaultDriver& driver_;
  FaultNodes& nodes_;
  const unsigned index_;
  const unsigned life_;
};

}  // namespace braid::sim
