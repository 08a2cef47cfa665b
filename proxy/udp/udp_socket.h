// The kernel's UDP sockets: bound, asked for the MTU of a path, and for what ICMP reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "proxy/udp/udp_frames.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

// The longest IP packet, headers included, that the kernel's route from `own` to `peer` takes now. An error: there is no
// route, or no such address here.
Result<std::uint32_t> path_mtu(stack::Ipv4Address own, stack::Ipv4Address peer);

// A socket that does not block, bound to `own`; ICMP errors about what left from there wait at it. The caller closes it. An
// error names the address and the cure.
Result<int> bind_udp_socket(const UdpEnd& own);

// What the kernel should keep of any socket in each direction. Beyond the system's limit only a process with CAP_NET_ADMIN gets what it asks for.
void size_socket_buffers(int socket, std::uint32_t bytes);

// What arrived at any socket and was dropped there, since it was made: it had no room.
std::uint64_t socket_drops(int socket);

// Is it an address of this host?
bool has_address(stack::Ipv4Address own);
// The address that the kernel sends from to `peer`, if nothing else says; nullopt: there is no route.
std::optional<stack::Ipv4Address> source_to(stack::Ipv4Address peer);

// Takes the messages of ICMP that wait at the socket, some dozens at most; returns how many there were.
std::size_t take_icmp_errors(int socket);

}  // namespace braid::proxy
