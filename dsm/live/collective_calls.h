// The collective calls of a program: joining, each allocation outside parallel(), each parallel(), finishing,
// and the departure. A cluster tells all others which call it makes, and continues when all have announced the
// same one.
//
// Clusters that make different calls are detected at the first difference, and both
// calls are named. Otherwise they would compute on different data or wait for ever.
//
// Pure: messages in, messages out. Owned by the holder of the combiner lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "dsm/program/collective_call.h"

namespace braid::dsm {

// The announcement, in the byte order of the processor: all supported ones are little-endian.
struct CallMessage {
  std::uint64_t sequence = 0;  // 1 for the first call
  CollectiveCall call;
};
static_assert(std::is_trivially_copyable_v<CallMessage>);

class CollectiveCalls {
 public:
  CollectiveCalls(ClusterId self, unsigned clusters);

  // This cluster makes its next call, after the previous one. The caller sends the message to all others.
  CallMessage begin(const CollectiveCall& call);
  // False: the message has another form or an unexpected sequence number; nothing was changed.
  [[nodiscard]] bool on_message(ClusterId from, ByteView message);

  // All others have made this cluster's current call as well, with the same arguments.
  bool complete() const;
  bool reached(ClusterId peer) const;
  bool disagreement() const;
  // Describes the call of the first cluster that disagrees, and this one's, for the programmer. Allocates.
  std::string explain() const;
  // The latest call of `peer`, or the one before, is of this kind.
  bool has_made(ClusterId peer, CallKind kind) const;

 private:
  // A peer is at most one call ahead, because its next one needs this cluster's; so two slots are enough in
  // whatever order messages arrive. By the last bit of the sequence number.
  using Slots = std::array<CallMessage, 2>;
  const CallMessage& latest(ClusterId peer) const { return received_[peer.value()][current_.sequence & 1]; }

  ClusterId self_;
  CallMessage current_;
  std::vector<Slots> received_;  // by cluster
};

}  // namespace braid::dsm
