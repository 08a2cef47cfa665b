#include "proxy/daemon/window_space.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/bytes.h"
#include "base/check.h"
#include "convergence/position.h"

namespace braid::proxy {

using convergence::Ports;
namespace {

// The most granules of all windows of an endpoint together.
std::uint32_t granules_of_windows(const ChannelGeometry& geometry) {
  const std::uint64_t bytes = geometry.receive_bytes / geometry.endpoints;
  return std::bit_ceil(static_cast<std::uint32_t>(bytes / convergence::kGranuleBytes));
}

}  // namespace

WindowSpace::WindowSpace(const ChannelGeometry& geometry)
    : cells_(geometry.connections, false), granules_left_(geometry.endpoints, granules_of_windows(geometry)) {
  free_[geometry.receive_buffers()] = round_up(geometry.receive_bytes, 4096);
}

std::optional<Ports::Grant> WindowSpace::grant(std::uint32_t endpoint, std::uint32_t window_bytes) {
  std::uint32_t& left = granules_left_[endpoint];
  const std::uint32_t granules = window_bytes / convergence::kGranuleBytes;
  if (left < granules) return std::nullopt;
  const auto cell = std::find(cells_.begin(), cells_.end(), false);
  const auto space =
      std::find_if(free_.begin(), free_.end(), [&](const auto& hole) { return hole.second >= window_bytes; });
  if (cell == cells_.end() || space == free_.end()) return std::nullopt;
  const std::uint64_t offset = space->first;
  const std::uint64_t rest = space->second - window_bytes;
  free_.erase(space);
  if (rest > 0) free_[offset + window_bytes] = rest;
  *cell = true;
  left -= granules;
  return Ports::Grant{static_cast<std::uint32_t>(cell - cells_.begin()), offset};
}

void WindowSpace::give_back(std::uint32_t endpoint, const Ports::Grant& grant, std::uint32_t window_bytes) {
  CHECK(cells_[grant.cell]);
  cells_[grant.cell] = false;
  granules_left_[endpoint] += window_bytes / convergence::kGranuleBytes;
  auto hole = free_.emplace(grant.window_offset, window_bytes).first;
  if (const auto after = std::next(hole);
      after != free_.end() && hole->first + hole->second == after->first) {
    hole->second += after->second;
    free_.erase(after);
  }
  if (hole == free_.begin()) return;
  if (const auto before = std::prev(hole); before->first + before->second == hole->first) {
    before->second += hole->second;
    free_.erase(hole);
  }
}

std::uint64_t WindowSpace::longest_free_bytes() const {
  std::uint64_t longest = 0;
  for (const auto& [offset, bytes] : free_) longest = std::max(longest, bytes);
  return longest;
}

}  // namespace braid::proxy
