#include "proxy/daemon/proxy_monitor.h"

#include <algorithm>

#include "base/check.h"

namespace braid::proxy {

ProxyMonitor::ProxyMonitor(const Config& config, Instant now)
    : config_(config), proxies_(config.proxies), observed_(now) {
  for (Proxy& proxy : proxies_) proxy.beat_at = now;
}

Duration ProxyMonitor::observe(Instant now, std::span<const std::uint64_t> heartbeats) {
  CHECK_EQ(heartbeats.size(), proxies_.size());
  const Duration late = now - std::max(observed_, resumes_);
  const Duration gap = late > kControlGap ? late : Duration();
  observed_ = now;
  somebody_runs_ = false;
  for (unsigned p = 0; p < proxies(); ++p) {
    Proxy& proxy = proxies_[p];
    proxy.beat_at = heartbeats[p] != proxy.heartbeat ? now : std::min(now, proxy.beat_at + gap);
    proxy.heartbeat = heartbeats[p];
    somebody_runs_ = somebody_runs_ || (running(p) && now - proxy.beat_at < config_.heartbeat_timeout);
  }
  return gap;
}

bool ProxyMonitor::is_stalled(unsigned p) const {
  return config_.enabled && running(p) && somebody_runs_ &&
         observed_ - proxies_[p].beat_at >= config_.heartbeat_timeout;
}

void ProxyMonitor::fence(unsigned p) {
  Proxy& proxy = proxies_[p];
  CHECK(!proxy.fenced);
  proxy.fenced = true;
  proxy.resumed = false;
  proxy.unsettled = true;
  ++proxy.generation;
  proxy.awaited.clear();
  for (unsigned other = 0; other < proxies(); ++other) {
    if (running(other))
      proxy.awaited.insert(other);
    else
      proxies_[other].awaited.erase(p);
  }
}

ProxyGenerations ProxyMonitor::generations() const {
  ProxyGenerations all{};
  for (unsigned p = 0; p < proxies(); ++p) all[p] = proxies_[p].generation;
  return all;
}

bool ProxyMonitor::awaits_anybody() const {
  return std::any_of(proxies_.begin(), proxies_.end(),
                     [](const Proxy& proxy) { return !proxy.awaited.empty(); });
}

bool ProxyMonitor::may_settle(unsigned p) const {
  return proxies_[p].unsettled && proxies_[p].awaited.empty();
}

bool ProxyMonitor::may_return(unsigned p) const {
  return proxies_[p].fenced && proxies_[p].resumed && proxies_[p].awaited.empty();
}

void ProxyMonitor::take_back(unsigned p) {
  CHECK(may_return(p));
  proxies_[p].fenced = proxies_[p].resumed = false;
}

}  // namespace braid::proxy
