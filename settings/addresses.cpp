#include "settings/addresses.h"

#include "stack/wire/addresses.h"

namespace braid::settings {

bool is_host(const std::string& text) {
  const auto address = stack::Ipv4Address::parse(text);
  return address && address->is_unicast();
}

bool is_host_or_empty(const std::string& text) {
  return text.empty() || is_host(text);
}

bool is_station(const std::string& text) {
  const auto mac = stack::MacAddress::parse(text);
  return mac && mac->is_unicast();
}

bool is_station_or_empty(const std::string& text) {
  return text.empty() || is_station(text);
}

}  // namespace braid::settings
