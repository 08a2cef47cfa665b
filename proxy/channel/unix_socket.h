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

// False if the other side is gone (or sent something that is not a message).
[[nodiscard]] bool send_message(int socket, const control::Message& message, int fd);
[[nodiscard]] bool receive_message(int socket, control::Message* message, int* fd);

}  // namespace braid::proxy
