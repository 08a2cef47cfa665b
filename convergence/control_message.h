// The messages of two clusters' control planes: their bytes in a kControl record, and the reasons of refusals.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "stack/wire/protocol_id.h"

namespace braid::convergence {

// The first five kinds concern ports (convergence/ports.h), the others paths (convergence/paths.h) and the node.
struct ControlMessage {
  enum class Kind : std::uint8_t {
    kConnect = 1,
    kAccept,
    kConfirm,
    kRefuse,
    kClose,
    kFence,         // our end of a sub-connection is closed: close yours, and say so
    kFenced,        // the answer
    kProxies,       // so many of our proxies are active: send to the others only if there is no other way
    kFenceBefore,   // as kFence, of whichever incarnation our end has had until now; its next is `epoch`
    kFencedBefore,  // the answer
  };
  Kind kind = Kind::kConnect;
  bool ordered = true;
  // A Refusal: why, in kRefuse; in kClose kTimeout if this end gave up before it was open, else kNone.
  std::uint8_t reason = 0;
  stack::ProtocolId protocol;      // of the connection: kConnect; else 0
  PortId source;                   // the sender's port
  PortId destination;              // the listener's, or the peer's port
  std::uint32_t window_bytes = 0;  // of the sender's end
  // Different for each message of a node to another, so that one that went over two paths is known (CN-11).
  std::uint32_t serial = 0;
  std::uint8_t proxy = 0;       // of a fence and its answer: the sender's; kProxies: how many are active
  std::uint8_t peer_proxy = 0;  // of a fence and its answer: the receiver's
  // The sender's: kFence: the closed one, kFenceBefore: the next; answers repeat it. Of all other kinds the
  // receiver's incarnation that the message is meant for, 0 if the sender knows of none (CN-8).
  std::uint64_t epoch = 0;
};
inline constexpr std::size_t kControlBytes = 32;
// `to` has room for kControlBytes.
void write_control(MutableBytes to, const ControlMessage& message);
// False: they are no message, and `message` is of no use.
[[nodiscard]] bool parse_control(ByteView bytes, ControlMessage* message);

enum class Refusal : std::uint8_t {
  kNone,
  kNoListener,     // no listener on that port there (the connector tries again until its timeout)
  kNoRoom,         // no receive buffer or port left there
  kOrderMismatch,  // one end asks for order, the other does not
  kNoSuchCluster,
  kTimeout,
  kPeerLost,
  kPortTaken,  // listen: another client has it
  kBadWindow,  // not a power of two between kMinWindowBytes and kMaxWindowBytes
  kNoRoomHere,
  kClientGone,
  kBadPort,  // listen: above kMaxListenerPort
  kProtocolMismatch,
};
// A message for the user: the cause, and the cure.
const char* to_string(Refusal refusal);

}  // namespace braid::convergence
