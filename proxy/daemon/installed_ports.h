// The connections' ends that the proxies of a node know, and for each proxy the bits that it keeps for one
// (PortEntry::reported).
//
// Owned by the control plane; the bits are lent to proxies.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "convergence/ports.h"
#include "proxy/daemon/port_entry.h"

namespace braid::proxy {

class InstalledPorts {
 public:
  using End = convergence::Ports::End;

  explicit InstalledPorts(unsigned proxies) : forgotten_(proxies) {}

  void add(const End& end);
  // The proxy's entry for a port that was added, without pointers to the client's memory; its bits are clear.
  PortEntry entry(PortId port, unsigned proxy);
  // The proxies were told to remove it. They may use their bits until release().
  void remove(PortId port);
  // The proxy no longer uses the bits of removed ports: it has obeyed, or was fenced and restarted.
  void release(unsigned proxy) { forgotten_[proxy].clear(); }

  // nullptr: there is none.
  const End* find(PortId port) const;
  const std::map<std::uint32_t, End>& all() const { return ends_; }
  // Ports whose bits a proxy may still use although they are removed.
  std::size_t unreleased(unsigned proxy) const { return forgotten_[proxy].size(); }

 private:
  using Bits = std::vector<std::uint64_t>;
  std::map<std::uint32_t, End> ends_;                // by port
  std::map<std::uint32_t, std::vector<Bits>> bits_;  // by port and proxy; empty: the proxy was not told
  std::vector<std::vector<Bits>> forgotten_;         // by proxy
};

}  // namespace braid::proxy
