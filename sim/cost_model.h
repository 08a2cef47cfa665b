// What everything costs on the machine that is simulated, in cycles of a compute node: one number for each
// stage of a message's way and each thing that the page protocol does, with the source of every number beside
// it. Read from a YAML file of configs/models.
//
// A proxy may be faster or slower than a compute node: `proxy_speed` divides what its stages cost.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "stack/fragmentation.h"
#include "stack/window/congestion.h"

namespace braid::sim {

struct CostModel {
  // --- A compute node
  double unit = 1;       // of what the compiler's charges count (docs/decisions/0009)
  double fault = 0;      // from an access that is forbidden until the page protocol has it
  double call = 0;       // from a lock, barrier or other call until the page protocol has it
  double lock = 0;       // of one inside the cluster, taken or given back
  double barrier = 0;    // to come to one
  double sync = 0;       // a word, flag, semaphore or condition; an allocation
  double protect = 0;    // a change of the protection of a run of pages, on all processors of the cluster
  double twin = 0;       // a copy of a page, of the page's bytes before they are written
  double diff = 0;       // to compare a page with its twin
  double diff_byte = 0;  // for each byte of a diff, found or applied
  double page_byte = 0;  // for each byte of a page, copied out or in
  double handler = 0;    // for a message that has arrived, beside what it has done
  double hand_over = 0;  // a message, to a proxy
  double hand_over_byte = 0;

  // --- A proxy, for what it sends
  double window_send = 0;  // a packet with records, through the sliding window
  double ack_send = 0;     // a packet without
  double udp_send = 0;
  double checksum_byte = 0;  // for each byte of a datagram, sent or received
  double ip_send = 0;        // for each fragment, or a datagram that needs none
  double ni_send = 0;        // the same
  double ni_byte = 0;        // for each byte of a frame, sent or received
  // --- and receives
  double ni_receive = 0;  // for each frame
  double ip_receive = 0;  // for each frame
  double udp_receive = 0;
  double window_receive = 0;
  double ack_receive = 0;
  double deliver = 0;  // a record, to where its connection has it
  double deliver_byte = 0;
  double timer = 0;  // to look after timers, when one has run out

  // --- The network between two NIs
  double latency = 0;    // from the last bit sent to the last bit received
  double wire_byte = 0;  // for each byte on the wire

  // Of a compute node.
  double cycles_per_second = 0;
  std::string name;

  // What a unit is in programs that were measured each on its own, by their names: one number does not hold
  // for all, where a processor does several things at once. Elsewhere `unit` holds.
  std::map<std::string, double> units;
  double unit_of(const std::string& program) const {
    const auto found = units.find(program);
    return found == units.end() ? unit : found->second;
  }

  // What the transport is like there, unless a run says otherwise.
  struct Protocol {
    std::uint32_t mtu_bytes = 1500;
    stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;
    stack::CongestionControl congestion = stack::CongestionControl::kNone;
    std::uint32_t ack_every = 16;
    std::uint32_t ack_delay_us = 10;
    std::uint32_t min_rto_us = 500;
    std::uint32_t max_rto_us = 100'000;
  };
  Protocol protocol;

  // An error names the file, the key and what is missing or wrong. Every number of the list must be there,
  // with its source, and nothing else; programs' units (`units`) may be, with their sources.
  static Result<CostModel> load(const std::string& path);
  static Result<CostModel> parse(const std::string& yaml, const std::string& name_of_source);

  // At least a nanosecond, so that nothing happens at once.
  Duration time(double cycles) const {
    const double ns = cycles * 1e9 / cycles_per_second;
    return Duration::ns(ns < 1 ? 1 : static_cast<std::int64_t>(ns + 0.5));
  }
  double cycles(Duration time) const { return static_cast<double>(time.ns()) * cycles_per_second / 1e9; }
};

// A number of the model, by its key in the file: what the reader, the writer and the documentation go by.
struct CostKey {
  const char* key;
  double CostModel::*value;
  const char* meaning;
};
std::span<const CostKey> cost_keys();

}  // namespace braid::sim
