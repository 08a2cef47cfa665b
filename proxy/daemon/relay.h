// Carries messages from a proxy that has no live path to their destination to one of the same node that has,
// and their outcome back. A message stays in its client's memory; the lender keeps it until the borrower returns
// it.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "base/local_ring.h"
#include "proxy/daemon/datagram.h"
#include "stack/wire/segment.h"

namespace braid::proxy {

struct Outgoing;

struct RelayedMessage {
  stack::Record record;
  stack::TrainLengths lengths{};
  ClusterId to;
  std::uint32_t bytes = 0;
  std::uint32_t client = 0;  // whose memory holds them; 0: `own` does
  std::uint64_t offset = 0;  // in that memory
  std::array<std::byte, Datagram::kMaxBytes> own{};
  Outgoing* lent = nullptr;             // the lender's; no other proxy reads it
  std::uint32_t generation = 0;         // how often the borrower had been fenced, as far as the lender knew
  std::uint32_t lender_generation = 0;  // and the lender itself
};

struct RelayReturn {
  enum class Outcome : std::uint8_t { kDelivered, kFailed, kNoWay };
  Outgoing* lent = nullptr;
  Outcome outcome = Outcome::kDelivered;
  std::uint32_t generation = 0;
  std::uint32_t lender_generation = 0;
};

// One for each ordered pair of proxies of a node.
struct Relay {
  // A borrower has at most so many of one lender.
  static constexpr std::size_t kMessages = 64;
  LocalRing<RelayedMessage, kMessages> there;
  LocalRing<RelayReturn, 2 * kMessages> back;
};

}  // namespace braid::proxy
