// Questions to the kernel's routing tables (rtnetlink, RFC 3549). Each blocks for the kernel's answer.
#pragma once

#include <optional>

#include "stack/wire/addresses.h"

namespace braid::proxy::rtnetlink {

// A socket of it; `groups` of notifications that it gets (RTMGRP_*). -1: none, and errno says why.
int open(unsigned groups);

struct Route {
  int interface = 0;            // its index
  bool is_local = false;        // to this host itself
  stack::Ipv4Address next_hop;  // the router, or the destination itself
};
// nullopt: there is none.
std::optional<Route> route(int socket, stack::Ipv4Address from, stack::Ipv4Address to);

struct Neighbour {
  stack::MacAddress station;
  bool is_confirmed = false;  // the kernel has heard of it lately, or it is static
};
// nullopt: the kernel does not know its station.
std::optional<Neighbour> neighbour(int socket, int interface, stack::Ipv4Address address);

// Has the kernel ask for the neighbour's station, or confirm the one that it knows. Needs CAP_NET_ADMIN.
void resolve(int socket, int interface, stack::Ipv4Address address);

}  // namespace braid::proxy::rtnetlink
