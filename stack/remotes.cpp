#include "stack/remotes.h"

#include "base/check.h"

namespace braid::stack {

void Remotes::add(const RemoteStack& remote) {
  if (remote.absent) {
    remotes_.push_back({.remote = remote, .next_hop = {}});
    return;
  }
  CHECK_LT(remote.link.value(), links_.size());
  const std::optional<Ipv4Address> hop = next_hop(links_[remote.link.value()], remote.address);
  CHECK(hop.has_value());
  remotes_.push_back({.remote = remote, .next_hop = *hop});
}

bool Remotes::replace(std::size_t index, const RemoteStack& remote) {
  Route& route = remotes_[index];
  CHECK(route.remote.id == remote.id);
  CHECK_LT(remote.link.value(), links_.size());
  const std::optional<Ipv4Address> hop = next_hop(links_[remote.link.value()], remote.address);
  if (!hop) return false;
  // The header too is made anew, even if the next hop is the same gateway.
  route = {.remote = remote, .next_hop = *hop};
  route.remote.mac.reset();
  return true;
}

void Remotes::move(std::size_t index, const Endpoint& to) {
  Route& route = remotes_[index];
  CHECK(route.remote.mac.has_value());
  route.remote.address = to.address;
  route.remote.udp_port = to.port;
  if (const std::optional<Ipv4Address> hop = next_hop(links_[route.remote.link.value()], to.address))
    route.next_hop = *hop;
  route.is_static = false;  // its header is made anew
  route.header = {};
}

FlowHeader Remotes::header_to(const Route& route, const Endpoint& to) const {
  const Interface& own = links_[route.remote.link.value()];
  return {route.header.to(),
          own.mac,
          {.source = own.address,
           .destination = to.address,
           .source_port = ports_.source(route.asked_source_port),
           .destination_port = to.port}};
}

bool Remotes::resolve(std::size_t index, std::uint16_t asked_source_port, Neighbours& neighbours,
                      Instant now) {
  Route& route = remotes_[index];
  const RemoteStack& remote = route.remote;
  const std::optional<MacAddress> to =
      remote.mac ? remote.mac : neighbours.lookup(remote.link, route.next_hop, now);
  route.unresolved = !to;
  any_unresolved_ = any_unresolved_ || !to;
  if (!to) return false;
  if (*to != route.header.to() || asked_source_port != route.asked_source_port) {
    route.asked_source_port = asked_source_port;
    const Interface& own = links_[remote.link.value()];
    route.header = FlowHeader(*to, own.mac,
                              {.source = own.address,
                               .destination = remote.address,
                               .source_port = ports_.source(asked_source_port),
                               .destination_port = remote.udp_port});
  }
  route.is_static = remote.mac.has_value();
  return true;
}

std::optional<Hop> Remotes::hop_to(Ipv4Address to) const {
  for (const Route& route : remotes_)
    if (route.remote.address == to) return Hop{route.remote.link, route.next_hop};
  const std::optional<LinkId> link = link_to(links_, to);
  return link ? std::optional(Hop{*link, *next_hop(links_[link->value()], to)}) : std::nullopt;
}

std::optional<std::size_t> Remotes::on_unreachable(LinkId link, const Endpoint& destination,
                                                   Unreachable reason, std::uint16_t mtu_bytes) {
  for (std::size_t i = 0; i < remotes_.size(); ++i) {
    Route& route = remotes_[i];
    if (route.remote.link != link || destination != Endpoint{route.remote.address, route.remote.udp_port})
      continue;
    ++route.report.unreachables;
    route.report.reason = reason;
    if (reason == Unreachable::kTooBig) route.report.mtu_bytes = mtu_bytes;
    return i;
  }
  return std::nullopt;
}

Instant Remotes::next_due(const Agenda& agenda) {
  if (!any_unresolved_) return agenda.next_due();
  any_unresolved_ = false;
  Instant next = Instant::never();
  for (std::size_t i = 0; i < remotes_.size(); ++i) {
    any_unresolved_ = any_unresolved_ || remotes_[i].unresolved;
    if (!remotes_[i].unresolved) next = earlier(next, agenda.due(i));
  }
  return next;
}

}  // namespace braid::stack
