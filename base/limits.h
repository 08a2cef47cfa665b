// The largest machine: the sizes of arrays and of bit sets in all layers.
#pragma once

namespace braid {

inline constexpr unsigned kMaxClusters = 64;      // a page's set of copies is one word
inline constexpr unsigned kMaxProxies = 32;       // of a cluster
inline constexpr unsigned kMaxComputeNodes = 64;  // of a cluster
inline constexpr unsigned kMaxNis = 8;            // of a cluster

}  // namespace braid
