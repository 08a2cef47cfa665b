// The messages between the runtimes of two clusters: a header of kMessageHeaderBytes
// (dsm/program/host.h), whose first byte is the kind, and the kind's data.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "dsm/program/host.h"

namespace braid::dsm {

// Changes with the layout of any message between runtimes or engines.
inline constexpr std::uint64_t kRuntimeVersion = 7;

enum class Payload : std::uint8_t {
  kNone = 0,            // not a message of a runtime
  kEngine = 1,          // page engine's (dsm/engine/messages.h)
  kCollectiveCall = 2,  // a CallMessage (collective_calls.h)
};

// Writes the header; returns the room behind it.
inline MutableBytes begin_message(MutableBytes room, Payload payload) {
  std::memset(room.data(), 0, kMessageHeaderBytes);
  room[0] = static_cast<std::byte>(payload);
  return room.subspan(kMessageHeaderBytes);
}

struct OpenedMessage {
  Payload payload = Payload::kNone;
  ByteView body;
};

inline OpenedMessage open_message(ByteView message) {
  if (message.size() <= kMessageHeaderBytes) return {};
  const auto payload = static_cast<Payload>(message[0]);
  if (payload != Payload::kEngine && payload != Payload::kCollectiveCall) return {};
  return {payload, message.subspan(kMessageHeaderBytes)};
}

}  // namespace braid::dsm
