// Where the paths of a node lead: the other end of each, by cluster, and why one does not come up. And of
// clusters of other machines, which come and go: which proxies have not dropped yet what they had of one.
//
// Pure. Owned by the control plane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "convergence/paths.h"
#include "stack/stack.h"

namespace braid::proxy {

// The other end of one path.
struct RemotePath {
  convergence::PathId path;
  stack::RemoteStack stack;
  std::optional<stack::Unreachable> unreachable = std::nullopt;  // the last word of a host on the way
};

class RemotePaths {
 public:
  void add(RemotePath path) { paths_[path.path.cluster.value()].push_back(std::move(path)); }
  void erase(ClusterId cluster);
  // Those with a cluster; none if it is not known.
  const std::vector<RemotePath>& of(ClusterId cluster) const;
  // Known ones, in ascending order.
  std::vector<ClusterId> clusters() const;

  void set_unreachable(const convergence::PathId& path, stack::Unreachable reason);
  // The paths to a cluster that are not up, and why, as far as a refusal has room; empty: all are.
  std::string problems(ClusterId cluster, const std::function<bool(const convergence::PathId&)>& is_up) const;

  // The cluster is left: those proxies will say when they have dropped what they had of it.
  void drain(ClusterId cluster, std::set<unsigned> proxies) {
    draining_[cluster.value()] = std::move(proxies);
  }
  bool draining(ClusterId cluster) const { return draining_.contains(cluster.value()); }
  void drained(ClusterId cluster, unsigned proxy);
  // The proxy is stalled: it has dropped everything.
  void proxy_fenced(unsigned proxy);
  // Clusters that are left, and that no proxy has anything of.
  std::vector<ClusterId> drained() const;

 private:
  std::map<std::uint16_t, std::vector<RemotePath>> paths_;  // by cluster
  std::map<std::uint16_t, std::set<unsigned>> draining_;    // by cluster: proxies that have not answered
};

}  // namespace braid::proxy
