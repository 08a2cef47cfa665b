// A message that waits to be sent or acknowledged, and how its records are written into a packet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "stack/secure/aead.h"
#include "stack/wire/checksum.h"
#include "stack/wire/segment.h"

namespace braid::stack {

// A piece of a message on its way: what the record says, where the bytes lie, and what is not yet
// acknowledged. The driver owns it and the bytes, and leaves both alone until take_finished() returns it.
struct OutMessage {
  Record record;  // of the whole piece: bytes in `bytes`, not in record.bytes
  const std::byte* data = nullptr;
  std::uint32_t bytes = 0;
  TrainLengths lengths;  // of the messages of a train (record.messages)

  std::uint32_t unacknowledged = 0;  // bytes; 1 for a message of none
  OutMessage* next = nullptr;        // the queue, later the list of the finished
  bool failed = false;               // finished because the peer was lost, not because it has it
};

// A connection counts positions in granules of so many bytes (convergence/position.h); messages are cut there.
inline constexpr std::uint32_t kCutBytes = 64;

// The long records of a packet whose bytes sealing moves there.
class UnmovedRecords {
 public:
  // False: there is no room for one more.
  bool add(const PartElsewhere& part) {
    if (count_ == parts_.size()) return false;
    parts_[count_++] = part;
    return true;
  }
  void clear() { count_ = 0; }
  std::span<const PartElsewhere> parts() const { return {parts_.data(), count_}; }

 private:
  std::array<PartElsewhere, 16> parts_{};
  std::size_t count_ = 0;
};

// A packet that is being written. Its header and short records are summed all together in the end, long ones
// while they are copied; what of the header is known only then is zero until then.
class PacketWriter {
 public:
  // `room` holds the longest header and whatever is put. `unmoved`: the packet will be sealed, which moves what is noted
  // there, and is summed after it; nullptr: it is plain.
  PacketWriter(MutableBytes room, const PacketHeader& header, UnmovedRecords* unmoved = nullptr)
      : begin_(room.data()),
        at_(begin_ + write_packet_header(begin_, header)),
        summed_(begin_),
        unmoved_(unmoved) {}

  // The record of `bytes` bytes of the message, from `offset` on.
  [[gnu::always_inline]] void put(const OutMessage& m, std::uint32_t offset, std::uint32_t bytes) {
    at_ += write_header(at_, m, offset, bytes);
    put_bytes(m, offset, bytes);
  }
  // The record of a whole train.
  [[gnu::always_inline]] void put_train(const OutMessage& m) {
    at_ += write_train_header(at_, m.record, static_cast<std::uint16_t>(m.bytes), m.lengths);
    put_bytes(m, 0, m.bytes);
  }
  std::byte* begin() const { return begin_; }
  // Nothing more is put: the packet's length, and in `sum` its checksum, unless it will be sealed.
  [[gnu::always_inline]] std::size_t finish(std::uint8_t records, bool ack_at_once,
                                            std::uint64_t* sum) const {
    if (unmoved_ != nullptr) {
      (void)complete_header(begin_, records, ack_at_once);
    } else {
      const std::uint64_t total = checksum_add(total_, {summed_, static_cast<std::size_t>(at_ - summed_)});
      *sum = checksum_combine(total, complete_header(begin_, records, ack_at_once));
    }
    return static_cast<std::size_t>(at_ - begin_);
  }

 private:
  // Worth a pass of its own that copies and sums together.
  static constexpr std::uint32_t kCopyAndSumFrom = 512;
  static constexpr std::size_t kCopyInlineUpTo = 128;

  [[gnu::always_inline]] void put_bytes(const OutMessage& m, std::uint32_t offset, std::uint32_t bytes) {
    if (bytes >= kCopyAndSumFrom && unmoved_ != nullptr && unmoved_->add({at_, {m.data + offset, bytes}})) {
      std::memset(at_ + bytes, 0, padded(bytes) - bytes);
    } else if (bytes >= kCopyAndSumFrom) {
      total_ = checksum_add(total_, {summed_, static_cast<std::size_t>(at_ - summed_)});
      total_ = copy_and_sum(at_, m.data + offset, bytes, total_);
      // An odd end is followed by a zero, which the sum has taken into account already.
      summed_ = at_ + ((bytes + 1) & ~std::size_t{1});
      if (padded(bytes) != bytes) std::memset(at_ + bytes, 0, padded(bytes) - bytes);
    } else {
      copy_padded(at_, m.data + offset, bytes);
    }
    at_ += padded(bytes);
  }
  [[gnu::always_inline]] static std::size_t write_header(std::byte* to, const OutMessage& m,
                                                         std::uint32_t offset, std::uint32_t bytes) {
    if (offset == 0) [[likely]]
      return write_record_header(to, m.record, static_cast<std::uint16_t>(bytes));
    Record r = m.record;
    r.position += offset / kCutBytes;
    r.message_offset += offset;
    r.skip = 0;
    return write_record_header(to, r, static_cast<std::uint16_t>(bytes));
  }
  // Copies `n` bytes and adds zeroes up to padded(n). Short ones without a call.
  [[gnu::always_inline]] static void copy_padded(std::byte* to, const std::byte* from, std::size_t n) {
    if (padded(n) != n) store(to + padded(n) - 4, std::uint32_t{0});  // the copy ends in it
    if (n > kCopyInlineUpTo) {
      std::memcpy(to, from, n);
      return;
    }
    if (n >= 64) {
      std::memcpy(to, from, 64);
      if (n == 64) return;
      to += 64;
      from += 64;
      n -= 64;
    }
    for (const std::size_t step : {64, 32, 16, 8, 4, 2, 1}) {
      if ((n & step) == 0) continue;
      std::memcpy(to, from, step);
      to += step;
      from += step;
    }
  }

  std::byte* begin_;
  std::byte* at_;
  const std::byte* summed_;  // everything before it is in total_
  std::uint64_t total_ = 0;
  UnmovedRecords* unmoved_;
};

}  // namespace braid::stack
