#include "proxy/udp/udp_transmitter.h"

#include <linux/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace braid::proxy {

namespace {

// What the kernel says where a socket's own address is gone (ip_route_output_key_hash_rcu), among other reasons.
bool may_be_address(int why) {
  return why == EINVAL || why == EADDRNOTAVAIL || why == ENETUNREACH;
}

}  // namespace

UdpTransmitter::UdpTransmitter(UdpBinding& binding, std::uint32_t max_frame_bytes, bool joins)
    : binding_(binding),
      max_frame_bytes_(max_frame_bytes),
      stride_(round_up(max_frame_bytes, 64)),
      joins_(joins),
      memory_(std::make_unique_for_overwrite<std::byte[]>(kSlots * stride_)) {}

std::size_t UdpTransmitter::reserve(std::span<TxFrame> frames) {
  if (first_ != next_) flush();
  const std::size_t offered =
      std::min({frames.size(), kMaxBurst, static_cast<std::size_t>(kSlots - (next_ - first_))});
  for (std::uint32_t i = 0; i < offered; ++i)
    frames[i] = {.data = slot(next_ + i), .capacity = max_frame_bytes_, .length = 0};
  return offered;
}

void UdpTransmitter::commit(const std::optional<DepartingDatagram>& datagram) {
  CHECK_LT(next_ - first_, kSlots);
  at(next_++) = datagram.value_or(DepartingDatagram{});
  if (!datagram) drops_.add();
}

bool UdpTransmitter::flush() {
  bool icmp = false;
  while (first_ != next_) {
    compose();
    if (burst_.count == 0) continue;  // nothing but frames that cannot leave
    const int sent = give_to_kernel();
    if (sent < 0) {
      const int why = errno;
      if (!on_error(why)) return icmp;
      icmp = icmp || why != EINTR;
      continue;
    }
    // Why the next message did not leave is not told (sendmmsg(2)): perhaps by an ICMP error, which no other call returns then.
    icmp = icmp || static_cast<std::size_t>(sent) < burst_.count;
    for (std::size_t i = 0; i < static_cast<std::size_t>(sent); ++i) first_ += burst_.slots[i];
    tries_ = 0;
  }
  return icmp;
}

// As sendmmsg(). A datagram alone takes a shorter way through the kernel.
int UdpTransmitter::give_to_kernel() {
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (burst_.count > 1 || burst_.messages[0].msg_hdr.msg_iovlen > 1)
    return ::sendmmsg(binding_.socket(), burst_.messages.data(), static_cast<unsigned>(burst_.count), kFlags);
  const iovec& datagram = burst_.vectors[0];
  return ::sendto(binding_.socket(), datagram.iov_base, datagram.iov_len, kFlags,
                  reinterpret_cast<const sockaddr*>(&burst_.to[0]), sizeof burst_.to[0]) < 0
             ? -1
             : 1;
}

// The messages that the committed frames are, as many as one call takes.
void UdpTransmitter::compose() {
  burst_.count = 0;
  std::size_t vectors = 0;
  for (std::uint32_t n = first_; n != next_ && burst_.count < kMaxBurst;) {
    const DepartingDatagram& datagram = at(n++);
    if (datagram.payload.empty()) {
      if (burst_.count == 0)
        first_ = n;
      else
        ++burst_.slots[burst_.count - 1];
      continue;
    }
    const std::size_t i = burst_.count++;
    mmsghdr& message = burst_.messages[i];
    message = {};
    message.msg_hdr.msg_iov = &burst_.vectors[vectors];
    burst_.to[i] = {.sin_family = AF_INET,
                    .sin_port = swapped(datagram.to.port),
                    .sin_addr = {swapped(datagram.to.address.value())},
                    .sin_zero = {}};
    message.msg_hdr.msg_name = &burst_.to[i];
    message.msg_hdr.msg_namelen = sizeof burst_.to[i];
    const auto add = [&](const DepartingDatagram& d) {
      // sendmmsg() only reads it.
      burst_.vectors[vectors++] = {const_cast<std::byte*>(d.payload.data()), d.payload.size()};
      ++message.msg_hdr.msg_iovlen;
    };
    add(datagram);
    std::size_t bytes = datagram.payload.size();
    std::uint32_t slots = 1;
    for (; n != next_ && can_join(message.msg_hdr.msg_iovlen, bytes, datagram, at(n)); ++n, ++slots) {
      bytes += at(n).payload.size();
      add(at(n));
      // Only the last may be shorter.
      if (at(n).payload.size() < datagram.payload.size()) {
        ++n;
        ++slots;
        break;
      }
    }
    burst_.slots[i] = slots;
    if (message.msg_hdr.msg_iovlen > 1)
      cut_by_kernel(message.msg_hdr, burst_.controls[i], datagram.payload.size());
  }
}

bool UdpTransmitter::can_join(std::size_t count, std::size_t bytes, const DepartingDatagram& first,
                              const DepartingDatagram& next) const {
  return joins_ && count < kMaxJoined && !next.payload.empty() && next.to == first.to &&
         next.payload.size() <= first.payload.size() && bytes + next.payload.size() <= kMaxJoinedBytes;
}

void UdpTransmitter::cut_by_kernel(msghdr& message, Control& control, std::size_t datagram_bytes) {
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  cmsghdr* const c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const auto bytes = static_cast<std::uint16_t>(datagram_bytes);
  std::memcpy(CMSG_DATA(c), &bytes, sizeof bytes);
}

// The first message could not leave. Returns whether it, or the next, is worth a try at once.
bool UdpTransmitter::on_error(int why) {
  if (why == EAGAIN) return false;
  if (why == EINTR) return true;
  if (may_be_address(why) && tries_ == 0) {
    switch (binding_.follow(at(first_).to)) {
      case UdpBinding::Follow::kNotNeeded:
        break;
      case UdpBinding::Follow::kGone:
        drop_first();
        return true;
      case UdpBinding::Follow::kBound:
        return true;
    }
  }
  const bool is_joined = burst_.messages[0].msg_hdr.msg_iovlen > 1;
  if (is_joined && (why == EINVAL || why == EIO || why == EOPNOTSUPP)) {
    joins_ = false;
    return true;
  }
  if (why != ENOBUFS && ++tries_ < kTries) return true;
  drop_first();
  return why != ENOBUFS;
}

void UdpTransmitter::drop_first() {
  tries_ = 0;
  drops_.add(burst_.messages[0].msg_hdr.msg_iovlen);
  first_ += burst_.slots[0];
}

}  // namespace braid::proxy
