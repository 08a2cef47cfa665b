// The largest machine: the sizes of arrays and of bit sets in all layers.
#pragma once

namespace braid {

inline constexpr unsigned kMaxClusters = 1024;     // a multiple of 64
inline constexpr unsigned kMaxProxies = 32;        // of a cluster
inline constexpr unsigned kMaxComputeNodes = 128;  // of a cluster; a multiple of 64
inline constexpr unsigned kMaxNis = 8;             // of a cluster

}  // namespace braid
