// The machine's clusters as a tree, on which a barrier gathers and an allocation is announced: in the order of their
// numbers from the root on.
//
//           root            position i belongs to cluster (root + i) % clusters; its children have
//        /   |   \          the positions i * fan_out + 1 .. i * fan_out + fan_out
//       1    2    3
//      /|\  /
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

class ClusterTree {
 public:
  // A set of children is one word.
  static constexpr std::uint32_t kMaxFanOut = 63;

  explicit ClusterTree(const EngineConfig& config)
      : self_(config.cluster),
        clusters_(config.clusters),
        fan_out_(std::min({config.barrier_fan_out, std::uint32_t{config.clusters}, kMaxFanOut})) {}

  std::uint32_t fan_out() const { return fan_out_; }
  bool is_root(ClusterId root) const { return root == self_; }
  // Those of this cluster.
  std::uint32_t children(ClusterId root) const {
    const std::uint32_t first = first_child(root);
    return first >= clusters_ ? 0 : std::min(fan_out_, clusters_ - first);
  }
  ClusterId child(ClusterId root, std::uint32_t which) const { return at(root, first_child(root) + which); }
  // Which of this cluster's children it is: children() or more if it is none.
  std::uint32_t which_child(ClusterId root, ClusterId cluster) const {
    return position(root, cluster) - first_child(root);  // wraps where it is above this cluster
  }
  // Not of the root.
  ClusterId parent(ClusterId root) const { return at(root, (position(root, self_) - 1) / fan_out_); }
  // All children, a bit each.
  std::uint64_t all_children(ClusterId root) const { return (std::uint64_t{1} << children(root)) - 1; }

 private:
  std::uint32_t position(ClusterId root, ClusterId cluster) const {
    return (cluster.value() + clusters_ - root.value()) % clusters_;
  }
  std::uint32_t first_child(ClusterId root) const { return position(root, self_) * fan_out_ + 1; }
  ClusterId at(ClusterId root, std::uint32_t position) const {
    return ClusterId(static_cast<std::uint16_t>((root.value() + position) % clusters_));
  }

  const ClusterId self_;
  const std::uint32_t clusters_;
  const std::uint32_t fan_out_;
};

}  // namespace braid::dsm
