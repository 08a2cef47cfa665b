// How a client reaches its node's control plane, and how its waiting lets proxies run: over a socket to braidd
// (socket_service.h), or by calls when the node lives in this process (proxy/daemon/in_process.h).
#pragma once

#include <cstddef>

#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/control.h"

namespace braid::proxy {

// Used by all endpoints of a client, whose threads may call it at once; a service in this process allows one
// thread only.
class Service {
 public:
  virtual ~Service() = default;
  // Sends a request and waits for its answer; events that arrive meanwhile are kept for next_event(). `fd`,
  // if given, takes a descriptor that came with the answer: the caller closes it.
  virtual Result<control::Message> call(const control::Message& request, Duration timeout,
                                        int* fd = nullptr) = 0;
  // The client's memory where the answer to its attach came without a descriptor: the node's own, in this
  // process, which outlives the client. nullptr: there is none.
  virtual std::byte* memory() { return nullptr; }
  // An event (an accepted connection) for `endpoint`, if one has come.
  virtual bool next_event(unsigned endpoint, control::Message* event) = 0;
  // Returns when an event may have come, or after `timeout`.
  virtual void wait_for_event(Duration timeout) = 0;
  // Called in every turn of a loop that waits. In-process proxies work in it; any other service only looks
  // whether its daemon lives. Returns the work done.
  virtual int turn() = 0;
  // The proxies work in turn() and nowhere else: nothing moves, and no doorbell rings, unless it is called.
  virtual bool works_only_in_turn() const { return false; }
  // The connection to the service, which must stay open; -1: there is none.
  virtual int descriptor() const { return -1; }
  // False once the service is gone. Looks at most every few milliseconds, so it may be asked in any loop.
  virtual bool alive() = 0;
  // The time by which the client's timeouts run: monotonic_now(), unless time is virtual.
  virtual Instant now();
};

}  // namespace braid::proxy
