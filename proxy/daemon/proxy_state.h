// The state of one proxy that the node's other proxies and its control plane read at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/client_ring.h"
#include "proxy/channel/channel.h"

namespace braid::proxy {

struct alignas(kCacheLine) ProxyState {
  // Written by the proxy's thread.
  std::atomic<std::uint64_t> heartbeat{0};  // counts its turns
  // Bit c % 64 of word c / 64: it has a live path to cluster c.
  std::array<std::atomic<std::uint64_t>, kMaxClusters / 64> reaches{};
  // The record that it is about to write to a receive buffer although another proxy may have delivered it:
  // port and position (hazard()), 0: none. While it stands nobody may grant that space again (FO-9).
  std::atomic<std::uint64_t> writing{0};

  // Written by the control plane. A fenced proxy drops everything that it has before it does anything else,
  // and clears `fenced` and `isolated`.
  std::atomic<bool> fenced{false};
  std::atomic<bool> active{true};     // it serves clients
  std::atomic<bool> isolated{false};  // it sees clients' memory through a private copy from now on

  bool reaches_cluster(ClusterId cluster) const {
    return (reaches[cluster.value() / 64].load(std::memory_order_relaxed) >> cluster.value() % 64 & 1) != 0;
  }
};
using ProxyStates = std::array<ProxyState, kMaxProxies>;

constexpr std::uint64_t hazard(PortId port, Position position) {
  return std::uint64_t{port.value()} << 32 | position.value();
}

// FO-9: no proxy is writing to what the position grants.
inline bool may_grant(const ProxyStates& states, unsigned proxies, PortId port, Position position) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (unsigned p = 0; p < proxies; ++p) {
    const std::uint64_t writing = states[p].writing.load(std::memory_order_relaxed);
    if (writing >> 32 == port.value() && position - Position(static_cast<std::uint32_t>(writing)) > 0 &&
        !states[p].isolated.load(std::memory_order_acquire))
      return false;
  }
  return true;
}

}  // namespace braid::proxy
