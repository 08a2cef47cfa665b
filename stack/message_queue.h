// The messages of a sub-connection, from send() until their driver has them back: in the order in which they
// are sent, cut into the records of packets.
//
//    partly or wholly in flight         unsent_                          last_
//   --- m ------- m ------- m ------------ m ----------- m ----------- m
//       |________________________________| |__________________________|
//        linked as long as a packet that     |
//        holds a part is not acknowledged    from unsent_offset_ on
//
// A message is finished when everything of it is acknowledged, or when it failed; take_finished() returns it.
// Pure; owned by the sub-connection.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "stack/packet_writer.h"
#include "stack/window/send_window.h"
#include "stack/wire/segment.h"

namespace braid::stack {

// The records of a packet: consecutive messages, from `offset` of the first to `last_bytes` of the last. They
// never change (SC-6).
struct PacketContent {
  OutMessage* first = nullptr;
  std::uint32_t offset = 0;
  std::uint32_t last_bytes = 0;
  std::uint8_t records = 0;
};
using PacketWindow = SendWindow<PacketContent>;

class MessageQueue {
 public:
  // Packets are at most so long, header included.
  explicit MessageQueue(std::size_t max_packet_bytes) : capacity_(max_packet_bytes - kMaxPacketHeaderBytes) {
    CHECK_LE(capacity_, kMaxRecordBytes);
  }
  MessageQueue(const MessageQueue&) = delete;  // finished_tail_ points into it
  MessageQueue& operator=(const MessageQueue&) = delete;

  // True if nothing was unsent before.
  bool push(OutMessage& m) {
    m.next = nullptr;
    m.failed = false;
    m.unacknowledged = std::max(m.bytes, 1u);
    messages_ += messages_in(m);
    bytes_ += m.bytes;
    const bool first = unsent_ == nullptr;
    if (first) {
      unsent_ = &m;
      unsent_offset_ = 0;
    } else {
      last_->next = &m;
    }
    last_ = &m;
    return first;
  }
  bool has_unsent() const { return unsent_ != nullptr; }
  // Writes the records of the next packet, of what was not sent yet (SC-6). Something is unsent.
  PacketContent cut(PacketWriter& into);
  // Writes the records of a packet that was cut before.
  static void write(const PacketContent& content, PacketWriter& packet) {
    for_each_record(content, [&](OutMessage& m, std::uint32_t offset, std::uint32_t bytes) {
      put(packet, m, offset, bytes);
    });
  }
  // The packet was acknowledged: the messages of which nothing else is in flight are finished.
  void acknowledged(const PacketContent& content) { finish_parts(content, false); }
  // The messages that are finished since the last call, linked by `next`; nullptr: none.
  OutMessage* take_finished() {
    if (finished_tail_ == &finished_) return nullptr;
    *finished_tail_ = nullptr;
    finished_tail_ = &finished_;
    return finished_;
  }

  // Everything that is not acknowledged fails: oldest first, then what is unsent (SC-5).
  void fail_all(const PacketWindow& in_flight);
  // Unlinks what is not wholly acknowledged, oldest first, and leaves it as it was before push().
  OutMessage* take_back(const PacketWindow& in_flight);
  // The queue is empty: what take_back() returned is to be sent once more. The receiver may have some of it.
  void push_again(OutMessage* first);
  // Messages that were handed back to the driver unfinished count no longer.
  void forget_load() {
    gone_messages_ = messages_;
    gone_bytes_ = bytes_;
  }

  // Given to push(), ever.
  std::uint64_t messages() const { return messages_; }
  std::uint64_t bytes() const { return bytes_; }
  // Of those: neither finished nor forgotten.
  std::uint32_t queued_messages() const { return static_cast<std::uint32_t>(messages_ - gone_messages_); }
  std::uint64_t queued_bytes() const { return bytes_ - gone_bytes_; }
  void check() const { CHECK(unsent_ == nullptr || last_ != nullptr); }

