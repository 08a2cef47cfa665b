// One receive queue and one transmit queue of a kernel's interface as an AF_XDP socket: rings and frames in memory that the
// kernel and the proxy share.
//
// The kernel keeps the interface's address, so a stack's frames get the station that the kernel knows for their destination,
// and what arrives are datagrams to the proxies only (xdp_program.h).
//
//   the memory:   | frames to receive into | frames to send from |
//   of receiving: in the fill ring -> filled, in the receive ring -> lent to the caller -> in the fill ring
//   of sending:   free -> (reserved, committed) in the send ring -> sent, in the completion ring -> free
//
// Owned by one proxy's thread.
#pragma once

#include <xdp/xsk.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/ethernet.h"
#include "base/result.h"
#include "proxy/nic/nic_queue.h"
#include "proxy/packet/kernel_paths.h"
#include "proxy/udp/socket_waker.h"
#include "proxy/xdp/xdp_program.h"

namespace braid::proxy {

// Linux wants a frame of the shared memory to lie in a page, and leaves 256 bytes in front of each.
inline constexpr std::uint32_t kXdpMaxFrameBytes = 4096 - 256;
inline constexpr std::uint32_t kXdpMaxMtuBytes = kXdpMaxFrameBytes - kEthernetHeaderBytes;

struct XdpQueueOptions {
  std::string interface;
  unsigned queue = 0;                    // of the interface
  unsigned port = 0;                     // whose ICMP errors are this queue's (KernelPaths::icmp_errors)
  std::uint32_t max_frame_bytes = 1514;  // at most kXdpMaxFrameBytes
};

class XdpQueue final : public NicQueue {
 public:
  // Makes the socket and has the program serve it. `waker`, which other queues may share, or nullptr: then the owner must
  // poll. An error names what the kernel refuses, and the cure.
  static Result<std::unique_ptr<XdpQueue>> open(const XdpQueueOptions& options,
                                                std::shared_ptr<KernelPaths> paths,
                                                std::shared_ptr<XdpProgram> program,
                                                std::shared_ptr<SocketWaker> waker);
  ~XdpQueue() override;

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
  // Frames that found no free place in memory, or none in the ring.
  std::uint64_t receive_drops() const override;
  std::uint64_t icmp_errors() const override { return paths_->icmp_errors(options_.port); }

 private:
  XdpQueue(const XdpQueueOptions& options, std::shared_ptr<KernelPaths> paths,
           std::shared_ptr<XdpProgram> program, std::shared_ptr<SocketWaker> waker);
  Result<void> make_memory();
  Result<void> make_socket();
  void give_back_lent();
  void take_back_sent();
  bool has_unsent() const;
  void send();

  const XdpQueueOptions options_;
  const std::shared_ptr<KernelPaths> paths_;
  const std::shared_ptr<XdpProgram> program_;
  const std::shared_ptr<SocketWaker> waker_;
  WakeWord* word_ = nullptr;

  const std::uint32_t stride_;
  std::byte* memory_ = nullptr;
  xsk_umem* shared_ = nullptr;
  xsk_socket* socket_ = nullptr;
  xsk_ring_prod fill_{}, sending_{};
  xsk_ring_cons completed_{}, received_{};
  std::array<std::uint64_t, kMaxBurst> lent_{};  // where the frames lie
  std::size_t lent_count_ = 0;
  std::vector<std::uint64_t> free_;  // a ring: of sending, oldest first
  std::uint32_t first_free_ = 0;
  std::uint32_t free_count_ = 0;
  Counter drops_;
};

}  // namespace braid::proxy
