// The configuration of a sub-connection, and the parts of it that its components read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/seq.h"
#include "base/time.h"
#include "stack/secure/packet_cipher.h"
#include "stack/secure/secret.h"
#include "stack/window/congestion.h"
#include "stack/wire/segment.h"

namespace braid::stack {

struct SubConnectionConfig {
  StackId local;
  StackId remote;
  std::size_t max_payload_bytes = 1472;  // of a UDP datagram; decides where messages are cut (SC-6)
  // Of both directions. 256 packets of 1500 bytes are three times what 10 Gb/s carry in 100 us.
  std::uint32_t window_packets = 256;
  std::uint32_t receive_window_bytes = 4u << 20;  // above 256 packets of 9000 bytes
  CongestionConfig congestion;
  Duration min_rto = 500_us;
  Duration max_rto = 100_ms;
  Duration path_death = 500_ms;
  Duration peer_death = 10_s;
  // A sender with nothing to send learns of its packets' arrival after at most this; below min_rto. An answer
  // that takes longer costs a packet of its own more; a lost packet that nothing follows is noticed so much
  // later.
  Duration ack_delay = 10_us;
  // Packets that may arrive before an acknowledgement leaves at once.
  std::uint32_t ack_every = 16;
  Duration hello_retry = 5_ms;
  // A new end says nothing until it has a message to send, its peer speaks, or greet() is called (SC-14).
  bool greets_at_first_use = false;
  // Number of an incarnation's first packet: the same at both ends.
  Seq first_seq;
  // Hash of what both ends must have in common; a peer with another is refused.
  std::uint64_t shared_hash = 0;
  // Of the node: the same in all of its sub-connections, and new when it restarts. The hello tells it. 0: it has
  // none, and each new handshake from it counts as another node's.
  std::uint64_t incarnation = 0;
  // The UDP port that the peer is asked to send from; 0: any. The hello asks for it (SC-12).
  std::uint16_t wanted_source_port = 0;
  // No secret: packets are plain.
  Security security;
};

// Of each packet: what sealing adds to it.
inline std::size_t seal_bytes(const SubConnectionConfig& config) {
  return config.security.secret ? kSealBytes : 0;
}

}  // namespace braid::stack
