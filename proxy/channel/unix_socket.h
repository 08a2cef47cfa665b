// The control socket's plumbing, for both ends: addresses, and one message with perhaps a descriptor per
// packet.
#pragma once

#include <string>

#include "base/result.h"
#include "proxy/channel/control.h"

namespace braid::proxy {

// `address`: a path, or "@name" for the abstract namespace. Descriptors are close-on-exec and the caller's.
Result<int> connect_unix(const std::string& address);
Result<int> listen_unix(const std::string& address);

enum class Sent { kSent, kNoRoom, kGone };
// `fd` goes with the message, -1: none; it stays the caller's. Does not wait for a receiver that does not
// read unless `wait`.
[[nodiscard]] Sent send_message(int socket, const control::Message& message, int fd, bool wait);
// Waits for room. False if the other side is gone.
[[nodiscard]] bool send_message(int socket, const control::Message& message, int fd);
// Does not wait. False if there is none: the other side is gone, or sent something that is not a message.
// `*fd` is the descriptor that came with it, or -1; it is the caller's.
[[nodiscard]] bool receive_message(int socket, control::Message* message, int* fd);

}  // namespace braid::proxy
