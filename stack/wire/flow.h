// The parts that are equal in all packets of a flow, computed once: the headers of departing packets, and a
// filter for arriving ones. They are a fast path for the common packets; the general parsers and writers decide
// about all others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "stack/wire/addresses.h"
#include "stack/wire/checksum.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace braid::stack {

inline constexpr std::size_t kFlowHeaderBytes = kEthernetHeaderBytes + kIpv4HeaderBytes + kUdpHeaderBytes;

namespace detail {
// Where fields lie in a frame whose IPv4 header has no options.
inline constexpr std::size_t kIpAt = kEthernetHeaderBytes;
inline constexpr std::size_t kTypeAt = kIpAt - 2;
inline constexpr std::size_t kIpLengthAt = kIpAt + 2;
inline constexpr std::size_t kIpFragmentAt = kIpAt + 6;
inline constexpr std::size_t kIpLifeAt = kIpAt + 8;
inline constexpr std::size_t kIpChecksumAt = kIpAt + 10;
inline constexpr std::size_t kIpSourceAt = kIpAt + 12;
inline constexpr std::size_t kIpDestinationAt = kIpAt + 16;
inline constexpr std::size_t kUdpAt = kIpAt + kIpv4HeaderBytes;
inline constexpr std::size_t kUdpToAt = kUdpAt + 2;
inline constexpr std::size_t kUdpLengthAt = kUdpAt + 4;
inline constexpr std::size_t kUdpChecksumAt = kUdpAt + 6;

inline std::uint64_t mac_of(const std::byte* p) {
  return load<std::uint64_t>(p) & 0x0000'ffff'ffff'ffff;
}
inline std::uint64_t addresses_sum(const std::byte* frame) {
  return std::uint64_t{load<std::uint32_t>(frame + kIpSourceAt)} +
         load<std::uint32_t>(frame + kIpDestinationAt);
}
inline std::uint64_t ip_header_sum(const std::byte* frame) {
  return std::uint64_t{load<std::uint32_t>(frame + kIpAt)} + load<std::uint32_t>(frame + kIpAt + 4) +
         load<std::uint32_t>(frame + kIpAt + 8) + addresses_sum(frame);
}
inline constexpr std::uint16_t kUdpWord = swapped(static_cast<std::uint16_t>(IpProtocol::kUdp));
}  // namespace detail

// The headers of whole UDP packets from one place to another. Only lengths and checksums differ.
class FlowHeader {
 public:
  FlowHeader() = default;
  FlowHeader(const MacAddress& to, const MacAddress& from, const UdpFields& udp) : to_(to) {
    write_ethernet(bytes_, to, from, EtherType::kIpv4);
    write_ipv4(MutableBytes(bytes_).subspan(detail::kIpAt),
               {.source = udp.source, .destination = udp.destination});
    write_udp(MutableBytes(bytes_).subspan(detail::kUdpAt), udp, 0);
    store(bytes_.data() + detail::kIpLengthAt, std::uint16_t{0});
    store(bytes_.data() + detail::kIpChecksumAt, std::uint16_t{0});
    ip_sum_ = detail::ip_header_sum(bytes_.data());
    udp_sum_ = detail::addresses_sum(bytes_.data()) + detail::kUdpWord +
               load<std::uint16_t>(bytes_.data() + detail::kUdpAt) +
               load<std::uint16_t>(bytes_.data() + detail::kUdpToAt);
  }

