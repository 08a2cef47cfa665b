// One lane of an endpoint: its channel to one proxy, seen from the client. SendLane holds what leaves,
// ArrivalLane what arrives; EndpointLanes is all of an endpoint's, one for each proxy.
//
// Everything here runs once or more for each message, so all of it is inline.
//
// Owned by the endpoint's thread; EndpointLanes::have_arrivals() may be asked by any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "convergence/position.h"
#include "proxy/channel/channel.h"
#include "proxy/channel/node_counters.h"

namespace braid::proxy {

// The ring of descriptors and the data area beside it. The data area is a ring too, in the order of the
// descriptors; a piece is never cut by its end, so the bytes before the end may stay unused.
//
//      reclaimed            taken by pieces in flight             free
//   --------|------------------------------------------|-------------------
//        data_head_                                data_tail_
class SendLane {
 public:
  SendLane(std::byte* memory, const ChannelGeometry& g, unsigned endpoint, unsigned proxy)
      : ring_(memory + g.send_ring(endpoint, proxy), g.send_descriptors),
        data_(memory + g.send_data(endpoint, proxy)),
        data_bytes_(g.send_bytes),
        data_end_(g.send_descriptors),
        train_limits_(g.train) {}

  // Finds room for a descriptor and `bytes` in the data area, whose offset goes to `offset`. Takes nothing;
  // false: full. Looks at what the proxy has given back only when room is short.
  [[nodiscard]] bool find_room(std::uint32_t bytes, std::uint32_t* offset) {
    account_train();
    const std::uint64_t need = round_up(bytes, convergence::kGranuleBytes);
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::uint64_t waste = tail_offset_ + need > data_bytes_ ? data_bytes_ - tail_offset_ : 0;
      if (ring_.produced() - reclaimed_ < ring_.capacity() &&
          data_tail_ + waste + need - data_head_ <= data_bytes_) {
        *offset = waste > 0 ? 0 : tail_offset_;
        return true;
      }
      if (attempt == 0) reclaim();
    }
    return false;
  }
  // Where the data of a piece at `offset` is written before push().
  std::byte* data(std::uint32_t offset) { return data_ + offset; }
  // Takes the room that the last find_room() found, for the first descriptor.bytes of it. The proxy sees the
  // descriptor after publish().
  void push(const SendDescriptor& descriptor) {
    take_data(descriptor.bytes, descriptor.data_offset);
    ring_.push(descriptor);
  }
  // Like push(), for a descriptor without data.
  void push_empty(const SendDescriptor& descriptor) {
    take_data(0, tail_offset_);
    ring_.push(descriptor);
  }

  // --- trains (CV-11)

