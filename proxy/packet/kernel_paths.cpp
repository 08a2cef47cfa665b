#include "proxy/packet/kernel_paths.h"

#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "proxy/packet/rtnetlink.h"
#include "proxy/udp/udp_socket.h"
#include "stack/wire/flow.h"

namespace braid::proxy {
namespace {

// Waits of the thread, in milliseconds: after a change, so that many are one; while something is unknown; and at most.
constexpr int kSettleMs = 20;
constexpr int kUnknownMs = 1'000;
constexpr int kKnownMs = 5'000;

bool is_running(int socket, const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) return false;
  constexpr int kRunning = IFF_UP | IFF_RUNNING;
  return (request.ifr_flags & kRunning) == kRunning;
}

void discard(int socket) {
  std::array<std::byte, 1> byte;
  while (::recv(socket, byte.data(), byte.size(), MSG_DONTWAIT | MSG_TRUNC) >= 0) {
  }
}

std::string name_of(int interface) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(static_cast<unsigned>(interface), name.data()) != nullptr ? name.data()
                                                                                    : "no interface";
}

}  // namespace

KernelPaths::KernelPaths(const KernelPathsOptions& options) : options_(options) {
  for (const stack::Ipv4Address peer : options.peers) peers_.emplace_back().address = peer;
}

KernelPaths::~KernelPaths() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
  }
  for (const Errors& e : errors_) ::close(e.socket);
  for (const int descriptor : {requests_, changes_, stop_})
    if (descriptor >= 0) ::close(descriptor);
}

Result<std::shared_ptr<KernelPaths>> KernelPaths::start(const KernelPathsOptions& options,
                                                        Duration patience) {
  std::shared_ptr<KernelPaths> paths(new KernelPaths(options));
  if (const Result<void> opened = paths->open(); !opened) return opened.error();
  if (const Result<void> routes = paths->refuse_other_routes(); !routes) return routes.error();
  for (std::int64_t waited = 0;; waited += kSettleMs) {
    paths->refresh();
    if (paths->all_known() || Duration::ms(waited) >= patience) break;
    (void)::poll(nullptr, 0, kSettleMs);
  }
  try {
    paths->thread_ = std::thread([p = paths.get()] { p->run(); });
  } catch (const std::system_error& e) {
    return error("a thread that follows the kernel's routes could not be started: {}", e.what());
  }
  return paths;
}

Result<void> KernelPaths::open() {
  index_ = static_cast<int>(::if_nametoindex(options_.interface.c_str()));
  requests_ = rtnetlink::open(0);
  changes_ = rtnetlink::open(RTMGRP_NEIGH | RTMGRP_IPV4_ROUTE | RTMGRP_LINK);
  stop_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (requests_ < 0 || changes_ < 0 || stop_ < 0)
    return error("the kernel's routes cannot be followed: {}", std::strerror(errno));
  for (unsigned i = 0; i < options_.ports; ++i) {
    const Result<int> socket =
        bind_udp_socket({options_.own, static_cast<std::uint16_t>(options_.first_port + i)});
    if (!socket) return socket.error();
    errors_.emplace_back().socket = *socket;
    // Datagrams are the proxies': the kernel's copy of one, or one that comes before they listen, ends here without an ICMP error.
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog filter{1, &nothing};
    if (::setsockopt(*socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
      return error("a filter of UDP port {}: {}", options_.first_port + i, std::strerror(errno));
  }
  return {};
}

Result<void> KernelPaths::refuse_other_routes() {
  for (const Peer& peer : peers_) {
    const std::string way =
        fmt::format("the way from {} to {}", options_.own.to_string(), peer.address.to_string());
    const auto route = rtnetlink::route(requests_, options_.own, peer.address);
    if (!route)
      return error("{}: the kernel has no route; see 'ip route get {}'", way, peer.address.to_string());
    if (route->is_local)
      return error("{} stays on this host, and this wire is for other hosts; take shm or udp", way);
    if (route->interface != index_)
      return error("{} leaves by {}, not by {}: change the route, or give the addresses of {}", way,
                   name_of(route->interface), options_.interface, name_of(route->interface));
  }
  return {};
}

bool KernelPaths::address(const TxFrame& frame) const {
  using namespace stack::detail;
  if (frame.length < kUdpAt || load_be<std::uint16_t>(frame.data + kTypeAt) != 0x0800) return false;
  const auto station = station_of(stack::Ipv4Address::load(frame.data + kIpDestinationAt));
  if (!station) return false;
  station->store(frame.data);
  return true;
}

bool KernelPaths::all_known() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.station != kUnknown; });
}

void KernelPaths::refresh() {
  link_up_.store(is_running(errors_.front().socket, options_.interface), std::memory_order_relaxed);
  for (Peer& peer : peers_) {
    std::uint64_t station = kUnknown;
    const auto route = rtnetlink::route(requests_, options_.own, peer.address);
    if (route && !route->is_local && route->interface == index_) {
      const auto neighbour = rtnetlink::neighbour(requests_, index_, route->next_hop);
      if (!neighbour || !neighbour->is_confirmed) rtnetlink::resolve(requests_, index_, route->next_hop);
      if (neighbour) neighbour->station.store(reinterpret_cast<std::byte*>(&station));
    }
    peer.station.store(station, std::memory_order_relaxed);
  }
}

void KernelPaths::run() {
  std::vector<pollfd> waited{{stop_, POLLIN, 0}, {changes_, POLLIN, 0}};
  for (const Errors& e : errors_) waited.push_back({e.socket, POLLIN, 0});
  while (true) {
    const int count = ::poll(waited.data(), waited.size(), all_known() ? kKnownMs : kUnknownMs);
    if (count < 0 && errno != EINTR) return;
    if (waited[0].revents != 0) return;
    for (std::size_t i = 0; i < errors_.size(); ++i) {
      if (waited[2 + i].revents == 0) continue;
      errors_[i].count.add(take_icmp_errors(errors_[i].socket));
      discard(errors_[i].socket);
    }
    if (count > 0 && waited[1].revents == 0) continue;
    if (count > 0) (void)::poll(waited.data(), 1, kSettleMs);
    discard(changes_);
    refresh();
  }
}

}  // namespace braid::proxy
