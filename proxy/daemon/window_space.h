// Allocates parts of a client's memory to connections: cells, receive buffers, and shares of the endpoints'
// rings of arrivals.
//
// Pure: it counts, and touches no memory. Owned by the control plane.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "convergence/ports.h"
#include "proxy/channel/channel.h"

namespace braid::proxy {

class WindowSpace {
 public:
  explicit WindowSpace(const ChannelGeometry& geometry);

  // A cell, and a buffer of so many bytes (a multiple of a granule) among those that are free; the endpoint's
  // rings of arrivals have an entry for every granule of it. nullopt: one of the three is not there.
  std::optional<convergence::Ports::Grant> grant(std::uint32_t endpoint, std::uint32_t window_bytes);
  // The same endpoint and bytes as when it was granted.
  void give_back(std::uint32_t endpoint, const convergence::Ports::Grant& grant, std::uint32_t window_bytes);

  // The granules of the endpoint's rings of arrivals that are not yet allocated.
  std::uint32_t granules_left(std::uint32_t endpoint) const { return granules_left_[endpoint]; }
  // The longest buffer that can be granted.
  std::uint64_t longest_free_bytes() const;

 private:
  std::vector<bool> cells_;                      // taken
  std::vector<std::uint32_t> granules_left_;     // by endpoint
  std::map<std::uint64_t, std::uint64_t> free_;  // offset, bytes; no two touch
};

}  // namespace braid::proxy
