// One receive and one transmit queue of a DPDK port.
//
// Owned by the proxy's thread, which is made known to DPDK at its first call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/counters.h"
#include "base/ethernet.h"
#include "proxy/nic/memif_gate.h"
#include "proxy/nic/nic_queue.h"

struct rte_mbuf;
struct rte_mempool;

namespace braid::proxy {

class EthdevQueue final : public NicQueue {
 public:
  // The longest frame of memif and af_packet: an MTU of 1500.
  static constexpr std::uint32_t kMaxFrameBytes = 1500 + kEthernetHeaderBytes;

  // `gate`: null where the driver keeps its memory while the port runs. `alive` counts the queues that exist.
  EthdevQueue(std::uint16_t port, std::uint16_t index, rte_mempool* pool, MemifGate* gate,
              std::atomic<unsigned>* alive);
  ~EthdevQueue() override;

  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<TxFrame> frames) override;
  void commit(std::span<const TxFrame> frames) override;
  bool link_up() const override;
  std::uint32_t max_frame_bytes() const override { return kMaxFrameBytes; }
  std::uint64_t transmit_drops() const override { return drops_.get(); }

 private:
  bool enter();
  void leave();
  unsigned poll();
  void give_back_lent();

  const std::uint16_t port_;
  const std::uint16_t index_;
  rte_mempool* const pool_;
  MemifGate* const gate_;
  std::atomic<unsigned>* const alive_;
  // | lent to the caller | received, not yet given out |
  //                  lent_count_                 received_count_
  std::array<rte_mbuf*, kMaxBurst> received_{};
  unsigned lent_count_ = 0;
  unsigned received_count_ = 0;
  // Buffers on offer, in order, and where their bytes lie: mbufs lie pages apart, in the same lines of the
  // cache, so to look into all that are offered costs more than to send the few that are used.
  std::array<rte_mbuf*, kMaxBurst> reserved_{};
  std::array<std::byte*, kMaxBurst> reserved_data_{};
  unsigned reserved_count_ = 0;
  Counter drops_;
};

}  // namespace braid::proxy
