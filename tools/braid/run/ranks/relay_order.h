// What a `braid-node --relay` is told: a file in memory that only it has.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tools/braid/run/ranks/tls_connection.h"

namespace braid::cli {

struct RelayOrder {
  unsigned rank;        // that it connects to
  std::string address;  // IPv4
  std::uint16_t port;
  TlsIdentity own;
  std::string certificate_of_peer;
};
std::string text_of(const RelayOrder& order);
Result<RelayOrder> read_relay_order(const std::string& text);

}  // namespace braid::cli
