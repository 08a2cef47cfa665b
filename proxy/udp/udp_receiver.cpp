#include "proxy/udp/udp_receiver.h"

#include <linux/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace braid::proxy {
namespace {

// The length of the datagrams that the kernel has joined; 0: it is one alone.
std::size_t joined_bytes(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int bytes = 0;
    std::memcpy(&bytes, CMSG_DATA(c), sizeof bytes);
    return static_cast<std::size_t>(std::max(bytes, 0));
  }
  return 0;
}

// Errors that a socket reports for a datagram sent before (IP_RECVERR), not for this call.
bool is_old(int why) {
  return why == ECONNREFUSED || why == EHOSTUNREACH || why == ENETUNREACH || why == EMSGSIZE ||
         why == EHOSTDOWN || why == ENOPROTOOPT || why == EPROTO || why == EACCES;
}

}  // namespace

UdpReceiver::UdpReceiver(int socket, UdpFrames& frames, std::uint32_t max_frame_bytes)
    : socket_(socket),
      frames_(frames),
      max_payload_bytes_(max_frame_bytes - UdpFrames::kHeaderBytes),
      buffers_(std::make_unique_for_overwrite<std::byte[]>(kMaxBurst * kBufferBytes)),
      copies_(std::make_unique_for_overwrite<std::byte[]>(kMaxBurst * max_frame_bytes)) {
  for (std::size_t i = 0; i < kMaxBurst; ++i) {
    vectors_[i] = {payload_of(i), kBufferBytes - UdpFrames::kHeaderBytes};
    messages_[i].msg_hdr.msg_name = &senders_[i];
    messages_[i].msg_hdr.msg_iov = &vectors_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
    messages_[i].msg_hdr.msg_control = controls_[i].data();
  }
}

std::size_t UdpReceiver::receive(std::span<MutableBytes> frames) {
  const std::size_t wanted = std::min(frames.size(), kMaxBurst);
  copied_ = 0;
  if (next_ == arrived_count_) ask_kernel(std::min(wanted, expected_));
  std::size_t filled = 0;
  while (filled < wanted && next_ < arrived_count_) {
    Arrived& arrived = arrived_[next_];
    if (arrived.taken == arrived.bytes)
      ++next_;
    else
      frames[filled++] = next_segment(arrived);
  }
  return filled;
}

void UdpReceiver::ask_kernel(std::size_t wanted) {
  arrived_count_ = next_ = 0;
  // The kernel writes the lengths.
  for (std::size_t i = 0; i < wanted; ++i) {
    messages_[i].msg_hdr.msg_namelen = sizeof senders_[i];
    messages_[i].msg_hdr.msg_controllen = kControlBytes;
  }
  const int count = take_from_kernel(wanted);
  const auto came = static_cast<std::size_t>(std::max(count, 1));
  expected_ = count == static_cast<int>(wanted) ? std::min(2 * came, kMaxBurst) : came;
  if (count < 0) {
    if (is_old(errno)) drain_errors();
    return;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    msghdr& message = messages_[i].msg_hdr;
    const std::size_t bytes = messages_[i].msg_len;
    const std::size_t joined = joined_bytes(message);
    const std::size_t segment = joined == 0 ? bytes : joined;
    if ((message.msg_flags & MSG_TRUNC) != 0 || segment == 0 || segment > max_payload_bytes_) continue;
    const stack::Ipv4Address from(swapped(std::uint32_t{senders_[i].sin_addr.s_addr}));
    arrived_[arrived_count_++] = {
        {from, swapped(std::uint16_t{senders_[i].sin_port})}, payload_of(i), bytes, segment};
  }
}

// As recvmmsg().
int UdpReceiver::take_from_kernel(std::size_t wanted) {
  if (wanted > 1)
    return ::recvmmsg(socket_, messages_.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT, nullptr);
  const ssize_t bytes = ::recvmsg(socket_, &messages_[0].msg_hdr, MSG_DONTWAIT);
  if (bytes < 0) return -1;
  messages_[0].msg_len = static_cast<unsigned>(bytes);
  return 1;
}

MutableBytes UdpReceiver::next_segment(Arrived& arrived) {
  const std::size_t bytes = std::min(arrived.segment_bytes, arrived.bytes - arrived.taken);
  std::byte* payload = arrived.payload + arrived.taken;
  if (arrived.taken > 0) {
    std::byte* const copy = &copies_[copied_++ * (UdpFrames::kHeaderBytes + max_payload_bytes_)];
    payload = copy + UdpFrames::kHeaderBytes;
    std::memcpy(payload, arrived.payload + arrived.taken, bytes);
  }
  arrived.taken += bytes;
  return frames_.arrival(arrived.from, {payload, bytes});
}

}  // namespace braid::proxy
