// How packets reach each remote: link, next hop, station and headers; and what ICMP reported about it.
//
// Remotes are numbered as the stack's sub-connections are. Pure; owned by the stack. Nothing is allocated
// after the last add().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "stack/agenda.h"
#include "stack/interface.h"
#include "stack/neighbours.h"
#include "stack/remote.h"
#include "stack/udp_ports.h"
#include "stack/wire/addresses.h"
#include "stack/wire/flow.h"

namespace braid::stack {

struct Route {
  RemoteStack remote;
  Ipv4Address next_hop;                 // on the link: the remote itself, or the gateway
  FlowHeader header{};                  // of its packets, to the station that the last lookup gave
  std::uint16_t asked_source_port = 0;  // that `header` was made for
  bool is_static = false;               // its station is a static neighbour, and `header` is made for it
  bool unresolved = false;              // the last lookup gave nothing
  PathReport report{};

  // Is `header` right for packets from the source port that the remote asked for, without a lookup?
  bool is_ready(std::uint16_t asked) const { return is_static && asked_source_port == asked; }
};

// The first step of a packet to some address.
struct Hop {
  LinkId link;
  Ipv4Address next;
};

class Remotes {
 public:
  // Both outlive it.
  Remotes(std::span<const Interface> links, const UdpPorts& ports) : links_(links), ports_(ports) {}
  void reserve(std::size_t remotes) { remotes_.reserve(remotes); }

  // A link MUST lead to it, unless it is absent.
  void add(const RemoteStack& remote);
  // Gives a route another remote, whose station is looked up anew by ARP. False, and nothing is changed: its
  // link does not lead to that address.
  [[nodiscard]] bool replace(std::size_t index, const RemoteStack& remote);

  // The remote of a route has another address, and the same station before it.
  void move(std::size_t index, const Endpoint& to);
  // Headers of a packet that goes to another address than the rest of a route's, which is_ready().
  FlowHeader header_to(const Route& route, const Endpoint& to) const;

  const Route& operator[](std::size_t index) const { return remotes_[index]; }
  std::size_t size() const { return remotes_.size(); }

  // Makes the header for the route's station of now, and for that source port. False: ARP has not answered
  // yet.
  [[nodiscard]] bool resolve(std::size_t index, std::uint16_t asked_source_port, Neighbours& neighbours,
                             Instant now);

  // How a packet reaches an address: as those to a remote at that address do; else by the link that has the
  // address; else by one with a gateway. nullopt: by no link.
  std::optional<Hop> hop_to(Ipv4Address to) const;

  // An ICMP error about a packet to `destination` by this link: the route that it is about, which keeps the
  // reason, and the MTU if it is kTooBig. nullopt: about none.
  std::optional<std::size_t> on_unreachable(LinkId link, const Endpoint& destination, Unreachable reason,
                                            std::uint16_t mtu_bytes);

  // When one of the sub-connections of the agenda is due. One that waits for ARP is not due before the answer
  // arrives, or before ARP asks again.
  Instant next_due(const Agenda& agenda);

 private:
  std::span<const Interface> links_;
  const UdpPorts& ports_;
  std::vector<Route> remotes_;
  bool any_unresolved_ = false;  // some route may wait for ARP's answer
};

}  // namespace braid::stack
