// How large a machine may be: what arrays and words of bits are sized by, in every layer.
#pragma once

namespace braid {

inline constexpr unsigned kMaxClusters = 64;      // a page's set of copies is one word
inline constexpr unsigned kMaxProxies = 32;       // of a cluster
inline constexpr unsigned kMaxComputeNodes = 64;  // of a cluster
inline constexpr unsigned kMaxNis = 8;            // of a cluster

}  // namespace braid
