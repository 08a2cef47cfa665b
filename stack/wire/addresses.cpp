#include "stack/wire/addresses.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

namespace braid::stack {
namespace {

// One number of an address that is separated by `separator` from what follows; moves `text` past both.
std::optional<std::uint8_t> take_octet(std::string_view& text, int base, std::size_t max_digits,
                                       char separator) {
  const std::size_t digits = std::min(text.find(separator), text.size());
  if (digits == 0 || digits > max_digits) return std::nullopt;
  std::uint8_t value = 0;
  const char* const end = text.data() + digits;
  const auto [parsed_to, failure] = std::from_chars(text.data(), end, value, base);
  if (failure != std::errc() || parsed_to != end) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  if (text.size() != 3 * kBytes - 1) return std::nullopt;
  MacAddress mac;
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (i > 0 && !take(text, ':')) return std::nullopt;
    const auto octet = take_octet(text, 16, 2, ':');
    if (!octet) return std::nullopt;
    mac.octets_[i] = *octet;
  }
  return text.empty() ? std::optional(mac) : std::nullopt;
}

std::string MacAddress::to_string() const {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", octets_[0], octets_[1], octets_[2],
                     octets_[3], octets_[4], octets_[5]);
}

std::optional<Ipv4Address> Ipv4Address::parse(std::string_view text) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (i > 0 && !take(text, '.')) return std::nullopt;
    const bool leading_zero = text.size() > 1 && text[0] == '0' && text[1] != '.';
    const auto octet = take_octet(text, 10, 3, '.');
    if (!octet || leading_zero) return std::nullopt;
    value = value << 8 | *octet;
  }
  return text.empty() ? std::optional(Ipv4Address(value)) : std::nullopt;
}

std::string Ipv4Address::to_string() const {
  return fmt::format("{}.{}.{}.{}", value_ >> 24, value_ >> 16 & 0xff, value_ >> 8 & 0xff, value_ & 0xff);
}

}  // namespace braid::stack