 private:
  // Calls f(message, offset, bytes) for the records of a packet that was cut before.
  template <class F>
  static void for_each_record(const PacketContent& content, F&& f) {
    OutMessage* m = content.first;
    std::uint32_t offset = content.offset;
    for (unsigned left = content.records; left > 0; --left) {
      OutMessage* const next = m->next;  // f may give the message back
      f(*m, offset, left > 1 ? m->bytes - offset : content.last_bytes);
      m = next;
      offset = 0;
    }
  }
  // How many bytes of the message the record at `offset` holds. It depends on nothing else (SC-6): a message
  // that another sub-connection carries has the same records there, and its receiver recognises them.
  std::uint32_t part_bytes(const OutMessage& m, std::uint32_t offset) const {
    const std::uint32_t rest = m.bytes - offset;
    const bool whole = offset == 0 && m.bytes == m.record.message_bytes;
    if ((whole ? whole_header_bytes(m) : kPartRecordBytes) + padded(rest) <= capacity_) return rest;
    CHECK_EQ(m.record.messages, 0);  // a train is never cut
    return static_cast<std::uint32_t>((capacity_ - kPartRecordBytes) / kCutBytes * kCutBytes);
  }
  static unsigned messages_in(const OutMessage& m) { return m.record.messages == 0 ? 1 : m.record.messages; }
  [[gnu::always_inline]] static void put(PacketWriter& packet, const OutMessage& m, std::uint32_t offset,
                                         std::uint32_t bytes) {
    if (m.record.messages != 0) [[unlikely]]
      packet.put_train(m);
    else
      packet.put(m, offset, bytes);
  }
  static std::size_t whole_header_bytes(const OutMessage& m) {
    return kWholeRecordBytes + train_table_bytes(m.record.messages);
  }
  void finish_parts(const PacketContent& content, bool failed) {
    for_each_record(content, [&](OutMessage& m, std::uint32_t, std::uint32_t bytes) {
      const std::uint32_t finished_bytes = std::max(bytes, 1u);
      CHECK(m.unacknowledged >= finished_bytes);
      m.unacknowledged -= finished_bytes;
      if (m.unacknowledged == 0) finish(m, failed);
    });
  }
  void finish(OutMessage& m, bool failed) {
    if (failed) m.failed = true;
    gone_messages_ += messages_in(m);
    gone_bytes_ += m.bytes;
    *finished_tail_ = &m;
    finished_tail_ = &m.next;
  }

  static constexpr unsigned kMaxRecords = 0xff;  // a packet's number of them has 8 bits

  std::size_t capacity_;          // of a packet with the longest header, for records
  OutMessage* unsent_ = nullptr;  // the first of which something was not yet sent
  std::uint32_t unsent_offset_ = 0;
  OutMessage* last_ = nullptr;
  OutMessage* finished_ = nullptr;
  OutMessage** finished_tail_ = &finished_;  // where the next one is linked; what it points to is not set
  std::uint64_t messages_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t gone_messages_ = 0;
  std::uint64_t gone_bytes_ = 0;
};

[[gnu::always_inline]] inline PacketContent MessageQueue::cut(PacketWriter& into) {
  PacketWriter packet = into;  // in registers, as far as they go
  // As if the header were the longest, so that the same records fit whenever the packet is sent again.
  std::size_t left = capacity_;
  PacketContent content{unsent_, unsent_offset_, 0, 0};
  unsigned records = 0;
  OutMessage* m = unsent_;
  std::uint32_t offset = unsent_offset_;
  for (; m != nullptr && records < kMaxRecords; offset = 0) {
    // Nearly all are whole messages that fit.
    std::uint32_t bytes = m->bytes;
    std::size_t record = kWholeRecordBytes + padded(bytes);
    if (offset != 0 || bytes != m->record.message_bytes || record > left || m->record.messages != 0)
        [[unlikely]] {
      bytes = part_bytes(*m, offset);
      record = (bytes == m->record.message_bytes ? whole_header_bytes(*m) : kPartRecordBytes) + padded(bytes);
      if (record > left) break;
    }
    left -= record;
    ++records;
    content.last_bytes = bytes;
    put(packet, *m, offset, bytes);
    if (offset + bytes < m->bytes) {  // no part of a message has room beside another of it
      offset += bytes;
      break;
    }
    m = m->next;
  }
  unsent_ = m;
  unsent_offset_ = offset;
  content.records = static_cast<std::uint8_t>(records);
  into = packet;
  return content;
}

}  // namespace braid::stack
