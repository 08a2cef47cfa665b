// What the runtime asks of the network: unordered messages, each delivered once, to and from the other
// clusters' runtimes; and a bell to sleep by. Live it is an endpoint of the node's service
// (service_network.h).
//
// All calls but has_arrivals() and the bell's are serialised by the cluster's combiner lock.
#pragma once

#include <memory>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/live/environment.h"

namespace braid::dsm {

struct NetworkCounts {
  std::uint64_t messages_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t bad_arrivals = 0;
  std::uint64_t no_credit = 0;     // sends put off because the receiver had not taken enough
  std::uint64_t channel_full = 0;  // sends put off because the proxies had not sent enough
};

class Network {
 public:
  class Sink {
   public:
    // The view is valid during the call. The sink may send.
    virtual void on_message(ClusterId from, ByteView message) = 0;

   protected:
    ~Sink() = default;
  };

  virtual ~Network() = default;

  // Room for a message of at most `bytes` to `to`; empty when there is none now. `lane` is the compute node
  // that sends. A room that is not committed is void at the next call.
  virtual MutableBytes reserve(ClusterId to, std::uint32_t bytes, unsigned lane) = 0;
  virtual void commit(ClusterId to, std::uint32_t bytes) = 0;
  // Lets everything committed leave; poll() does it too.
  virtual void flush() = 0;
  // Hands at most `limit` messages to `sink`; returns their number.
  virtual int poll(Sink& sink, int limit) = 0;
  // Why `peer` can no longer be reached; nullptr while it can. What it sent before has arrived when this
  // tells.
  virtual const char* trouble(ClusterId peer) = 0;
  virtual NetworkCounts counts() const = 0;
  // Nothing moves and no bell rings unless poll() or flush() is called, so whoever waits must not sleep: the
  // proxies live in this process. The same for the life of the network; any thread.
  virtual bool moves_only_in_poll() const { return false; }

  // --- Any thread, without the combiner lock.

  // Something has arrived that poll() has not taken.
  virtual bool has_arrivals() const = 0;
  // The bell rings, and wakes whoever waits on it, at an arrival while it is armed.
  virtual void arm() = 0;
  virtual void disarm() = 0;
  // Sleeps until the bell rings, also if somebody else arms it meanwhile; until wake(); or for `timeout`.
  // Returns at once if the bell rang, or wake() was called, since the last return from here. May return
  // without a reason.
  virtual void wait(Duration timeout) = 0;
  virtual void wake() = 0;
};

// Joins this cluster with all others through the node's braidd: returns when every connection is open.
Result<std::unique_ptr<Network>> connect_through_service(const Environment& environment);

}  // namespace braid::dsm
