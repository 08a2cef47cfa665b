#include "proxy/udp/udp_binding.h"

#include <fcntl.h>
#include <linux/udp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "base/check.h"
#include "proxy/udp/udp_socket.h"

namespace braid::proxy {
namespace {

bool set(int socket, int level, int option, int value) {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

Result<int> open_socket(const UdpBindingOptions& options) {
  const Result<int> socket = bind_udp_socket(options.own);
  if (!socket) return socket;
  // DF on every datagram, and an error for one that is longer than the path takes.
  CHECK(set(*socket, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO));
  if (options.joins) (void)set(*socket, IPPROTO_UDP, UDP_GRO, 1);  // Linux 5.0; else each comes alone
  size_socket_buffers(*socket, options.buffer_bytes);
  return socket;
}

}  // namespace

Result<UdpBinding> UdpBinding::open(const UdpBindingOptions& options) {
  const Result<int> socket = open_socket(options);
  if (!socket) return socket.error();
  return UdpBinding(options, *socket);
}

UdpBinding::UdpBinding(UdpBinding&& other) noexcept
    : options_(other.options_), socket_(std::exchange(other.socket_, -1)) {}

UdpBinding::~UdpBinding() {
  if (socket_ >= 0) ::close(socket_);
}

std::uint64_t UdpBinding::receive_drops() const {
  return drops_before_ + socket_drops(socket_);
}

UdpBinding::Follow UdpBinding::follow(const UdpEnd& peer) {
  if (has_address(options_.own.address)) return Follow::kNotNeeded;
  const std::optional<stack::Ipv4Address> address = source_to(peer.address);
  if (!address) return Follow::kGone;
  UdpBindingOptions other = options_;
  other.own.address = *address;
  const Result<int> socket = open_socket(other);
  if (!socket) return Follow::kGone;
  drops_before_ += socket_drops(socket_);
  CHECK_EQ(::dup3(*socket, socket_, O_CLOEXEC), socket_);  // which closes what was there
  ::close(*socket);
  options_ = other;
  moves_.add();
  return Follow::kBound;
}

}  // namespace braid::proxy
