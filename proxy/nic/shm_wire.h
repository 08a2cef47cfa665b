// A point-to-point wire between two clusters of one host, in shared memory: the default of a run, because it
// needs no privileges, no huge pages and no EAL, and survives the death of either side at any instruction.
//
// Q queue pairs; queue i of side A is connected to queue i of side B. One memfd holds a wire:
//
//   | header | ring A>B 0 | ring B>A 0 | ring A>B 1 | ... | slots A>B 0 | slots B>A 0 | slots A>B 1 | ...
//
// A frame lies in slot n mod frames_per_ring, n being its number in its direction, and is announced by the
// ring's entry of the same place: the number and the length in one word, stored at once. The receiver polls
// the next entry itself, so a frame costs it two misses (entry, frame); with an index between them (Boost's
// spsc_queue) a round trip of 64 bytes took 0.67 us instead of 0.47 on the same machine in the same run.
// Slots go back to the sender by one counter, written once a burst, and read by the sender only when it
// believes the ring to be full.
//
//   number:  ... | consumed | read by the last receive() | announced | free to write | ...
//                                                        <- at most frames_per_ring ->
//
// Each side counts for itself and believes nothing impossible: a wrong length is dropped and counted, a wrong
// number is a frame that has not come, a wrong counter is a full ring. A slot holds a packet, which the stack
// checks like any other. A side that dies in the middle of a call leaves a frame
// announced or not, never a lock; the survivor sees an empty or a full ring and goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/ethernet.h"
#include "base/result.h"
#include "base/wake_word.h"
#include "proxy/nic/nic_queue.h"

namespace braid::proxy {

struct ShmWireOptions {
  // As many as a cluster has proxies.
  unsigned queues = 1;
  // Frames that may wait in each direction of a queue, a power of two. 256 cost 2.3 MiB.
  unsigned frames_per_ring = 256;
  // Header included, FCS not. The default carries a 4 KiB page with all headers in one frame, twice over.
  std::uint32_t max_frame_bytes = 9000 + kEthernetHeaderBytes;

  Result<void> validate() const;
};

inline constexpr unsigned kShmWireMaxQueues = 64;
inline constexpr unsigned kShmWireMaxFramesPerRing = 1024;
inline constexpr std::uint32_t kShmWireMinFrameBytes = 64;
inline constexpr std::uint32_t kShmWireMaxFrameBytes =
    65535 + kEthernetHeaderBytes;  // the longest IPv4 packet

// One direction of a queue, all zero at first; followed by frames_per_ring entries in use.
struct ShmRing {
  alignas(64) std::atomic<std::uint32_t> consumed;  // frames given back, by the receiver
  alignas(64) WakeWord wake;                        // the receiver sleeps on it
  alignas(64) std::atomic<std::uint64_t> entries[kShmWireMaxFramesPerRing];  // by the sender
};
// Frame `number` is here: the upper half is number + 1, so that an entry of zero announces nothing.
constexpr std::uint64_t shm_entry(std::uint32_t number, std::uint32_t length) {
  return std::uint64_t{number + 1} << 32 | length;
}

// In place of a length: no frame, but that its sender sleeps, and wants to be woken when a frame comes to it. The
// other side polls for that entry anyway, so a sender that is awake costs it nothing.
inline constexpr std::uint32_t kShmAsleep = 0xffff'fffe;

enum class ShmSide : std::uint32_t { kA = 0, kB = 1 };
constexpr ShmSide other(ShmSide side) {
  return side == ShmSide::kA ? ShmSide::kB : ShmSide::kA;
}

// Where everything lies in a wire's memory, computed from the options alone; offsets in bytes from its start.
class ShmWireLayout {
 public:
  explicit ShmWireLayout(const ShmWireOptions& options);  // options.validate() is ok

  const ShmWireOptions& options() const { return options_; }
  std::uint64_t ring_offset(unsigned queue, ShmSide sender) const;
  std::uint64_t slots_offset(unsigned queue, ShmSide sender) const;
  std::uint32_t slots() const { return options_.frames_per_ring; }
  std::uint32_t slot_stride() const { return slot_stride_; }
  std::uint64_t total_bytes() const;