  const MacAddress& to() const { return to_; }
  // Before the payload, whose sum (checksum_add, copy_and_sum) is `payload_sum`. `at` has room for
  // kFlowHeaderBytes; with payload_bytes at most kUdpMaxPayloadBytes.
  void write(std::byte* at, std::size_t payload_bytes, std::uint64_t payload_sum) const {
    const auto udp_length = swapped(static_cast<std::uint16_t>(kUdpHeaderBytes + payload_bytes));
    const auto ip_length =
        swapped(static_cast<std::uint16_t>(kIpv4HeaderBytes + kUdpHeaderBytes + payload_bytes));
    std::memcpy(at, bytes_.data(), kFlowHeaderBytes);
    store(at + detail::kIpLengthAt, ip_length);
    store(at + detail::kIpChecksumAt, checksum_field(ip_sum_ + ip_length));
    store(at + detail::kUdpLengthAt, udp_length);
    // Its length counts twice, in the pseudo header and in the real one.
    const std::uint16_t field =
        checksum_field(checksum_combine(udp_sum_ + 2u * std::uint64_t{udp_length}, payload_sum));
    store(at + detail::kUdpChecksumAt, field == 0 ? std::uint16_t{0xffff} : field);  // UDP-1
  }

 private:
  MacAddress to_;
  std::array<std::byte, kFlowHeaderBytes> bytes_{};
  std::uint64_t ip_sum_ = 0;   // of the IPv4 header without length and checksum
  std::uint64_t udp_sum_ = 0;  // of the pseudo header and the ports, without lengths
};

// A frame that is one whole UDP packet with a checksum, without options, to one port of one station.
class FlowFilter {
 public:
  FlowFilter(const MacAddress& mac, Ipv4Address address, std::uint16_t port)
      : address_(swapped(address.value())), port_(swapped(port)) {
    std::array<std::byte, 8> bytes{};
    mac.store(bytes.data());
    mac_ = detail::mac_of(bytes.data());
  }

  // If it is such a frame, and right in all that its headers and checksums say, its payload; else a view of
  // nothing at nullptr, which says only that the general parsers must look. `source` is who sent it.
  ByteView match(ByteView frame, Ipv4Address& source) const {
    using namespace detail;
    if (frame.size() < kFlowHeaderBytes) return {};
    const std::byte* const p = frame.data();
    constexpr std::uint32_t kIpv4WithoutOptions = swapped(std::uint32_t{0x0800'4500});
    constexpr std::uint16_t kDontFragment = swapped(std::uint16_t{0x4000});
    const auto length = load_be<std::uint16_t>(p + kIpLengthAt);
    const auto udp_length = load_be<std::uint16_t>(p + kUdpLengthAt);
    const bool looks_right =
        mac_of(p) == mac_ &&
        (load<std::uint32_t>(p + kTypeAt) & swapped(std::uint32_t{0xffff'ff00})) == kIpv4WithoutOptions &&
        (load<std::uint16_t>(p + kIpFragmentAt) & static_cast<std::uint16_t>(~kDontFragment)) == 0 &&
        p[kIpLifeAt] != std::byte{0} && p[kIpLifeAt + 1] == std::byte{17} &&
        load<std::uint32_t>(p + kIpDestinationAt) == address_ && load<std::uint16_t>(p + kUdpToAt) == port_ &&
        udp_length >= kUdpHeaderBytes && length == udp_length + kIpv4HeaderBytes &&
        kIpAt + length <= frame.size() && load<std::uint16_t>(p + kUdpChecksumAt) != 0;
    if (!looks_right || !checksum_is_right(ip_header_sum(p))) return {};
    const std::uint64_t pseudo = addresses_sum(p) + kUdpWord + load<std::uint16_t>(p + kUdpLengthAt);
    if (!checksum_is_right(checksum_add(pseudo, frame.subspan(kUdpAt, udp_length)))) return {};
    source = Ipv4Address::load(p + kIpSourceAt);
    return {p + kFlowHeaderBytes, udp_length - kUdpHeaderBytes};
  }
  // The UDP port that a frame which matched came from.
  static std::uint16_t source_port(ByteView frame) {
    return load_be<std::uint16_t>(frame.data() + detail::kUdpAt);
  }

 private:
  std::uint64_t mac_;
  std::uint32_t address_;  // as they lie on the wire
  std::uint16_t port_;
};

}  // namespace braid::stack