  // Like push(), of a whole message; messages of the same port at the positions from `next` on may join it, until
  // something else is pushed or it is published.
  void push_joinable(const SendDescriptor& descriptor, Position next) {
    push(descriptor);
    if (train_limits_.messages < 2 || descriptor.bytes > train_limits_.bytes ||
        ring_.produced() - reclaimed_ == ring_.capacity())  // no room for the lengths
      return;
    const std::uint64_t free = data_bytes_ - (data_tail_ - data_head_);
    const std::uint64_t before_end = data_bytes_ - descriptor.data_offset;
    const std::uint64_t room =
        std::min(round_up(descriptor.bytes, convergence::kGranuleBytes) + free, before_end);
    train_ = {.at = ring_.produced() - 1,
              .port = descriptor.source_port,
              .next = next,
              .messages = 1,
              .accounted_messages = 1,
              .bytes = stack::train_aligned(descriptor.bytes),
              .accounted_bytes = stack::train_aligned(descriptor.bytes),
              .most_bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(room, train_limits_.bytes)),
              .first_bytes = descriptor.bytes,
              .data_offset = descriptor.data_offset,
              .descriptor = &ring_.unpublished_entry(ring_.produced() - 1),
              .lengths = nullptr};
  }
  // A message of `bytes` bytes at that position can join what was pushed last, and there is room for it.
  bool joinable(std::uint32_t port, Position position, std::uint32_t bytes) const {
    return train_.port == port && train_.next == position &&
           train_.bytes + stack::train_aligned(bytes) <= train_.most_bytes;
  }
  // Where the data of the message that joins next begins.
  std::uint32_t join_offset() const { return train_.data_offset + train_.bytes; }
  // A message joins that is joinable(); its `bytes` bytes lie at join_offset(). `next`: the position behind it.
  void join(std::uint32_t bytes, Position next) {
    if (train_.messages == 1) [[unlikely]]
      begin_train();
    pad(join_offset(), bytes);
    train_.bytes += stack::train_aligned(bytes);
    train_.next = next;
    train_.lengths[train_.messages] = static_cast<std::uint16_t>(bytes);
    if (++train_.messages == train_limits_.messages) close_train();
  }
  void publish() {
    if (!ring_.unpublished()) return;
    close_train();
    ring_.publish_and_wake();
  }
  // Notes what the proxy has given back. Descriptors come back in order, and with each the data before its
  // end.
  void reclaim() {
    account_train();
    (void)ring_.refresh();
    if (ring_.consumed() == reclaimed_) return;
    reclaimed_ = ring_.consumed();
    data_head_ = data_end_[(reclaimed_ - 1) & (ring_.capacity() - 1)];
    if (data_head_ != data_tail_) return;
    tail_offset_ = 0;  // empty: the beginning is warm in the cache
    close_train();     // it would be one of messages of no bytes
  }

  // Descriptors pushed since the start, modulo 2^32.
  std::uint32_t pushed() const { return ring_.produced(); }
  // Calls f(descriptor) for each that publish() makes visible. A train has one.
  template <class F>
  void for_each_unpublished(F&& f) {
    account_train();
    for (std::uint32_t at = ring_.produced() - ring_.unpublished_entries(); at != ring_.produced();) {
      const SendDescriptor& descriptor = ring_.unpublished_entry(at);
      at += descriptor.messages != 0 ? 2 : 1;  // a train's lengths are behind it
      f(descriptor);
    }
  }
  // Bytes of the data area that the proxy had not given back at the last reclaim().
  std::uint64_t bytes_in_use() const { return data_tail_ - data_head_ + unaccounted(); }

 private:
  // Bytes that stay unused before the piece are freed with it.
  void take_data(std::uint32_t bytes, std::uint32_t offset) {
    close_train();
    const auto taken = static_cast<std::uint32_t>(round_up(bytes, convergence::kGranuleBytes));
    data_tail_ += (offset == tail_offset_ ? 0 : data_bytes_ - tail_offset_) + taken;
    tail_offset_ = offset + taken == data_bytes_ ? 0 : offset + taken;
    data_end_[ring_.produced() & (ring_.capacity() - 1)] = data_tail_;
  }

  // The message or train pushed last, as long as messages may join it.
  struct Train {
    std::uint32_t at = 0;  // its descriptor
    std::uint32_t port = 0;
    Position next;
    std::uint32_t messages = 0;
    std::uint32_t accounted_messages = 0;  // of them, in the descriptor
    std::uint32_t bytes = 1;               // up to where the next message begins
    std::uint32_t accounted_bytes = 1;     // of accounted_messages
    std::uint32_t most_bytes = 0;          // that it may have; less than `bytes`: none may join
    std::uint32_t first_bytes = 0;
    std::uint32_t data_offset = 0;
    SendDescriptor* descriptor = nullptr;  // in the ring, while it is not published
    std::uint16_t* lengths = nullptr;      // in the ring's next entry
  };

  // The message pushed last becomes a train of one: its lengths take the ring's next entry.
  [[gnu::noinline]] void begin_train() {
    pad(train_.data_offset, train_.first_bytes);
    const stack::TrainLengths lengths{static_cast<std::uint16_t>(train_.first_bytes)};
    ring_.push(std::bit_cast<SendDescriptor>(lengths));
    train_.lengths = reinterpret_cast<std::uint16_t*>(&ring_.unpublished_entry(train_.at + 1));
    data_end_[(train_.at + 1) & (ring_.capacity() - 1)] = data_tail_;
  }
  // Of the data area, by messages that have joined since account_train().
  std::uint64_t unaccounted() const {
    return round_up(train_.bytes, convergence::kGranuleBytes) -
           round_up(train_.accounted_bytes, convergence::kGranuleBytes);
  }
  // Brings the descriptor, and what is taken of the data area, up to the messages that have joined: once for all of
  // them. The train's two entries come back together.
  void account_train() {
    if (train_.accounted_messages == train_.messages) return;
    SendDescriptor& descriptor = *train_.descriptor;
    descriptor.bytes = train_.bytes;
    descriptor.message_bytes = train_.bytes;
    descriptor.messages = static_cast<std::uint8_t>(train_.messages);
    data_tail_ += unaccounted();
    tail_offset_ += static_cast<std::uint32_t>(unaccounted());
    if (tail_offset_ == data_bytes_) tail_offset_ = 0;
    data_end_[(train_.at + 1) & (ring_.capacity() - 1)] = data_tail_;
    train_.accounted_messages = train_.messages;
    train_.accounted_bytes = train_.bytes;
  }
  // No message may join any more.
  void close_train() {
    account_train();
    train_.messages = train_.accounted_messages = 0;
    train_.bytes = train_.accounted_bytes = 1;
    train_.most_bytes = 0;
  }
  // Zeroes behind a message, up to where the next one begins: nothing that lay there before leaves.
  void pad(std::uint32_t offset, std::uint32_t bytes) {
    const std::uint32_t end = stack::train_aligned(bytes);
    if (end != bytes) std::memset(data_ + offset + bytes, 0, end - bytes);
  }

  SendProducer ring_;
  std::byte* data_;
  std::uint32_t data_bytes_;
  std::uint32_t tail_offset_ = 0;  // data_tail_ modulo data_bytes_: a division for each message is expensive
  std::uint64_t data_tail_ = 0;
  std::uint64_t data_head_ = 0;
  std::vector<std::uint64_t> data_end_;  // by descriptor: what its release makes data_head_
  std::uint32_t reclaimed_ = 0;          // descriptors
  const TrainLimits train_limits_;
  Train train_;
};

