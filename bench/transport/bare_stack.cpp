#include "bench/transport/bare_stack.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "bench/round_trips.h"
#include "stack/stack.h"

namespace braid::bench {
namespace {

using proxy::NicQueue;
using proxy::TxFrame;

constexpr LinkId kLink(0);

stack::StackConfig stack_config(bool near, std::uint32_t mtu_bytes, const StackEnds& ends) {
  const auto id = [](bool n) { return stack::StackId{ClusterId(n ? 0 : 1), ProxyId(0)}; };
  stack::StackConfig c;
  c.local = id(near);
  stack::Interface own;
  own.address = ends.of(near).address;
  own.mac = ends.of(near).mac;
  c.interfaces.push_back(own);
  c.udp_port_base = kStackPort;
  c.mtu_bytes = mtu_bytes;
  c.seed = static_cast<std::uint64_t>(::getpid());
  stack::RemoteStack remote;
  remote.id = id(!near);
  remote.address = ends.of(!near).address;
  remote.udp_port = c.udp_port_base;
  remote.link = kLink;
  remote.mac = ends.of(!near).mac;
  c.remotes.push_back(remote);
  return c;
}

class BareStack final : public System {
 public:
  BareStack(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes, const StackEnds& ends)
      : queue_(std::move(queue)),
        stack_(stack_config(near, mtu_bytes, ends), monotonic_now()),
        sub_(*stack_.sub_connections()[0]),
        source_(kLargeBytes),
        sink_(kLargeBytes + 64),
        messages_(kMessages) {
    for (stack::OutMessage& m : messages_) free_.push_back(&m);
  }

  double trip_us(int trips, Latencies* each) override {
    CHECK(establish());
    return round_trip_us(trips, each, [this] {
      CHECK(give(kSmallBytes));
      transmit(monotonic_now());
      while (turn() == 0) {
      }
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
    CHECK(establish());
    while (monotonic_now() < end) {
      for (int i = 0; i < 128 && give(bytes); ++i) {
      }
      turn();
    }
  }
  // Also until nothing waits to be sent any more, or the next measurement would stand behind it.
  void drain(Duration d) override {
    const Instant begin = monotonic_now();
    for (Instant now = begin; now < begin + d || (free_.size() < kMessages && now < begin + 200_ms);
         now = monotonic_now())
      turn();
  }
  void far(Test test, Turn phase) override {
    while (!phase.over()) {
      const std::size_t n = turn();
      if (n == 0) continue;
      if (test == Test::kTrip) {
        CHECK(give(kSmallBytes));
        transmit(monotonic_now());
      } else {
        phase.received(n);
      }
    }
    drain(2_ms);
  }

 private:
  static constexpr std::size_t kMessages = 2048;

  bool establish() {
    const Instant limit = monotonic_now() + 10_s;
    while (!sub_.established() && monotonic_now() < limit) turn();
    return sub_.established();
  }
  bool give(std::uint32_t bytes) {
    if (free_.empty()) return false;
    stack::OutMessage& m = *free_.back();
    free_.pop_back();
    m = {};
    m.data = source_.data();
    m.bytes = bytes;
    m.record.message_bytes = bytes;
    m.record.position = m.record.message = Position(next_position_);
    next_position_ += (bytes + 63) / 64;
    sub_.send(m);
    return true;
  }
  // One turn of a proxy's loop; returns how many messages were completed.
  std::size_t turn() {
    const Instant now = monotonic_now();
    const std::size_t n = queue_->receive(arriving_);
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const stack::Stack::Received r = stack_.receive(now, kLink, arriving_[i]);
      if (r.what != stack::Stack::Received::What::kRecords) continue;
      stack::RecordReader reader(r.records, r.record_count);
      stack::Record record;
      ByteView bytes;
      while (reader.next(&record, &bytes)) {
        std::memcpy(sink_.data() + record.message_offset % kLargeBytes, bytes.data(), bytes.size());
        arrived_bytes_ += bytes.size();
        // Of messages of one size the bytes tell how many are whole, in whatever parts they come.
        if (arrived_bytes_ < record.message_bytes) continue;
        arrived_bytes_ -= record.message_bytes;
        ++arrived;
      }
      stack_.delivered(now, r);
    }
    transmit(now);
    for (stack::OutMessage* m = sub_.take_finished(); m != nullptr;) {
      stack::OutMessage* const next = m->next;
      free_.push_back(m);
      m = next;
    }
    return arrived;
  }
  void transmit(Instant now) {
    while (stack_.wants_to_transmit(now)) {
      const std::size_t room = queue_->reserve(leaving_);
      std::size_t filled = 0;
      for (; filled < room; ++filled) {
        TxFrame& frame = leaving_[filled];
        const std::size_t length = stack_.poll_transmit(now, kLink, MutableBytes(frame.data, frame.capacity));
        if (length == 0) break;
        frame.length = static_cast<std::uint32_t>(length);
      }
      queue_->commit(std::span(leaving_).first(filled));
      if (filled < proxy::kMaxBurst) break;
    }
  }

  const std::unique_ptr<NicQueue> queue_;
  // One burst each. Members, or each turn would clear them first.
  std::array<MutableBytes, proxy::kMaxBurst> arriving_;
  std::array<TxFrame, proxy::kMaxBurst> leaving_;
  stack::Stack stack_;
  stack::SubConnection& sub_;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
  std::vector<stack::OutMessage> messages_;
  std::vector<stack::OutMessage*> free_;
  std::uint32_t next_position_ = 0;
  std::uint64_t arrived_bytes_ = 0;
};

}  // namespace

proxy::UdpEnd bare_stack_end(bool near) {
  return {stack::Ipv4Address(127, 98, 1, near ? 1 : 2), kStackPort};
}

std::unique_ptr<System> make_bare_stack(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes) {
  const auto end = [](bool n) {
    const stack::Ipv4Address address = bare_stack_end(n).address;
    return StackEnd{address, proxy::station_of(address)};
  };
  return make_bare_stack(std::move(queue), near, mtu_bytes, {end(true), end(false)});
}

std::unique_ptr<System> make_bare_stack(std::unique_ptr<NicQueue> queue, bool near, std::uint32_t mtu_bytes,
                                        const StackEnds& ends) {
  return std::make_unique<BareStack>(std::move(queue), near, mtu_bytes, ends);
}

}  // namespace braid::bench
