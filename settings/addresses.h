// Declares settings whose values are addresses.
#pragma once

#include <string>

#include "settings/setting.h"

namespace braid::settings {

bool is_host(const std::string& text);  // the IPv4 address of one host, dotted
bool is_host_or_empty(const std::string& text);
bool is_station(const std::string& text);  // the Ethernet address of one station
bool is_station_or_empty(const std::string& text);

constexpr Setting host(Setting s) {
  s.allowed = "one host's IPv4 address, e.g. 10.98.0.1";
  s.fits = s.required ? is_host : is_host_or_empty;
  return s;
}
constexpr Setting station(Setting s) {
  s.allowed = "one station's address in quotes, e.g. \"02:62:72:64:00:01\"";
  s.fits = is_station_or_empty;
  return s;
}

}  // namespace braid::settings
