// The network interfaces of this host, in the network namespace of the process.
#pragma once

#include <string>

namespace braid {

// The interface that has this IPv4 address; empty: none has, or it is no address.
std::string interface_with(const std::string& address);

}  // namespace braid
