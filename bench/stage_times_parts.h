// The parts of a message's way and of the page protocol that time_stages() puts together: each is set up, timed
// and given as medians in nanoseconds. `samples`: of each thing, at least 10; `clock`: what a look at the clock
// adds (clock_ns()).
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "proxy/nic/shm_wire.h"
#include "settings/transport.h"

namespace braid::bench {

// The two ends of a shm wire.
struct Ends {
  std::unique_ptr<proxy::ShmQueue> a, b;
};

Result<Ends> make_ends();

struct NiTimes {
  double send = 0, receive = 0;  // a frame
};

struct WireTimes {
  double latency = 0, byte = 0;
};

// The time that one thread alone needs for the same frames is subtracted.
WireTimes time_wire(Ends& ends, unsigned samples);
NiTimes time_ni(Ends& ends, unsigned samples);

struct HeaderTimes {
  double udp_send = 0, ip_send = 0, udp_receive = 0, ip_receive = 0;
};

struct ByteTimes {
  double sum = 0, copy = 0;  // of bytes that lie in the cache
};

// A flow writes and reads both headers at once (stack/wire/flow.h): what that takes is shared between them as
// the general writers and parsers take it.
HeaderTimes time_headers(unsigned samples);
ByteTimes time_bytes(unsigned samples);

// Two nodes of one proxy each with a shm wire between them, and a client of each, all on this thread.
class TwoNodes;
// Of messages of one length that go from one node to the other, so many in one packet.
struct Turns {
  double hand_over = 0;     // all of them, in place
  double send = 0;          // the sending proxy's turn
  double receive = 0;       // the receiving one's
  double poll = 0;          // the receiving client's, less one that finds nothing
  double acknowledge = 0;   // the receiving proxy's turn that sends nothing else
  double acknowledged = 0;  // the sending one's that takes it in
  double idle = 0;          // a turn that finds nothing
  double frame_bytes = 0;
  double ack_bytes = 0;
};

// Owned by the caller. `ack_delay_us`: a setting of their transport.
Result<std::shared_ptr<TwoNodes>> make_two_nodes(
    std::uint32_t ack_delay_us = settings::TransportConfig{}.ack_delay_us);
// Messages of `bytes`, `messages` of them in one packet.
Result<Turns> time_turns(TwoNodes& two, std::uint32_t bytes, int messages, unsigned samples, double clock);

struct EngineTimes {
  double lock = 0, barrier = 0, sync = 0;      // inside a cluster
  double small_message = 0, small_output = 0;  // taken, and written
};

struct PageTimes {
  double copy = 0, diff = 0, diff_byte = 0;
};

EngineTimes time_engine(unsigned samples, double clock);
PageTimes time_pages(unsigned samples);

struct FaultTimes {
  double fault = 0, protect = 0, protect_beside_sibling = 0;
  bool userfaultfd = false;
};

// In a process of its own: it takes the heap's address and the faults.
Result<FaultTimes> time_faults(unsigned samples);
// A lock taken or given back by a program, on a machine of one cluster. In a process of its own.
Result<double> time_lock_call(unsigned samples);

}  // namespace braid::bench
