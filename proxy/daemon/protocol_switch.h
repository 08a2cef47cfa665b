// One proxy's protocols, found by the id of a record, and what it counts for each (PS-1).
//
// A table look-up, whatever the number of protocols. Messages do not even need it: a connection's end knows its
// protocol, so a record costs a comparison (PortTable::destination()), and only datagrams and control messages ask
// here. Pure but for the objects of datagram protocols. Owned by the proxy's worker.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "proxy/channel/node_counters.h"
#include "proxy/daemon/port_entry.h"
#include "proxy/daemon/protocols.h"
#include "stack/wire/protocol_id.h"

namespace braid::proxy {

class ProtocolSwitch {
 public:
  struct Entry {
    Protocol::Carries carries = Protocol::Carries::kNothing;
    std::unique_ptr<DatagramProtocol> datagrams;  // of kDatagrams
    ProtocolTraffic traffic;
  };

  explicit ProtocolSwitch(const Protocols& protocols) {
    for (const Protocol& protocol : protocols.all()) {
      Entry& entry = entries_[++count_];
      entry.carries = protocol.carries;
      if (protocol.make) entry.datagrams = protocol.make();
      slots_[protocol.id.value()] = static_cast<std::uint8_t>(count_);
    }
  }
  ProtocolSwitch(const ProtocolSwitch&) = delete;  // ports point to the traffic
  ProtocolSwitch& operator=(const ProtocolSwitch&) = delete;

  // Of an unknown id: the entry that carries nothing.
  Entry& operator[](stack::ProtocolId id) { return entries_[slots_[id.value()]]; }
  const Entry& operator[](stack::ProtocolId id) const { return entries_[slots_[id.value()]]; }

  // Copies what was counted to where others read it.
  void publish(ProxyCounters& counters) const;

 private:
  std::array<std::uint8_t, 256> slots_{};  // by id; 0: unknown
  std::array<Entry, kMaxProtocols + 1> entries_;
  unsigned count_ = 0;
};

inline void ProtocolSwitch::publish(ProxyCounters& counters) const {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count_; ++i) {
    const Entry& entry = entries_[i + 1];
    ProtocolCounters& to = counters.protocol[i];
#define X(name, meaning) to.name.set(entry.traffic.name);
    BRAID_PROTOCOL_COUNTERS(X)
#undef X
    if (entry.carries != Protocol::Carries::kConnections) continue;
    messages += entry.traffic.received;
    bytes += entry.traffic.received_bytes;
  }
  counters.messages_received.set(messages);
  counters.message_bytes_received.set(bytes);
  counters.unknown_protocol.set(entries_[0].traffic.refused);
}

}  // namespace braid::proxy
