// A proxy's queue of an NI in virtual time, as production workers drive it. Frames are buffers of a pool,
// which the proxy writes once; a short one is copied to a shorter buffer. What it sends goes to the wire, which
// decides when and where it arrives.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "proxy/nic/nic_queue.h"
#include "sim/frame_pool.h"

namespace braid::sim {

struct VirtualNicOptions {
  unsigned cluster = 0;
  unsigned proxy = 0;
  unsigned ni = 0;  // of the cluster
  // Frames that may wait to be received, rounded up to a power of two. 0: the wire hands arrivals to the proxy
  // itself.
  std::uint32_t rx_frames = 256;
  // Buffers that reserve() offers at most, up to proxy::kMaxBurst; so many stay with the queue.
  std::uint32_t tx_frames = proxy::kMaxBurst;
};

class VirtualNic final : public proxy::NicQueue {
 public:
  // It lives longer than its queues.
  class Wire {
   public:
    // Takes over the buffers of `frames`, which were sent in this order.
    virtual void transmit(const VirtualNic& from, std::span<const FrameRef> frames) = 0;
    // The proxy is about to see these frames. Time may pass here, during which the proxy does not run.
    virtual void on_receive(const VirtualNic& /*at*/, std::span<const MutableBytes> /*frames*/) {}
    virtual bool link_up(const VirtualNic& /*at*/) const { return true; }
    // The queue is being destroyed.
    virtual void on_detach(const VirtualNic& /*nic*/) {}

   protected:
    ~Wire() = default;
  };

  VirtualNic(Wire& wire, FramePool& pool, const VirtualNicOptions& options);
  ~VirtualNic() override;
  VirtualNic(const VirtualNic&) = delete;
  VirtualNic& operator=(const VirtualNic&) = delete;

  unsigned cluster() const { return options_.cluster; }
  unsigned proxy() const { return options_.proxy; }
  unsigned ni() const { return options_.ni; }

  // For the wire: a frame has arrived, and its buffer is the queue's. False: no room; the buffer stays the caller's.
  [[nodiscard]] bool arrive(FrameRef frame);

  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<proxy::TxFrame> frames) override;
  void commit(std::span<const proxy::TxFrame> frames) override;
  bool link_up() const override { return wire_.link_up(*this); }
  std::uint32_t max_frame_bytes() const override { return pool_.frame_bytes(); }

 private:
  Wire& wire_;
  FramePool& pool_;
  const VirtualNicOptions options_;
  std::vector<FrameRef> ring_;  // of arrivals; its size is a power of two, or 0
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::array<std::uint32_t, proxy::kMaxBurst> lent_{};  // buffers of the last receive()
  std::size_t lent_count_ = 0;
  std::array<std::uint32_t, proxy::kMaxBurst> reserved_{};
  std::size_t reserved_count_ = 0;
};

}  // namespace braid::sim
