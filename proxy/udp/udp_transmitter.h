// Frames of a stack that leave as datagrams of a kernel's UDP socket.
//
// Consecutive datagrams of one length to one peer are given to the kernel as one (UDP_SEGMENT). Those that the socket has
// no room for wait here, and room() is what is left.
//
//   slots, in the order of departure:   ... sent | committed, waits for the socket | free ...
//                                                ^ first_                          ^ next_
//
// Owned by one proxy's thread.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/counters.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/udp_binding.h"
#include "proxy/udp/udp_frames.h"

namespace braid::proxy {

class UdpTransmitter {
 public:
  // `binding` outlives it. `joins`: try UDP_SEGMENT, until the kernel or its device refuses it.
  UdpTransmitter(UdpBinding& binding, std::uint32_t max_frame_bytes, bool joins);

  // As NicQueue::reserve().
  std::size_t reserve(std::span<TxFrame> frames);
  // For each frame of the last reservation that is used, in order: it leaves as this datagram, whose payload lies in it,
  // with the next flush(). nullopt: it cannot leave, and is a drop.
  void commit(const std::optional<DepartingDatagram>& datagram);
  // Gives the kernel what it takes. True: a message of ICMP waits at the socket.
  bool flush();

  std::uint64_t drops() const { return drops_.get(); }

 private:
  static constexpr std::uint32_t kSlots = 2 * kMaxBurst;
  // The kernel cuts a message into 64 datagrams at most, all of which fit in one IP packet.
  static constexpr std::size_t kMaxJoined = 64;
  static constexpr std::size_t kMaxJoinedBytes = 65535 - 28;
  // How often a datagram is tried for which the kernel reports an error, which may be that of one sent before.
  static constexpr unsigned kTries = 3;

  struct alignas(cmsghdr) Control {
    std::array<std::byte, CMSG_SPACE(sizeof(std::uint16_t))> bytes;
  };
  // What the kernel is given in one call: messages, and how many slots each of them empties.
  struct Burst {
    std::array<mmsghdr, kMaxBurst> messages{};
    std::array<std::uint32_t, kMaxBurst> slots{};
    std::array<sockaddr_in, kMaxBurst> to{};
    std::array<iovec, kSlots> vectors{};
    std::array<Control, kMaxBurst> controls{};
    std::size_t count = 0;
  };
  void compose();
  int give_to_kernel();
  bool can_join(std::size_t count, std::size_t bytes, const DepartingDatagram& first,
                const DepartingDatagram& next) const;
  static void cut_by_kernel(msghdr& message, Control& control, std::size_t datagram_bytes);
  bool on_error(int why);
  void drop_first();

  std::byte* slot(std::uint32_t number) { return &memory_[number % kSlots * stride_]; }
  DepartingDatagram& at(std::uint32_t number) { return datagrams_[number % kSlots]; }

  UdpBinding& binding_;
  const std::uint32_t max_frame_bytes_;
  const std::size_t stride_;
  bool joins_;
  std::unique_ptr<std::byte[]> memory_;
  std::array<DepartingDatagram, kSlots> datagrams_{};  // a payload of nothing: there is none
  std::uint32_t first_ = 0;
  std::uint32_t next_ = 0;
  unsigned tries_ = 0;  // of the first message
  Burst burst_;
  Counter drops_;
};

}  // namespace braid::proxy
