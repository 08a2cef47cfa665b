// A NicQueue that loses, duplicates, reorders and corrupts arriving frames, by chance from a seed or by count:
// for tests, and for runs on a bad network.
//
// Faults happen on receipt only. A decorator at each end covers both directions of a wire, and frames to
// transmit are still written straight into the wire's own buffer.
//
// A frame that is reordered or duplicated is copied into one of a bounded number of buffers and given out
// later; when none is free the fault does not happen (and is counted): nothing is lost but what `loss` asks
// for. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/prng.h"
#include "base/result.h"
#include "proxy/nic/nic_queue_decorator.h"

namespace braid::proxy {

struct Faults {
  // Probabilities in [0, 1] for every arriving frame. Loss is drawn first; a frame can suffer several of the
  // rest.
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;
  // One bit behind the Ethernet header, which a checksum must catch. IPv4 only: ARP has none, the FCS that
  // would have caught it on a real wire is gone by now.
  double corrupt = 0;

  // A frame held back comes after 1 to reorder_distance later ones (reordering by more than 3 looks like loss
  // to fast retransmission, so the default shows both), or after this many calls if too few follow: by then
  // the sender is probably waiting for an answer to it.
  unsigned reorder_distance = 8;
  unsigned reorder_calls = 32;
  // Buffers for held and duplicated frames, each max_frame_bytes() long.
  unsigned held_frames = 64;

  // Every n-th whole IPv4/UDP frame that is longer than flip_longer_than_bytes gets one bit of its payload's
  // second half flipped and its UDP checksum made right, so that nothing below the application can
  // notice. The second half lies behind the headers of a message that fills the frame. Where several messages
  // travel in a frame a header can be hit; the message is then lost, and its connection is told (CV-10). 0:
  // never. The threshold spares control messages; with an MTU of 1500 set 1000.
  std::uint64_t flip_past_checksum_every = 0;
  std::uint32_t flip_longer_than_bytes = 2048;

  // Every frame after so many is lost. 0: never.
  std::uint64_t drop_all_after = 0;

  // The same seed and the same arrivals give the same faults. Give every queue one of its own.
  std::uint64_t seed = 1;

  bool any() const {
    return loss > 0 || duplicate > 0 || reorder > 0 || corrupt > 0 || flip_past_checksum_every > 0 ||
           drop_all_after > 0;
  }
  Result<void> validate() const;
};

// Written by the queue's owner, readable by any thread.
struct FaultCounts {
  Counter arrived;                // frames that the wire underneath delivered
  Counter lost;                   // of these, thrown away
  Counter duplicated;             // given out twice
  Counter reordered;              // held back
  Counter corrupted;              // one bit flipped, checksum left wrong
  Counter flipped_past_checksum;  // one bit flipped, checksum made right
  Counter no_buffer;              // not duplicated or not held back for want of a buffer
};

class FaultyQueue final : public NicQueueDecorator {
 public:
  FaultyQueue(std::unique_ptr<NicQueue> wire, const Faults& faults);  // faults.validate() is ok

  std::size_t receive(std::span<MutableBytes> frames) override;
  // Frames that are held back come by polling.
  WakeWord* wake_word() override { return held_.empty() ? wire_->wake_word() : nullptr; }

  const FaultCounts& counts() const { return counts_; }

 private:
  // A frame that is held back; due when either count reaches zero.
  struct Held {
    std::uint32_t buffer;
    std::uint32_t length;
    unsigned frames_to_go;
    unsigned calls_to_go;
  };
  bool hold(MutableBytes frame);
  std::size_t give_out_due(std::span<MutableBytes> frames);
  void flip_bits(MutableBytes frame);

  const Faults faults_;
  Prng random_;
  std::uint64_t flip_candidates_ = 0;
  std::uint64_t frames_seen_ = 0;  // counted while drop_all_after is set
  std::vector<std::byte> storage_;
  std::vector<std::uint32_t> free_;  // buffers that hold nothing
  std::vector<std::uint32_t> lent_;  // buffers that the last receive() gave out
  std::vector<Held> held_;           // oldest first
  FaultCounts counts_;
};

}  // namespace braid::proxy
