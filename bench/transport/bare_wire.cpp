#include "bench/transport/bare_wire.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ethernet.h"
#include "bench/round_trips.h"

namespace braid::bench {
namespace {

using proxy::NicQueue;
using proxy::TxFrame;

class BareWire final : public System {
 public:
  explicit BareWire(std::unique_ptr<NicQueue> queue)
      : queue_(std::move(queue)), source_(kLargeBytes), sink_(16384) {}

  double trip_us(int trips, Latencies* each) override {
    return round_trip_us(trips, each, [this] {
      send_frames(1, kSmallBytes);
      while (receive() == 0) __builtin_ia32_pause();
    });
  }
  void send(std::uint32_t bytes, Instant end) override {
    const auto frame = static_cast<std::uint32_t>(unit_bytes(bytes));
    while (monotonic_now() < end) {
      if (send_frames(proxy::kMaxBurst, frame) == 0) __builtin_ia32_pause();
    }
  }
  // The bytes of a message that one frame carries.
  double unit_bytes(std::uint32_t message_bytes) const override {
    const auto most = static_cast<std::uint32_t>(queue_->max_frame_bytes() - kEthernetHeaderBytes);
    return std::min(message_bytes, most);
  }
  void far(Test test, Turn turn) override {
    while (!turn.over()) {
      const std::size_t n = receive();
      if (n == 0) {
        __builtin_ia32_pause();
        continue;
      }
      if (test == Test::kTrip)
        send_frames(1, kSmallBytes);
      else
        turn.received(n);
    }
    drain(2_ms);
  }
  void drain(Duration d) override {
    for (const Instant end = monotonic_now() + d; monotonic_now() < end;) receive();
  }

 private:
  std::size_t send_frames(std::size_t wanted, std::uint32_t bytes) {
    std::array<TxFrame, proxy::kMaxBurst> frames;
    const std::size_t n = queue_->reserve(std::span(frames).first(wanted));
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(frames[i].data + kEthernetHeaderBytes, source_.data(), bytes);
      frames[i].length = static_cast<std::uint32_t>(bytes + kEthernetHeaderBytes);
    }
    queue_->commit(std::span(frames).first(n));
    return n;
  }
  std::size_t receive() {
    std::array<MutableBytes, proxy::kMaxBurst> frames;
    const std::size_t n = queue_->receive(frames);
    for (std::size_t i = 0; i < n; ++i) std::memcpy(sink_.data(), frames[i].data(), frames[i].size());
    return n;
  }

  const std::unique_ptr<NicQueue> queue_;
  std::vector<std::byte> source_;
  std::vector<std::byte> sink_;
};

}  // namespace

std::unique_ptr<System> make_bare_wire(std::unique_ptr<NicQueue> queue) {
  return std::make_unique<BareWire>(std::move(queue));
}

}  // namespace braid::bench
