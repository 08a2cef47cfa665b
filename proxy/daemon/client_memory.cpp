#include "proxy/daemon/client_memory.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/system_error.h"
#include "convergence/position.h"

namespace braid::proxy {

Result<ChannelGeometry> channel_geometry(const control::Attach& request, unsigned proxies,
                                         const settings::ChannelConfig& channel, const TrainLimits& train) {
  if (request.receive_bytes < convergence::kMinWindowBytes || request.receive_bytes > kMaxReceiveBytes)
    return error("receive_bytes is {}: ask for 4 KiB to 1 GiB per endpoint", request.receive_bytes);
  const std::uint64_t per_endpoint = round_up(request.receive_bytes, convergence::kMinWindowBytes);
  ChannelGeometry g;
  g.endpoints = static_cast<std::uint16_t>(std::min<std::uint32_t>(request.endpoints, kMaxEndpoints + 1));
  g.proxies = static_cast<std::uint16_t>(proxies);
  g.train = train;
  g.send_bytes = request.send_bytes;
  g.arrivals = channel.arrival_descriptors != 0
                   ? channel.arrival_descriptors
                   : std::bit_ceil(static_cast<std::uint32_t>(per_endpoint / convergence::kGranuleBytes));
  g.send_descriptors = channel.send_descriptors != 0
                           ? channel.send_descriptors
                           : std::bit_ceil(std::clamp(g.send_bytes / 128, 256u, 8192u));
  g.receive_bytes = per_endpoint * g.endpoints;
  g.connections = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(g.receive_bytes / convergence::kMinWindowBytes, 1, kMaxConnections));
  if (const std::string problem = g.problem(); !problem.empty()) return Error{problem};
  return g;
}

Result<std::unique_ptr<ClientMemory>> ClientMemory::create(const ChannelGeometry& geometry, unsigned proxies,
                                                           const MakeRegion& make_region) {
  const std::uint64_t bytes = geometry.total_bytes();
  Result<std::unique_ptr<SharedRegion>> region = make_region(bytes);
  if (!region) return region.error();
  std::unique_ptr<ClientMemory> memory(new ClientMemory(geometry, std::move(region).value()));
  memory->own_ = RegionView(memory->region_);
  if (memory->own_.begin() == nullptr)
    return error("cannot map {} bytes for the channels: {}", bytes, cause_and_cure(errno));
  memory->views_.resize(proxies);
  for (unsigned p = 0; p < proxies; ++p)
    if (!memory->map(p))
      return error("cannot map {} bytes for proxy {}: {}", bytes, p, cause_and_cure(errno));
  return memory;
}

RegionView ClientMemory::isolate(unsigned proxy) {
  if (view(proxy) == nullptr) return {};
  views_[proxy].isolate();
  return std::exchange(views_[proxy], {});
}

bool ClientMemory::map(unsigned proxy) {
  if (view(proxy) == nullptr) views_[proxy] = RegionView(region_);
  return view(proxy) != nullptr;
}

}  // namespace braid::proxy
