// Settings that a run and each of its nodes have in common: of sub-connections, of injected faults, and of how
// proxies wait.
#pragma once

#include <cstdint>

#include "convergence/peer_choice.h"
#include "settings/setting.h"
#include "stack/fragmentation.h"
#include "stack/window/congestion.h"

namespace braid::settings {

// When sub-connections with the other clusters are made.
enum class Connect : std::uint8_t { kAuto, kAtStart, kAtFirstUse };

// Of the sub-connections. The members that transport.cpp marks `agreed` are hashed into the hello.
struct TransportConfig {
  std::uint32_t mtu_bytes = 1500;  // an IP packet; 0: auto, what the wire carries
  stack::Fragmentation fragmentation = stack::Fragmentation::kTransport;
  std::uint32_t window_packets = 256;
  stack::CongestionControl congestion = stack::CongestionControl::kDelay;
  convergence::PeerChoice peer = convergence::PeerChoice::kAligned;
  bool all_pairs = false;
  Connect connect = Connect::kAuto;
  std::uint32_t path_death_ms = 500;
  std::uint32_t peer_death_ms = 10'000;
  std::uint32_t min_rto_us = 500;
  std::uint32_t max_rto_us = 100'000;
  std::uint32_t ack_every = 16;
  std::uint32_t ack_delay_us = 10;
  std::uint32_t train_messages = 16;  // 1: no trains
};
extern const Schema kTransportSchema;

// Above so many clusters `auto` makes sub-connections at their first use.
inline constexpr std::uint32_t kMostConnectedAtStart = 64;
inline bool connects_at_first_use(const TransportConfig& transport, std::uint32_t clusters) {
  if (transport.connect != Connect::kAuto) return transport.connect == Connect::kAtFirstUse;
  return clusters > kMostConnectedAtStart;
}

// Probabilities per frame, injected where a proxy receives; see proxy/nic/faulty_queue.h.
struct FaultConfig {
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;
  std::uint32_t flip_past_checksum_every = 0;
  std::uint32_t drop_all_after = 0;
  std::uint32_t delay_ms = 0;  // proxy/nic/delaying_queue.h
  std::uint64_t seed = 1;
  bool any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || flip_past_checksum_every > 0 ||
           drop_all_after > 0 || delay_ms > 0;
  }
};
extern const Schema kFaultSchema;

// How a proxy without work waits: it spins, then yields, then sleeps until it is woken; where nobody can wake it, for twice
// as long each time.
struct IdleConfig {
  static constexpr std::uint32_t kAutomaticSpins = 0xffff'ffff;  // RunConfig::spins() decides
  std::uint32_t spins = 200;
  std::uint32_t yields = 500;
  bool wakeups = true;
  std::uint32_t sleep_min_us = 20;
  std::uint32_t sleep_max_us = 200;
};
extern const Schema kIdleSchema;

}  // namespace braid::settings
