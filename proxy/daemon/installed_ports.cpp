#include "proxy/daemon/installed_ports.h"

#include <utility>

#include "convergence/position.h"

namespace braid::proxy {

void InstalledPorts::add(const End& end) {
  ends_[end.port.value()] = end;
  bits_[end.port.value()].resize(forgotten_.size());
}

PortEntry InstalledPorts::entry(PortId id, unsigned proxy) {
  const End& end = ends_.at(id.value());
  PortEntry port;
  port.id = end.port;
  port.peer = end.peer;
  port.peer_port = end.peer_port;
  port.protocol = end.protocol;
  port.window_granules = end.window_bytes / convergence::kGranuleBytes;
  Bits& reported = bits_.at(id.value())[proxy];
  reported.assign(reported_words(port.window_granules), 0);
  port.reported = reported.data();
  return port;
}

void InstalledPorts::remove(PortId port) {
  ends_.erase(port.value());
  auto node = bits_.extract(port.value());
  if (!node) return;
  for (unsigned p = 0; p < forgotten_.size(); ++p)
    if (Bits& bits = node.mapped()[p]; !bits.empty()) forgotten_[p].push_back(std::move(bits));
}

const InstalledPorts::End* InstalledPorts::find(PortId port) const {
  const auto found = ends_.find(port.value());
  return found == ends_.end() ? nullptr : &found->second;
}

}  // namespace braid::proxy
