// Shared by the tests of a sub-connection's parts: instants, headers, messages, and room for a packet.
#pragma once

#include <cstring>
#include <deque>
#include <vector>

#include "stack/packet_writer.h"
#include "stack/sub_connection_config.h"
#include "stack/timestamp.h"
#include "stack/wire/segment.h"

namespace braid::stack::parts {

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(5'000'000'000) + since_start;
}

inline SubConnectionConfig test_config() {
  SubConnectionConfig c;
  c.local = {ClusterId(0), ProxyId(0)};
  c.remote = {ClusterId(1), ProxyId(0)};
  c.shared_hash = 0x5a5a;
  c.incarnation = 77;
  return c;
}

// A packet of the peer that acknowledges everything before `ack`, and echoes what left at `echo`.
inline PacketHeader ack_header(Seq ack, Instant echo) {
  PacketHeader h;
  h.type = PacketType::kAck;
  h.ack = ack;
  h.timestamp_echo = timestamp(echo);
  return h;
}

// Messages that stay where they are, with bytes of their own.
class Messages {
 public:
  OutMessage& add(std::uint32_t bytes) {
    data_.emplace_back(bytes, static_cast<std::byte>(data_.size() + 1));
    OutMessage& m = messages_.emplace_back();
    m.data = data_.back().data();
    m.bytes = bytes;
    m.record.destination = PortId(7);
    m.record.position = next_;
    m.record.message = next_;
    m.record.message_bytes = bytes;
    next_ += (bytes + 63) / 64;
    return m;
  }

 private:
  std::deque<OutMessage> messages_;
  std::deque<std::vector<std::byte>> data_;
  Position next_;
};

// The messages of a list, in its order.
inline std::vector<const OutMessage*> listed(const OutMessage* first) {
  std::vector<const OutMessage*> all;
  for (const OutMessage* m = first; m != nullptr; m = m->next) all.push_back(m);
  return all;
}

}  // namespace braid::stack::parts
