// The addresses of Ethernet and IPv4 as values: compared, printed and read from text.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace braid::stack {

class MacAddress {
 public:
  static constexpr std::size_t kBytes = 6;

  // 00:00:00:00:00:00, which no station has: "not known" in ARP.
  constexpr MacAddress() = default;
  constexpr MacAddress(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint8_t e,
                       std::uint8_t f)
      : octets_{a, b, c, d, e, f} {}
  static constexpr MacAddress broadcast() { return {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}; }
  // Exactly six pairs of hexadecimal digits between colons; anything else is nullopt.
  static std::optional<MacAddress> parse(std::string_view text);

  // kBytes lie at `p`.
  static MacAddress load(const std::byte* p) {
    MacAddress mac;
    std::memcpy(mac.octets_.data(), p, kBytes);
    return mac;
  }
  void store(std::byte* p) const { std::memcpy(p, octets_.data(), kBytes); }

  // For one station? Multicast and broadcast have the lowest bit of the first octet set.
  constexpr bool is_unicast() const { return (octets_[0] & 1) == 0 && *this != MacAddress(); }
  constexpr bool is_broadcast() const { return *this == broadcast(); }
  constexpr const std::array<std::uint8_t, kBytes>& octets() const { return octets_; }
  constexpr auto operator<=>(const MacAddress&) const = default;
  std::string to_string() const;

 private:
  std::array<std::uint8_t, kBytes> octets_{};
};

// Held as a number in host order: 10.0.0.1 is 0x0a000001.
class Ipv4Address {
 public:
  static constexpr std::size_t kBytes = 4;

  // 0.0.0.0: "none".
  constexpr Ipv4Address() = default;
  explicit constexpr Ipv4Address(std::uint32_t host_order) : value_(host_order) {}
  constexpr Ipv4Address(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d)
      : value_(std::uint32_t{a} << 24 | std::uint32_t{b} << 16 | std::uint32_t{c} << 8 | d) {}
  // Four decimal numbers 0..255 between dots, without leading zeros (010 means 8 to some readers).
  static std::optional<Ipv4Address> parse(std::string_view text);

  // kBytes lie at `p`, in the wire's order.
  static Ipv4Address load(const std::byte* p) { return Ipv4Address(load_be<std::uint32_t>(p)); }
  void store(std::byte* p) const { store_be<std::uint32_t>(p, value_); }

  constexpr std::uint32_t value() const { return value_; }
  constexpr bool is_unspecified() const { return value_ == 0; }
  constexpr bool is_multicast() const { return value_ >> 28 == 0xe; }
  // The limited broadcast only: a subnet's needs its mask.
  constexpr bool is_broadcast() const { return value_ == 0xffffffff; }
  // May one host have it?
  constexpr bool is_unicast() const { return !is_unspecified() && !is_multicast() && !is_broadcast(); }
  constexpr auto operator<=>(const Ipv4Address&) const = default;
  std::string to_string() const;

 private:
  std::uint32_t value_ = 0;
};

}  // namespace braid::stack

template <>
struct std::hash<braid::stack::Ipv4Address> {
  std::size_t operator()(braid::stack::Ipv4Address a) const noexcept {
    return std::hash<std::uint32_t>{}(a.value());
  }
};
