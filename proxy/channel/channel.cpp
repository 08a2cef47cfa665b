#include "proxy/channel/channel.h"

#include <fmt/core.h>

#include <bit>
#include <string>

#include "base/bytes.h"
#include "convergence/position.h"

namespace braid::proxy {
namespace {

constexpr std::uint64_t kPage = 4096;
// The most memory of one client: far above any use, far below a host's memory.
constexpr std::uint64_t kMaxTotalBytes = 4ull << 30;

}  // namespace

std::uint64_t ChannelGeometry::lane_bytes() const {
  return round_up(ring_bytes<SendDescriptor>(send_descriptors), kCacheLine) +
         round_up(send_bytes, kCacheLine) + round_up(ring_bytes<ArrivalDescriptor>(arrivals), kCacheLine);
}

std::uint64_t ChannelGeometry::endpoint_bytes() const {
  return round_up(kCacheLine + proxies * lane_bytes(), kPage);
}

std::uint64_t ChannelGeometry::doorbell(unsigned endpoint) const {
  return endpoint * endpoint_bytes();
}

std::uint64_t ChannelGeometry::send_ring(unsigned endpoint, unsigned proxy) const {
  return doorbell(endpoint) + kCacheLine + proxy * lane_bytes();
}

std::uint64_t ChannelGeometry::send_data(unsigned endpoint, unsigned proxy) const {
  return send_ring(endpoint, proxy) + round_up(ring_bytes<SendDescriptor>(send_descriptors), kCacheLine);
}

std::uint64_t ChannelGeometry::arrival_ring(unsigned endpoint, unsigned proxy) const {
  return send_data(endpoint, proxy) + round_up(send_bytes, kCacheLine);
}

std::uint64_t ChannelGeometry::cell(unsigned connection) const {
  return endpoints * endpoint_bytes() + connection * sizeof(PortCell);
}

std::uint64_t ChannelGeometry::receive_buffers() const {
  return round_up(cell(connections), kPage);
}

std::uint64_t ChannelGeometry::total_bytes() const {
  return receive_buffers() + round_up(receive_bytes, kPage);
}

std::string ChannelGeometry::problem() const {
  if (endpoints < 1 || endpoints > kMaxEndpoints)
    return fmt::format("endpoints is {}: ask for 1 to {}", endpoints, kMaxEndpoints);
  if (proxies < 1 || proxies > kMaxProxies)
    return fmt::format("proxies is {}: 1 to {}", proxies, kMaxProxies);
  if (!std::has_single_bit(send_descriptors) || !std::has_single_bit(arrivals) || arrivals > (1u << 24))
    return "a ring's capacity is not a power of two, or too large";
  if (send_bytes < 65536 || send_bytes > (1u << 30) || send_bytes % convergence::kGranuleBytes != 0)
    return fmt::format("send_bytes is {}: ask for 64 KiB to 1 GiB, a multiple of 64", send_bytes);
  if (connections < 1 || connections > kMaxConnections)
    return fmt::format("connections is {}: 1 to {}", connections, kMaxConnections);
  if (receive_bytes > kMaxTotalBytes || total_bytes() > kMaxTotalBytes)
    return fmt::format(
        "the channels would take more than {} MiB: ask for fewer endpoints or less receive_bytes",
        kMaxTotalBytes >> 20);
  return {};
}

}  // namespace braid::proxy
