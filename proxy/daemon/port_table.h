// The connections' ends that a proxy knows, and records that arrive for them: each is written to its place in
// the connection's window once, with a descriptor in its client's ring of arrivals, or is found to be a
// duplicate, for no port, or one that no sender makes.
//
// Pure but for the memory of clients, which it writes. Owned by the proxy's worker.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/time.h"
#include "convergence/train.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/port_entry.h"
#include "proxy/daemon/protocol_switch.h"
#include "proxy/daemon/proxy_channel.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

class PortTable {
 public:
  enum class Delivery : std::uint8_t {
    kDelivered,
    kDropped,            // it has no destination
    kNoRoom,             // the client's ring of arrivals is full: not delivered yet
    kProtocolViolation,  // dropped, and the port's channel is to be closed
  };

  // `max_ports`: a power of two; ports whose numbers are equal modulo it are not there at once. `writing`: what
  // the node's other proxies see of this one (ProxyState::writing).
  PortTable(std::uint32_t max_ports, std::atomic<std::uint64_t>& writing, ProxyCounters& counters,
            ProtocolSwitch& protocols)
      : ports_(max_ports), writing_(writing), counters_(counters), protocols_(protocols) {
    rung_.reserve(kMaxEndpoints);
  }
  PortTable(const PortTable&) = delete;
  PortTable& operator=(const PortTable&) = delete;

  // --- which ports there are

  void install(const PortEntry& port) {
    PortEntry& entry = at(port.id);
    entry = port;
    entry.traffic = &protocols_[port.protocol].traffic;
  }
  void remove(PortId id) {
    if (PortEntry* const port = find(id)) *port = PortEntry{};
  }
  // The peer's incarnation is lost: ports that were installed with it are dead.
  void end_incarnation(ClusterId peer, std::uint64_t incarnation);
  void clear();

  // nullptr: there is none.
  PortEntry* find(PortId id) {
    if (id == PortId()) return nullptr;
    PortEntry& port = at(id);
    return port.id == id ? &port : nullptr;
  }
  // The port, if it is of the endpoint whose channel this is; else nullptr.
  const PortEntry* find_own(const Channel& channel, PortId id) {
    const PortEntry* const port = find(id);
    const bool own = port != nullptr && port->channel->client == channel.client &&
                     port->channel->endpoint == channel.endpoint;
    return own ? port : nullptr;
  }

  // --- what arrives

  // The port that a record of that cluster is for; nullptr: nobody's, or not of its protocol (PS-1), and that is
  // noted (CV-10).
  PortEntry* destination(Instant now, ClusterId source, const stack::Record& record) {
    PortEntry* const port = find(record.destination);
    if (port != nullptr && port->peer == source && port->protocol == record.protocol &&
        port->peer_port == record.source)
      return port;
    refuse(now, source, record);
    return nullptr;
  }
  // Puts a message's record where it belongs. publish() shows it to the client.
  Delivery deliver(Instant now, PortEntry& port, const stack::Record& record, ByteView bytes);
  // Puts the messages of a train where they belong, all at once. False: something stands against it, and
  // deliver_one_by_one() finds what.
  [[nodiscard]] bool deliver_train(PortEntry& port, const stack::Record& train, ByteView bytes,
                                   const stack::TrainLengths& lengths);
  // The messages of a train as deliver() takes them. Calls delivered(record) for each that was delivered; ends before
  // the next when there is no room, or the channel is to be closed.
  template <class F>
  Delivery deliver_one_by_one(Instant now, PortEntry& port, const stack::Record& train, ByteView bytes,
                              const stack::TrainLengths& lengths, F&& delivered) {
    Delivery result = Delivery::kDelivered;
    convergence::for_each_message(train, bytes, lengths, [&](const stack::Record& one, ByteView its_bytes) {
      result = deliver(now, port, one, its_bytes);
      if (result == Delivery::kDelivered) delivered(one);
      return result == Delivery::kDelivered || result == Delivery::kDropped;
    });
    return result;
  }
  // A packet was not delivered whole and stays unacknowledged: what was delivered of it will come again, and is
  // no sign that a sender made it up.
  void packet_turned_away() { turned_away_ = true; }
  bool any_unpublished() const { return !rung_.empty(); }
  // Clients see what was delivered since the last call.
  void publish();

 private:
  PortEntry& at(PortId id) { return ports_[id.value() & (ports_.size() - 1)]; }
  void refuse(Instant now, ClusterId source, const stack::Record& record);
  PortEntry* meant(Instant now, ClusterId source, const stack::Record& record);
  Delivery drop_repeated(PortEntry& port, const stack::Record& record);
  Delivery ring_full(Instant now, Channel& channel);
  bool begin_rewriting(const PortEntry& port, const stack::Record& record);
  [[nodiscard]] static bool begin_messages(PortEntry& port, std::uint32_t index, std::uint64_t begins);
  static void mark_corrupted(PortEntry& port);
  static void forget_consumed(PortEntry& port, Position consumed);

  std::vector<PortEntry> ports_;
  std::atomic<std::uint64_t>& writing_;
  ProxyCounters& counters_;
  ProtocolSwitch& protocols_;
  std::vector<Channel*> rung_;  // channels with arrivals that are not published
  Instant last_search_ = Instant::never();
  bool turned_away_ = false;
};

}  // namespace braid::proxy