// The ring of arrivals. An arrival can come before the control plane has told the client of its connection;
// it is kept, with everything behind it, until the connection is known or the time for that is over.
class ArrivalLane {
 public:
  // The control plane announces a connection within milliseconds.
  static constexpr Duration kEarlyArrivalTimeout = Duration::s(5);

  ArrivalLane(std::byte* memory, const ChannelGeometry& g, unsigned endpoint, unsigned proxy)
      : ring_(memory + g.arrival_ring(endpoint, proxy), g.arrivals),
        control_(reinterpret_cast<const RingControl*>(memory + g.arrival_ring(endpoint, proxy))) {}

  bool has_arrival() { return in_train() || early_ || ring_.readable() > 0; }
  // A copy of the next arrival; has_arrival(). The messages of a train are arrivals of their own.
  ArrivalDescriptor take() {
    if (early_) [[unlikely]] {
      const ArrivalDescriptor kept = *early_;
      early_.reset();
      return kept;
    }
    if (in_train()) return take_from_train();
    const ArrivalDescriptor arrival = ring_.take();
    if (arrival.messages == 0) return arrival;
    begin_train(arrival);
    return take_from_train();
  }
  // take() returns a message of the train taken last, as train_message() says.
  bool continues_train() const { return in_train() && !early_; }
  struct TrainMessage {
    std::uint32_t port;
    Position position;
    std::uint32_t bytes;
  };
  TrainMessage train_message() const {
    return {next_.destination_port, Position(next_.position), lengths_[train_taken_]};
  }
  // The same as take(), for a caller that has it from train_message(). continues_train().
  void take_train_message() {
    next_.position += convergence::granules_of(lengths_[train_taken_++]);
    next_.skip = 0;
  }
  // The connection of the arrival just taken is not known yet: take() will return it once more. False: it has
  // been kept for kEarlyArrivalTimeout, and is given up.
  [[nodiscard]] bool keep(const ArrivalDescriptor& arrival, Instant now) {
    if (early_until_ == Instant()) early_until_ = now + kEarlyArrivalTimeout;
    if (now < early_until_) {
      early_ = arrival;
      return true;
    }
    early_until_ = Instant();
    return false;
  }
  // The arrival just taken has been handled: the next one that comes early has the whole time.
  void handled() { early_until_ = Instant(); }
  // keep() has one.
  bool keeps_early() const { return early_.has_value(); }
  // Some that was taken from the ring is left.
  bool keeps_arrival() const { return early_.has_value() || in_train(); }
  // Gives what was taken back to the proxy.
  void release() { ring_.release(ring_.taken()); }
  // Any thread: entries are in the ring that have not been released.
  bool looks_non_empty() const {
    return control_->tail.load(std::memory_order_acquire) != control_->head.load(std::memory_order_relaxed);
  }

