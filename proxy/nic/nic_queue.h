// One receive queue and one transmit queue of a network interface or wire, as one proxy drives it.
//
// The stack above decides what leaves and what an arrival means; a NicQueue moves frames and knows nothing of
// them. Frames are Ethernet frames without FCS. One virtual call moves a burst.
//
// A NicQueue is owned by one proxy's thread; no other thread may call it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/wake_word.h"

namespace braid::proxy {

// The most frames that one call moves.
inline constexpr std::size_t kMaxBurst = 32;

// A buffer of the queue's own memory for one frame to transmit: the caller writes it once, in place.
struct TxFrame {
  std::byte* data = nullptr;
  std::uint32_t capacity = 0;  // bytes that may be written
  std::uint32_t length = 0;    // bytes that were written, set by the caller before commit()
};

class NicQueue {
 public:
  virtual ~NicQueue() = default;

  // Fills `frames` with up to min(frames.size(), kMaxBurst) arrivals and returns how many. The bytes stay
  // valid and unchanged until the next receive() on this queue; they may be written to (a decorator corrupts
  // in place).
  virtual std::size_t receive(std::span<MutableBytes> frames) = 0;

  // Offers up to min(frames.size(), kMaxBurst) buffers and returns how many; fewer, or none, when the queue
  // is full or its memory is used up. Asking again without a commit() offers the same buffers.
  virtual std::size_t reserve(std::span<TxFrame> frames) = 0;

  // Sends the first frames.size() buffers of the last reserve(), in order, with the lengths set in them
  // (0 < length <= capacity); the rest of the reservation is given back. A frame that the link then cannot
  // take is dropped and counted, as a NIC would.
  virtual void commit(std::span<const TxFrame> frames) = 0;

  // False when the link is known to be down or the peer to be gone; true when it is up or nothing is known.
  virtual bool link_up() const { return true; }

  // The longest frame that reserve() has room for and that the other side can take, in bytes, header
  // included.
  virtual std::uint32_t max_frame_bytes() const = 0;

  // How the owner can sleep until a frame arrives: the word that the other side rings then, if it is asleep and
  // announced. nullptr: nothing wakes the owner (at the moment), which must poll.
  virtual WakeWord* wake_word() { return nullptr; }
  // Around a sleep; only while there is a wake_word(), which they announce and withdraw.
  virtual void announce_sleep() {}
  virtual void withdraw_sleep() {}

  // Frames that commit() took and the link refused.
  virtual std::uint64_t transmit_drops() const { return 0; }
  // Frames that came, and that the kernel or the device had no room for.
  virtual std::uint64_t receive_drops() const { return 0; }
  // Messages of ICMP that the kernel got for frames that left here.
  virtual std::uint64_t icmp_errors() const { return 0; }
  // How often frames began to leave from another address of the host, because theirs was gone.
  virtual std::uint64_t address_changes() const { return 0; }
};

}  // namespace braid::proxy
