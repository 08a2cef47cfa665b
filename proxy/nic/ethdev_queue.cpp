#include "proxy/nic/ethdev_queue.h"

#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>

#include "base/check.h"

namespace braid::proxy {
namespace {

// DPDK's mbuf caches belong to its "lcores", so a thread of ours asks for a number of its own. Without one
// (128 exist) everything works, more slowly.
class DpdkThread {
 public:
  // Makes the calling thread known to DPDK until it ends.
  static void join() {
    if (rte_lcore_id() == LCORE_ID_ANY) {
      thread_local DpdkThread self;
    }
  }

 private:
  DpdkThread() : joined_(rte_thread_register() == 0) {}
  ~DpdkThread() {
    if (joined_) rte_thread_unregister();
  }
  const bool joined_;
};

}  // namespace

EthdevQueue::EthdevQueue(std::uint16_t port, std::uint16_t index, rte_mempool* pool, MemifGate* gate,
                         std::atomic<unsigned>* alive)
    : port_(port), index_(index), pool_(pool), gate_(gate), alive_(alive) {
  alive_->fetch_add(1);
}

EthdevQueue::~EthdevQueue() {
  rte_pktmbuf_free_bulk(received_.data(), received_count_);
  rte_pktmbuf_free_bulk(reserved_.data(), reserved_count_);
  alive_->fetch_sub(1);
}

std::size_t EthdevQueue::receive(std::span<MutableBytes> frames) {
  DpdkThread::join();
  const std::size_t wanted = std::min(frames.size(), kMaxBurst);
  give_back_lent();
  // Vector drivers deliver nothing to a burst of less than their own, so ask for a full one and keep the
  // rest.
  if (received_count_ == 0) received_count_ = poll();
  std::size_t filled = 0;
  while (filled < wanted && lent_count_ < received_count_) {
    rte_mbuf* const mbuf = received_[lent_count_++];
    if (rte_pktmbuf_linearize(mbuf) != 0) continue;  // no room to join its segments: lost, as on a bad wire
    frames[filled++] = MutableBytes(rte_pktmbuf_mtod(mbuf, std::byte*), rte_pktmbuf_data_len(mbuf));
  }
  return filled;
}

std::size_t EthdevQueue::reserve(std::span<TxFrame> frames) {
  DpdkThread::join();
  const auto wanted = static_cast<unsigned>(std::min(frames.size(), kMaxBurst));
  if (reserved_count_ < wanted &&
      rte_pktmbuf_alloc_bulk(pool_, reserved_.data() + reserved_count_, wanted - reserved_count_) == 0) {
    for (; reserved_count_ < wanted; ++reserved_count_)
      reserved_data_[reserved_count_] = rte_pktmbuf_mtod(reserved_[reserved_count_], std::byte*);
  }
  const unsigned offered = std::min(wanted, reserved_count_);
  for (unsigned i = 0; i < offered; ++i)
    frames[i] = {.data = reserved_data_[i], .capacity = kMaxFrameBytes, .length = 0};
  return offered;
}

void EthdevQueue::commit(std::span<const TxFrame> frames) {
  if (frames.empty()) return;
  DpdkThread::join();
  const auto count = static_cast<std::uint16_t>(frames.size());
  CHECK_LE(count, reserved_count_);
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* const mbuf = reserved_[i];
    CHECK_EQ(static_cast<const void*>(frames[i].data), static_cast<const void*>(reserved_data_[i]));
    CHECK_GT(frames[i].length, 0u);
    CHECK_LE(frames[i].length, kMaxFrameBytes);
    mbuf->data_len = static_cast<std::uint16_t>(frames[i].length);
    mbuf->pkt_len = frames[i].length;
  }
  std::uint16_t sent = 0;
  if (enter()) {
    sent = rte_eth_tx_burst(port_, index_, reserved_.data(), count);
    leave();
  }
  rte_pktmbuf_free_bulk(reserved_.data() + sent, static_cast<unsigned>(count - sent));
  drops_.add(static_cast<std::uint64_t>(count - sent));
  std::copy(reserved_.begin() + count, reserved_.begin() + reserved_count_, reserved_.begin());
  std::copy(reserved_data_.begin() + count, reserved_data_.begin() + reserved_count_, reserved_data_.begin());
  reserved_count_ -= count;
}

bool EthdevQueue::link_up() const {
  rte_eth_link link{};
  return rte_eth_link_get_nowait(port_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}
// Ports without a gate need no look at the link: their driver keeps its memory while the port runs.
bool EthdevQueue::enter() {
  return gate_ == nullptr || gate_->enter([this] { return link_up(); });
}

void EthdevQueue::leave() {
  if (gate_ != nullptr) gate_->leave();
}

unsigned EthdevQueue::poll() {
  if (!enter()) return 0;
  const std::uint16_t n = rte_eth_rx_burst(port_, index_, received_.data(), kMaxBurst);
  leave();
  return n;
}

void EthdevQueue::give_back_lent() {
  if (lent_count_ == 0) return;
  rte_pktmbuf_free_bulk(received_.data(), lent_count_);
  std::copy(received_.begin() + lent_count_, received_.begin() + received_count_, received_.begin());
  received_count_ -= lent_count_;
  lent_count_ = 0;
}

}  // namespace braid::proxy
