// One lane of an endpoint: its channel to one proxy, seen from the client. SendLane holds what leaves,
// ArrivalLane what arrives; EndpointLanes is all of an endpoint's, one for each proxy.
//
// Everything here runs once or more for each message, so all of it is inline.
//
// Owned by the endpoint's thread; EndpointLanes::have_arrivals() may be asked by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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
        data_end_(g.send_descriptors) {}

  // Finds room for a descriptor and `bytes` in the data area, whose offset goes to `offset`. Takes nothing;
  // false: full. Looks at what the proxy has given back only when room is short.
  [[nodiscard]] bool find_room(std::uint32_t bytes, std::uint32_t* offset) {
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
  void publish() { ring_.publish_and_wake(); }
  // Notes what the proxy has given back. Descriptors come back in order, and with each the data before its
  // end.
  void reclaim() {
    (void)ring_.refresh();
    if (ring_.consumed() == reclaimed_) return;
    reclaimed_ = ring_.consumed();
    data_head_ = data_end_[(reclaimed_ - 1) & (ring_.capacity() - 1)];
    if (data_head_ == data_tail_) tail_offset_ = 0;  // empty: the beginning is warm in the cache
  }

  // Descriptors pushed since the start, modulo 2^32.
  std::uint32_t pushed() const { return ring_.produced(); }
  std::uint32_t unpublished() const { return ring_.unpublished_entries(); }
  // Bytes of the data area that the proxy had not given back at the last reclaim().
  std::uint64_t bytes_in_use() const { return data_tail_ - data_head_; }

 private:
  // Bytes that stay unused before the piece are freed with it.
  void take_data(std::uint32_t bytes, std::uint32_t offset) {
    const auto taken = static_cast<std::uint32_t>(round_up(bytes, convergence::kGranuleBytes));
    data_tail_ += (offset == tail_offset_ ? 0 : data_bytes_ - tail_offset_) + taken;
    tail_offset_ = offset + taken == data_bytes_ ? 0 : offset + taken;
    data_end_[ring_.produced() & (ring_.capacity() - 1)] = data_tail_;
  }

  SendProducer ring_;
  std::byte* data_;
  std::uint32_t data_bytes_;
  std::uint32_t tail_offset_ = 0;  // data_tail_ modulo data_bytes_: a division for each message is expensive
  std::uint64_t data_tail_ = 0;
  std::uint64_t data_head_ = 0;
  std::vector<std::uint64_t> data_end_;  // by descriptor: what its release makes data_head_
  std::uint32_t reclaimed_ = 0;          // descriptors
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

  bool has_arrival() { return early_ || ring_.readable() > 0; }
  // A copy of the next arrival; has_arrival().
  ArrivalDescriptor take() {
    if (!early_) return ring_.take();
    const ArrivalDescriptor kept = *early_;
    early_.reset();
    return kept;
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
  bool keeps_arrival() const { return early_.has_value(); }
  // Gives what was taken back to the proxy.
  void release() { ring_.release(ring_.taken()); }
  // Any thread: entries are in the ring that have not been released.
  bool looks_non_empty() const {
    return control_->tail.load(std::memory_order_acquire) != control_->head.load(std::memory_order_relaxed);
  }

 private:
  ArrivalConsumer ring_;
  const RingControl* control_;
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
