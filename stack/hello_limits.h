// How many hellos of ends with a secret a stack reads (SE-11). Each costs a keyed hash before anything of it can be believed,
// which is forty times what a packet of an unknown epoch costs; so whoever sends many would have a proxy do nothing else.
//
// There are three bounds, because a flood of one kind shall not keep hellos of another out:
//
//   names an epoch of ours        the sender has received a hello of ours, or reads the network
//   from the peer's address       the peer, or somebody who sends with its address
//   from elsewhere                a peer behind a NAT, one that has moved, anybody
//
// Hellos above a bound are dropped unread; their senders repeat them (SC-1). Nothing is kept of a sender. Pure; owned by the stack.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "stack/rate_limit.h"

namespace braid::stack {

class HelloLimits {
 public:
  enum class Kind : std::uint8_t { kNamesUs, kFromPeersAddress, kFromElsewhere };
  static constexpr std::size_t kKinds = 3;

  // Of each kind. A keyed hash takes 7,000 instructions on a processor without instructions for it: all three together take 4 %
  // of one with 2.3 GHz that completes one instruction in each cycle.
  static constexpr std::uint32_t kPerSecond = 4000;
  // All peers of a node that starts say hello at once; a handshake has at most four hellos of each end without a loss.
  static constexpr std::uint32_t kAtOncePerRemote = 8;
  static constexpr std::uint32_t kLeastAtOnce = 256;

  explicit HelloLimits(std::size_t remotes) : limits_{limit(remotes), limit(remotes), limit(remotes)} {}

  // May one more be read now? Counts it if so.
  bool allow(Instant now, Kind kind) { return limits_[static_cast<std::size_t>(kind)].allow(now); }

 private:
  static RateLimit limit(std::size_t remotes) {
    return {kPerSecond, std::max(kLeastAtOnce, kAtOncePerRemote * static_cast<std::uint32_t>(remotes))};
  }

  std::array<RateLimit, kKinds> limits_;
};

}  // namespace braid::stack