 private:
  bool in_train() const { return train_taken_ < train_messages_; }
  // The proxy has published the train's lengths with its descriptor.
  void begin_train(const ArrivalDescriptor& train) {
    CHECK_GT(ring_.readable(), 0u);
    const ArrivalDescriptor table = ring_.take();
    lengths_ = std::bit_cast<stack::TrainLengths>(table);
    next_ = train;
    next_.messages = 0;
    train_messages_ = std::min<std::size_t>(train.messages, stack::kMaxTrainMessages);
    train_taken_ = 0;
  }
  ArrivalDescriptor take_from_train() {
    next_.bytes = lengths_[train_taken_++];
    next_.message_bytes = next_.bytes;
    next_.message = next_.position;
    const ArrivalDescriptor one = next_;
    next_.position += convergence::granules_of(one.bytes);
    next_.skip = 0;
    return one;
  }

  ArrivalConsumer ring_;
  const RingControl* control_;
  // Of the train taken last: its next message, if one is left.
  std::size_t train_messages_ = 0;
  std::size_t train_taken_ = 0;
  ArrivalDescriptor next_;
  stack::TrainLengths lengths_;
  std::optional<ArrivalDescriptor> early_;
  Instant early_until_;  // Instant(): the next early arrival is the first look at it
};

struct EndpointLane {
  EndpointLane(std::byte* memory, const ChannelGeometry& g, unsigned endpoint, unsigned proxy)
      : send(memory, g, endpoint, proxy), arrivals(memory, g, endpoint, proxy) {}

  SendLane send;
  ArrivalLane arrivals;
};

// An endpoint's lanes, by proxy.
class EndpointLanes {
 public:
  EndpointLanes(std::byte* memory, const ChannelGeometry& g, unsigned endpoint) {
    lanes_.reserve(g.proxies);
    for (unsigned p = 0; p < g.proxies; ++p) lanes_.emplace_back(memory, g, endpoint, p);
  }

  EndpointLane& operator[](unsigned proxy) { return lanes_[proxy]; }
  const EndpointLane& operator[](unsigned proxy) const { return lanes_[proxy]; }
  unsigned size() const { return static_cast<unsigned>(lanes_.size()); }

  void publish() {
    for (EndpointLane& lane : lanes_) lane.send.publish();
  }
  bool have_arrivals() const {
    for (const EndpointLane& lane : lanes_)
      if (lane.arrivals.looks_non_empty()) return true;
    return false;
  }
  bool keep_arrivals() const {
    for (const EndpointLane& lane : lanes_)
      if (lane.arrivals.keeps_arrival()) return true;
    return false;
  }

  // load() reads these counters; they must outlive this object.
  void set_counters(const NodeCounters& counters) { counters_ = &counters; }
  bool has_counters() const { return counters_ != nullptr; }
  // Bytes that wait at the proxy that serves lane `p`, and those that this endpoint has put before it.
  // has_counters().
  std::uint64_t load(unsigned p) const {
    const unsigned server = counters_->server[p].load(std::memory_order_relaxed) % kMaxProxies;
    return counters_->proxy[server].queued_bytes.get() + lanes_[p].send.bytes_in_use();
  }

 private:
  std::vector<EndpointLane> lanes_;
  const NodeCounters* counters_ = nullptr;
};

}  // namespace braid::proxy
