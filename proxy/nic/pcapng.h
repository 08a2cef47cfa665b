// Blocks of pcapng files (draft-ietf-opsawg-pcapng), as far as captures are made of them: words of 32 bits, in the order
// of the machine that wrote them.
//
//   type (4) | length (4) | body, filled up to a word | length (4)
#pragma once

#include <cstddef>
#include <cstdint>

namespace braid::proxy::pcapng {

inline constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
inline constexpr std::uint32_t kByteOrderMagic = 0x1a2b3c4d;  // the first word of a section header's body
inline constexpr std::uint32_t kInterfaceDescription =
    1;  // body: link type (2), 2 bytes, snap length (4), options
inline constexpr std::uint32_t kInterfaceStatistics = 5;
inline constexpr std::uint32_t kEnhancedPacket = 6;
inline constexpr std::uint16_t kLinkTypeEthernet = 1;

inline constexpr std::size_t kBlockHeaderBytes = 8;
inline constexpr std::size_t kBlockBytes = 12;  // of a block, besides its body
// The body of an enhanced packet before the frame: interface, time (two words), bytes in the file, bytes of the frame.
inline constexpr std::size_t kPacketFixedBytes = 20;
inline constexpr std::size_t kCapturedBytesAt = 12;
inline constexpr std::size_t kFrameBytesAt = 16;

}  // namespace braid::proxy::pcapng