 private:
  ShmWireOptions options_;
  std::uint32_t slot_stride_;
};

// Makes a wire and returns its memfd, sealed against growing and shrinking, close-on-exec, owned by the
// caller. Both sides map it; it may be closed once they have. All of its memory is taken here: a page that
// could not be had later would be a SIGBUS in a proxy, and as slots are used in turn, all are touched in the
// first lap anyway.
Result<int> create_shm_wire(const ShmWireOptions& options);

// One end of one queue pair. Counters may be read by any thread.
class ShmQueue;

// One side's mapping of a wire. Queues keep it alive.
class ShmWire : public std::enable_shared_from_this<ShmWire> {
 public:
  // Maps the wire behind `fd` (not taken over) as one of its sides. A side can be mapped once in a wire's
  // life: what the former holder had counted died with it, so a restarted daemon gets a new wire.
  static Result<std::shared_ptr<ShmWire>> map(int fd, ShmSide side);
  // Tells the other side that the link is down.
  ~ShmWire();
  ShmWire(const ShmWire&) = delete;
  ShmWire& operator=(const ShmWire&) = delete;

  // The end of queue pair `index` on this side; index < queues(), each taken once. Any thread may then own
  // it.
  std::unique_ptr<ShmQueue> queue(unsigned index);
  unsigned queues() const { return layout_.options().queues; }
  // True while the other side has the wire mapped. It stays true when the other side is killed.
  bool link_up() const;

 private:
  friend class ShmQueue;
  ShmWire(std::byte* memory, const ShmWireLayout& layout, ShmSide side)
      : memory_(memory), layout_(layout), side_(side) {}

  std::byte* const memory_;
  const ShmWireLayout layout_;
  const ShmSide side_;
  std::uint64_t taken_ = 0;  // a bit for each queue that was handed out
};

class ShmQueue final : public NicQueue {
 public:
  std::size_t receive(std::span<MutableBytes> frames) override;
  std::size_t reserve(std::span<TxFrame> frames) override;
  void commit(std::span<const TxFrame> frames) override;
  bool link_up() const override { return wire_->link_up(); }
  std::uint32_t max_frame_bytes() const override { return max_frame_bytes_; }
  // nullptr while the other side has taken none of the frames of a full ring: there is no entry to announce it in.
  WakeWord* wake_word() override;
  void announce_sleep() override;
  void withdraw_sleep() override;

  // Frames dropped on receipt because their length was impossible.
  std::uint64_t bad_lengths() const { return bad_lengths_.get(); }

 private:
  friend class ShmWire;
  // One direction as this end walks it; numbers wrap.
  struct Lane {
    ShmRing* ring;
    std::byte* slots;
    std::uint32_t next;   // the number of the next frame to announce or to receive
    std::uint32_t freed;  // all before it were given back, as far as this end has reported or seen
  };
  ShmQueue(std::shared_ptr<ShmWire> wire, unsigned index);
  Lane lane(unsigned index, ShmSide sender) const;
  std::byte* slot(const Lane& lane, std::uint32_t number) const;
  std::uint32_t room() const { return frames_per_ring_ - (transmit_.next - transmit_.freed); }
  void refresh_room();
  std::atomic<std::uint64_t>& entry(const Lane& lane, std::uint32_t number) const {
    return lane.ring->entries[number & (frames_per_ring_ - 1)];
  }
  void on_other_asleep();
  void ring_other_side();

  const std::shared_ptr<ShmWire> wire_;
  const std::uint32_t frames_per_ring_;
  const std::uint32_t max_frame_bytes_;
  const std::uint32_t slot_stride_;
  Lane receive_;
  Lane transmit_;
  bool other_sleeps_ = false;  // as of the last receive(), and it was not rung since
  std::uint32_t rung_at_ = 0;  // transmit_.next when the other side was last woken
  Counter bad_lengths_;
};

}  // namespace braid::proxy
