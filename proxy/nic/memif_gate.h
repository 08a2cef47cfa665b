// The gate between the queues' owners and DPDK's interrupt thread, which unmaps a memif's rings when its peer
// goes.
//
//   owner:      inside = true; fence; unmaps or link changed, and link down? leave, else burst;
//               inside = false
//   interrupt:  link = down; ++unmaps; fence; wait until no owner is inside; unmap (memif_disconnect())
//
// Either the owner sees the count changed, and then the link down, or the interrupt thread sees the owner
// inside and waits. To ask DPDK for the link costs several calls, so an owner that found it up asks again
// only when something was unmapped, by whichever port. It pays nothing for its fence, which only the compiler
// heeds: the interrupt thread, which comes by once in a link's life, has the kernel put a full one into every
// running thread of the process (membarrier). Where the kernel does not do that both are locked instructions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace braid::proxy {

// One for each queue of a memif. enter() and leave() belong to the queue's owner.
class alignas(64) MemifGate {
 public:
  static constexpr unsigned kMaxGates = 1024;  // in a process

  // A gate of this process, which lives as long as that does. Gates are made by one thread, at most kMaxGates.
  static MemifGate* make();
  // Asks the kernel for its fences. Before the first gate is used.
  static void choose_fences();

  // Until leave() nothing is unmapped. False, and outside: link_up() returned false. It is asked the first
  // time, and when something was unmapped or the link was down the last time.
  template <class LinkUp>
  [[nodiscard]] bool enter(LinkUp&& link_up) {
    if (kernel_fences_) {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      inside_.exchange(true);
    }
    const std::uint64_t unmaps = unmaps_.load(std::memory_order_acquire);
    if (was_up_ && unmaps == unmaps_seen_) return true;
    unmaps_seen_ = unmaps;
    was_up_ = link_up();
    if (!was_up_) leave();
    return was_up_;
  }
  void leave() { inside_.store(false, std::memory_order_release); }

  // Waits until no owner is inside any gate, then unmaps. The link is down by now. Returns munmap()'s result.
  static int unmap(void* memory, std::size_t bytes);

 private:
  static std::atomic<unsigned> made_;
  static std::atomic<std::uint64_t> unmaps_;
  static bool kernel_fences_;

  std::atomic<bool> inside_{false};
  // The owner's own.
  bool was_up_ = false;  // the link, when unmaps_seen_ was read
  std::uint64_t unmaps_seen_ = 0;
};

}  // namespace braid::proxy
