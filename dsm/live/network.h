// The network as the runtime uses it: unordered messages to and from the other
// clusters' runtimes, each delivered once, and a bell that wakes a sleeping thread.
// In a live run it is an endpoint of the node's service (service_network.h).
//
// All calls but has_arrivals() and the bell's are made with the cluster's combiner lock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "dsm/live/environment.h"

namespace braid::dsm {

// Names and values of a proxy's counters.
using CounterValues = std::vector<std::pair<std::string, std::uint64_t>>;

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

  // Room for a message of at most `bytes` to `to`, or for the longest that there can be if that is shorter, sent by
  // `compute_node`; empty if there is none now. Room that is not committed is void at the next call.
  virtual MutableBytes reserve(ClusterId to, std::uint32_t bytes, unsigned compute_node) = 0;
  virtual void commit(ClusterId to, std::uint32_t bytes) = 0;
  // Sends everything committed; poll() does it too.
  virtual void flush() = 0;
  // Hands at most `limit` messages to `sink`; returns their number.
  virtual int poll(Sink& sink, int limit) = 0;
  // Why `peer` can no longer be reached; nullptr while it can. All that it sent before has arrived then.
  virtual const char* trouble(ClusterId peer) = 0;
  // The descriptor that the program must not close; -1: none.
  virtual int descriptor() const { return -1; }
  virtual NetworkCounts counts() const = 0;
  // Of this cluster's proxies, as they are now. Empty: there are none, or they cannot be read. Also without the combiner lock.
  virtual std::vector<CounterValues> proxy_counters() { return {}; }
  // The proxies run in this process, inside poll() and flush(): no message moves and no bell rings otherwise, so a
  // waiting thread must not sleep. Constant; any thread.
  virtual bool moves_only_in_poll() const { return false; }

  // --- Any thread, without the combiner lock.

  // Something has arrived that poll() has not taken.
  virtual bool has_arrivals() const = 0;
  // While the bell is armed an arrival rings it, which ends wait().
  virtual void arm() = 0;
  virtual void disarm() = 0;
  // Sleeps until the bell rings, also if another thread arms it meanwhile; until wake(); or for `timeout`. Returns
  // at once if the bell rang, or wake() was called, since the last return from here. May return spuriously.
  virtual void wait(Duration timeout) = 0;
  virtual void wake() = 0;
};

// Joins this cluster with all others through the node's braidd: returns when every connection is open.
Result<std::unique_ptr<Network>> connect_through_service(const Environment& environment);

}  // namespace braid::dsm
