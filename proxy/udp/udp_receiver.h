// What arrives at a kernel's UDP socket, as frames.
//
// One call of the kernel brings many datagrams, each in a buffer of its own; several of one length and one sender may come
// joined in one buffer (UDP_GRO). The first of these becomes a frame where it lies; those after it have no room for
// headers in front, and are copied.
//
//   buffer:  | room for headers | segment 0 | segment 1 | segment 2 |
//
// Owned by one proxy's thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/counters.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/udp_frames.h"
#include "proxy/udp/udp_socket.h"

namespace braid::proxy {

class UdpReceiver {
 public:
  // `socket` does not block. It and `frames` outlive this. Datagrams that would be longer frames are dropped.
  UdpReceiver(int socket, UdpFrames& frames, std::uint32_t max_frame_bytes);

  // As NicQueue::receive(); asks the kernel only when everything that it brought before has been taken.
  std::size_t receive(std::span<MutableBytes> frames);
  // The messages of ICMP that wait for this socket are counted and dropped.
  void drain_errors() { icmp_errors_.add(take_icmp_errors(socket_)); }

  std::uint64_t icmp_errors() const { return icmp_errors_.get(); }

 private:
  // The kernel joins no more than an IP packet holds. Not a power of two, or all buffers would share cache sets.
  static constexpr std::size_t kBufferBytes = UdpFrames::kHeaderBytes + 65536 + 192;
  static constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int));

  // A message of the kernel, and how far it has been taken.
  struct Arrived {
    UdpEnd from;
    std::byte* payload = nullptr;
    std::size_t bytes = 0;
    std::size_t segment_bytes = 0;
    std::size_t taken = 0;
  };
  void ask_kernel(std::size_t wanted);
  int take_from_kernel(std::size_t wanted);
  MutableBytes next_segment(Arrived& arrived);
  std::byte* payload_of(std::size_t message) {
    return &buffers_[message * kBufferBytes + UdpFrames::kHeaderBytes];
  }

  const int socket_;
  UdpFrames& frames_;
  const std::size_t max_payload_bytes_;
  std::unique_ptr<std::byte[]> buffers_;  // one for each message
  std::unique_ptr<std::byte[]> copies_;   // frames of a call of receive() that follow others in their buffer
  std::size_t copied_ = 0;
  std::array<Arrived, kMaxBurst> arrived_{};
  std::size_t arrived_count_ = 0;
  std::size_t next_ = 0;  // the first that is not taken whole
  // How many messages the next call asks for: as many as came, twice as many if all that were asked for came. A call for
  // more than one looks for a second before it returns the first.
  std::size_t expected_ = 1;
  std::array<mmsghdr, kMaxBurst> messages_{};
  std::array<iovec, kMaxBurst> vectors_{};
  std::array<sockaddr_in, kMaxBurst> senders_{};
  alignas(cmsghdr) std::array<std::array<std::byte, kControlBytes>, kMaxBurst> controls_{};
  Counter icmp_errors_;
};

}  // namespace braid::proxy
