#include "proxy/daemon/remote_paths.h"

#include <fmt/core.h>

namespace braid::proxy {
namespace {

// The most bytes of a refusal's text that list paths.
constexpr std::size_t kProblemsBytes = 100;

}  // namespace

void RemotePaths::erase(ClusterId cluster) {
  paths_.erase(cluster.value());
  draining_.erase(cluster.value());
}

const std::vector<RemotePath>& RemotePaths::of(ClusterId cluster) const {
  static const std::vector<RemotePath> none;
  const auto found = paths_.find(cluster.value());
  return found == paths_.end() ? none : found->second;
}

std::vector<ClusterId> RemotePaths::clusters() const {
  std::vector<ClusterId> all;
  for (const auto& [cluster, paths] : paths_) all.push_back(ClusterId(cluster));
  return all;
}

void RemotePaths::set_unreachable(const convergence::PathId& path, stack::Unreachable reason) {
  const auto found = paths_.find(path.cluster.value());
  if (found == paths_.end()) return;
  for (RemotePath& r : found->second)
    if (r.path == path) r.unreachable = reason;
}

std::string RemotePaths::problems(ClusterId cluster,
                                  const std::function<bool(const convergence::PathId&)>& is_up) const {
  std::string text;
  for (const RemotePath& r : of(cluster)) {
    if (is_up(r.path)) continue;
    const std::string one =
        fmt::format("{}{}:{} {}", text.empty() ? "" : ", ", r.stack.address.to_string(), r.stack.udp_port,
                    r.unreachable ? stack::to_string(*r.unreachable) : "is silent");
    if (text.size() + one.size() > kProblemsBytes) return text + ", …";
    text += one;
  }
  return text;
}

void RemotePaths::drained(ClusterId cluster, unsigned proxy) {
  if (const auto draining = draining_.find(cluster.value()); draining != draining_.end())
    draining->second.erase(proxy);
}

void RemotePaths::proxy_fenced(unsigned proxy) {
  for (auto& [cluster, awaited] : draining_) awaited.erase(proxy);
}

std::vector<ClusterId> RemotePaths::drained() const {
  std::vector<ClusterId> all;
  for (const auto& [cluster, awaited] : draining_)
    if (awaited.empty()) all.push_back(ClusterId(cluster));
  return all;
}

}  // namespace braid::proxy
