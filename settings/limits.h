// Bounds that several structs share. Bounds of memory layouts stand with their layouts
// (proxy/channel/channel.h, convergence/position.h).
#pragma once

#include <cstdint>

#include "base/limits.h"

namespace braid::settings {

inline constexpr std::uint32_t kMinMtuBytes = 576;   // what every IPv4 host must take (RFC 791)
inline constexpr std::uint32_t kMaxMtuBytes = 9000;  // the usual jumbo frame: two pages and their headers
inline constexpr std::uint32_t kMaxXdpMtuBytes = 4096 - 256 - 14;  // a frame and Linux's room lie in a page
inline constexpr std::uint32_t kMaxWindowPackets = 256;
// Timestamps count 64 ns in 32 bits; the order of two is known within half of that range.
inline constexpr std::uint32_t kMaxPeerDeathMs = 137'000;
// The longest time-out that a user may set.
inline constexpr std::uint32_t kDayMs = 86'400'000;
inline constexpr std::uint32_t kMaxEalMib = 65'536;
inline constexpr std::uint32_t kMaxCaptureMib = 1u << 20;
// Nodes introduce themselves below the ports that are left to RSS (stack/udp_ports.h: first_steered_port()).
inline constexpr std::uint16_t kMaxIntroductionPort = 49'151;
inline constexpr std::uint32_t kMaxHeapMib = 65'536;  // far less than the free address space above the heap
// Of a connection between two clusters. A page and its headers fit a quarter of the smallest window; the largest
// is convergence::kMaxWindowBytes.
inline constexpr std::uint32_t kMinWindowKib = 32;
inline constexpr std::uint32_t kMaxWindowKib = 16'384;
// Where it is not set (docs/decisions/0036).
inline constexpr std::uint32_t kLiveWindowKib = 512;
inline constexpr std::uint32_t kSimulatedWindowKib = 256;

// Of a page of shared memory in runs. What the kernel protects is no shorter.
inline constexpr std::uint32_t kMinPageBytes = 4096;
// And in simulations of programs with access checks.
inline constexpr std::uint32_t kMinSimulatedPageBytes = 1024;
inline constexpr std::uint32_t kMaxPageBytes = 64 * 1024;

// Why `fragmentation: ip` and af_packet exclude each other, and the cure.
inline constexpr const char kNoFragments[] =
    "over af_packet: the kernel puts fragments together before they arrive and cuts the result, so no long packet "
    "would be received; take transport, or another wire";
// The same of the kernel's UDP.
inline constexpr const char kNoFragmentsOverUdp[] =
    "over the kernel's UDP, which takes whole datagrams only; take transport";

// And of AF_XDP, and AF_PACKET with the kernel's address.
inline constexpr const char kNoFragmentsAtInterface[] =
    "at an interface that keeps the kernel's address: fragments are left to the kernel, since only the first says for which proxy it is; take "
    "transport";

}  // namespace braid::settings
