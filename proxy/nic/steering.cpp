#include "proxy/nic/steering.h"

#include <rte_thash.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace braid::proxy {
namespace {

constexpr std::size_t kTupleBytes = 12;
constexpr std::size_t kShortestKeyBytes = kTupleBytes + 4;

Result<void> add_flow_rules(SteerablePort& port, std::uint16_t first_udp_port, unsigned queues) {
  for (unsigned q = 0; q < queues; ++q) {
    if (Result<void> added = port.add_flow_rule(static_cast<std::uint16_t>(first_udp_port + q), q); !added) {
      port.remove_flow_rules();  // half of them would only hide that hand-off has to do the rest
      return added;
    }
  }
  return {};
}

Result<RssHash> usable_hash(SteerablePort& port) {
  Result<RssHash> hash = port.rss_hash();
  if (!hash) return hash;
  if (hash->key.size() < kShortestKeyBytes)
    return error("its key has {} bytes, fewer than {}", hash->key.size(), kShortestKeyBytes);
  if (!std::has_single_bit(hash->table.size()))
    return error("its redirection table has {} entries, not a power of two", hash->table.size());
  return hash;
}

Error unavailable(Steering wanted, const Error& why) {
  return error(
      "steering: {} is not available: {}; set steering: auto, which takes the best that the port offers",
      to_string(wanted), why.text);
}

}  // namespace

unsigned queue_of(const RssHash& hash, const UdpFlow& flow) {
  CHECK_GE(hash.key.size(), kShortestKeyBytes);
  CHECK(std::has_single_bit(hash.table.size()));
  // The hash reads the tuple as words of the host, most significant bit first.
  std::uint32_t words[] = {flow.source, flow.destination,
                           std::uint32_t{flow.source_port} << 16 | flow.destination_port};
  static_assert(sizeof words == kTupleBytes);
  alignas(4) std::uint8_t key[kShortestKeyBytes];
  std::copy_n(hash.key.begin(), kShortestKeyBytes, key);
  return hash.table[rte_softrss(words, std::size(words), key) & (hash.table.size() - 1)];
}

// Tried one by one, a few hundred hashes at set-up, because rte_thash_adjust_tuple() wants a key of its own
// in the NIC.
std::optional<std::uint16_t> source_port_for(const RssHash& hash, UdpFlow flow, unsigned queue,
                                             std::uint16_t first, unsigned count) {
  CHECK_LE(first + count, 65536u);
  for (unsigned n = 0; n < count; ++n) {
    flow.source_port = static_cast<std::uint16_t>(first + n);
    if (queue_of(hash, flow) == queue) return flow.source_port;
  }
  return std::nullopt;
}

Result<Steered> steer(SteerablePort& port, Steering wanted, std::uint16_t first_udp_port, unsigned queues) {
  if (wanted == Steering::kAuto || wanted == Steering::kFlow) {
    const Result<void> added = add_flow_rules(port, first_udp_port, queues);
    if (added) return Steered{.way = Steering::kFlow, .hash = {}};
    if (wanted == Steering::kFlow) return unavailable(wanted, added.error());
  }
  if (wanted == Steering::kAuto || wanted == Steering::kRss) {
    Result<RssHash> hash = usable_hash(port);
    if (hash) return Steered{.way = Steering::kRss, .hash = std::move(hash).value()};
    if (wanted == Steering::kRss) return unavailable(wanted, hash.error());
  }
  return Steered{};
}

}  // namespace braid::proxy
