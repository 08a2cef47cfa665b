// A wire through the kernel's UDP: one socket for each proxy, on any host and without privileges. The kernel routes,
// resolves, and spreads the proxies' flows over its queues; the stack above is the same as on any other wire.
//
// A datagram holds what a frame's UDP packet holds. Ethernet, IP and UDP headers are stripped from departing frames and
// made for arriving ones (udp_frames.h), so a frame with anything else cannot leave, and is a drop. The kernel never cuts a datagram (DF is set): the path's MTU is known before (path_mtu).
// When the host has another address, the socket is bound to that one; frames keep the address that they began with.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/udp/socket_waker.h"
#include "proxy/udp/udp_binding.h"
#include "proxy/udp/udp_frames.h"
#include "proxy/udp/udp_receiver.h"
#include "proxy/udp/udp_transmitter.h"

namespace braid::proxy {

struct UdpQueueOptions {
  UdpEnd own;
  // Ethernet header included.
  std::uint32_t max_frame_bytes = 9000 + kEthernetHeaderBytes;
  std::uint32_t buffer_bytes = UdpBindingOptions().buffer_bytes;
  bool joins = true;  // false: one datagram a message (UDP_SEGMENT and UDP_GRO are not used)
};

class UdpQueue final : public NicQueue {
 public:
  // Binds the socket. `waker`, which other queues may share, or nullptr: then the owner must poll. An error names the
  // address and the cure.
  static Result<std::unique_ptr<UdpQueue>> open(const UdpQueueOptions& options,
                                                std::shared_ptr<SocketWaker> waker);

  std::size_t receive(std::span<MutableBytes> frames) override {
    if (polls_until_busy_ != 0 && --polls_until_busy_ == 0) waker_->leave(binding_.socket());
    return receiver_.receive(frames);
  }
  std::size_t reserve(std::span<TxFrame> frames) override { return transmitter_.reserve(frames); }
  void commit(std::span<const TxFrame> frames) override;
  std::uint32_t max_frame_bytes() const override { return max_frame_bytes_; }
  WakeWord* wake_word() override { return word_; }
  void announce_sleep() override;
  void withdraw_sleep() override { word_->withdraw(); }

  // Frames that could not leave: no datagram, refused by the kernel, or too long for the path.
  std::uint64_t transmit_drops() const override { return transmitter_.drops(); }
  std::uint64_t receive_drops() const override { return binding_.receive_drops(); }
  std::uint64_t icmp_errors() const override { return receiver_.icmp_errors(); }
  std::uint64_t address_changes() const override { return binding_.moves(); }

 private:
  // Some hundred microseconds, beside which it is nothing to leave the waker and to come back.
  static constexpr unsigned kPollsUntilBusy = 512;

  UdpQueue(const UdpQueueOptions& options, UdpBinding binding, std::shared_ptr<SocketWaker> waker);

  const std::uint32_t max_frame_bytes_;
  UdpBinding binding_;
  const std::shared_ptr<SocketWaker> waker_;
  WakeWord* word_ = nullptr;
  unsigned polls_until_busy_ = 0;  // 0: the waker does not watch the socket
  UdpFrames frames_;
  UdpReceiver receiver_;
  UdpTransmitter transmitter_;
};

}  // namespace braid::proxy
