// Ports that are being drained: which proxies have not yet answered that everything that was handed over for the
// port has been sent. If a lane moves meanwhile, its new server answers too.
//
// Pure. Owned by the control plane.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"

namespace braid::proxy {

class PortDrains {
 public:
  // One more answer of that proxy is awaited.
  void await(PortId port, unsigned proxy) { awaited_[port.value()].push_back(proxy); }
  // An answer. True: it was the last, and the port is no longer drained.
  [[nodiscard]] bool answered(PortId port, unsigned proxy) {
    const auto found = awaited_.find(port.value());
    if (found == awaited_.end()) return false;
    std::vector<unsigned>& awaited = found->second;
    if (const auto it = std::find(awaited.begin(), awaited.end(), proxy); it != awaited.end())
      awaited.erase(it);
    if (!awaited.empty()) return false;
    awaited_.erase(found);
    return true;
  }
  // Others answer in the proxy's place: one answer of each is awaited instead of all of its. Returns the ports
  // that it was to answer for.
  std::vector<PortId> replace(unsigned proxy, const std::vector<unsigned>& others) {
    std::vector<PortId> ports;
    for (auto& [port, awaited] : awaited_) {
      if (std::erase(awaited, proxy) == 0) continue;
      awaited.insert(awaited.end(), others.begin(), others.end());
      ports.push_back(PortId(port));
    }
    return ports;
  }
  // All that are being drained.
  std::vector<PortId> ports() const {
    std::vector<PortId> all;
    for (const auto& [port, awaited] : awaited_) all.push_back(PortId(port));
    return all;
  }

 private:
  std::map<std::uint32_t, std::vector<unsigned>>
      awaited_;  // by port: proxies, one that is to answer twice twice
};

}  // namespace braid::proxy
