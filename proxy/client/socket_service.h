// A node's control plane over its Unix socket.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "proxy/client/service.h"

namespace braid::proxy {

// `address`: a path, or "@name" for a socket of the abstract namespace.
Result<std::unique_ptr<Service>> connect_to_service(const std::string& address);

}  // namespace braid::proxy
