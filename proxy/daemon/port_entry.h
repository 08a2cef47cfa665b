// A connection's end as a proxy keeps it: where arrivals are written, and for which channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/ids.h"
#include "base/seq.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/node_counters.h"
#include "stack/wire/protocol_id.h"

namespace braid::proxy {

class Channel;

// Filled in by the control plane, which owns everything that it points to; then the proxy's.
struct PortEntry {
  PortId id;  // 0: none
  ClusterId peer;
  stack::ProtocolId protocol = stack::kMessages;
  PortId peer_port;
  Channel* channel = nullptr;
  std::byte* window = nullptr;
  std::uint32_t window_granules = 0;
  std::uint32_t peer_window_granules = 0;
  PortCell* cell = nullptr;
  ProtocolTraffic* traffic = nullptr;  // its protocol's, in this proxy; PortTable::install() knows it
  // A bit for every granule of the window: this proxy has reported an arrival that begins there, and the
  // client has not consumed it yet. So a ring of arrivals has an entry for all that can be in it, however often
  // a peer's client sends a record. `reported` belongs to the control plane, one for each proxy; the bits before
  // `forgotten` are cleared.
  std::uint64_t* reported = nullptr;
  Position forgotten;
  bool peer_lost = false;  // its peer was lost since it was installed: it is dead
  std::uint64_t peer_incarnation = 0;
};

// Words of PortEntry::reported.
constexpr std::size_t reported_words(std::uint32_t window_granules) {
  return (window_granules + 63) / 64;
}

}  // namespace braid::proxy
