// A socket of AF_PACKET for one proxy at an interface of the kernel's: whole frames past its network code, of which the socket takes the datagrams
// to the proxy's port only. The kernel keeps the interface's address, as in proxy/xdp/xdp_queue.h, and gets a copy of each frame, which it drops
// (kernel_paths.h).
//
// Owned by one proxy's thread.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/result.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/packet/kernel_paths.h"
#include "proxy/udp/socket_waker.h"
#include "stack/wire/addresses.h"

namespace braid::proxy {

struct PacketQueueOptions {
  std::string interface;
  stack::Ipv4Address own;
  std::uint16_t port = 0;
  unsigned proxy = 0;  // whose port it is (KernelPaths::icmp_errors)
  std::uint32_t max_frame_bytes = 1514;
  // What the kernel should keep in each direction while the proxy does not run.
  std::uint32_t buffer_bytes = 4u << 20;
};

class PacketQueue final : public NicQueue {
 public:
  // `waker`, which other queues may share, or nullptr: then the owner must poll. An error names what the kernel refuses, and the cure.
  static Result<std::unique_ptr<PacketQueue>> open(const PacketQueueOptions& options,
                                                   std::shared_ptr<KernelPaths> paths,
                                                   std::shared_ptr<SocketWaker> waker);
  ~PacketQueue() override;

  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<TxFrame> frames) override;
  void commit(std::span<const TxFrame> frames) override;
  bool link_up() const override { return paths_->link_up(); }
  std::uint32_t max_frame_bytes() const override { return options_.max_frame_bytes; }
  WakeWord* wake_word() override { return word_; }
  void announce_sleep() override;
  void withdraw_sleep() override { word_->withdraw(); }

  // Frames that could not leave: none of IPv4, to a station that the kernel does not know, or refused by the interface.
  std::uint64_t transmit_drops() const override { return drops_.get(); }
  std::uint64_t receive_drops() const override;
  std::uint64_t icmp_errors() const override { return paths_->icmp_errors(options_.proxy); }

 private:
  // Buffers of a burst, and what the kernel is told of them.
  struct Burst {
    std::vector<std::byte> memory;
    std::array<iovec, kMaxBurst> vectors;
    std::array<mmsghdr, kMaxBurst> messages;
    Burst(std::uint32_t frame_bytes);
    std::byte* frame(std::size_t i) { return memory.data() + i * (memory.size() / kMaxBurst); }
  };

  PacketQueue(const PacketQueueOptions& options, int socket, std::shared_ptr<KernelPaths> paths,
              std::shared_ptr<SocketWaker> waker);
  Result<void> bind();
  void send();

  const PacketQueueOptions options_;
  const int socket_;
  const std::shared_ptr<KernelPaths> paths_;
  const std::shared_ptr<SocketWaker> waker_;
  WakeWord* word_ = nullptr;
  Burst arriving_, leaving_;
  // Messages of leaving_ that the kernel has had no room for yet. While there are any, no buffer is offered.
  std::size_t first_unsent_ = 0, unsent_end_ = 0;
  Counter drops_;
};

}  // namespace braid::proxy
