#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "stack/wire/checksum.h"

namespace braid::bench {

Result<Ends> make_ends() {
  const Result<int> fd = proxy::create_shm_wire({});
  if (!fd) return fd.error();
  const auto a = proxy::ShmWire::map(*fd, proxy::ShmSide::kA);
  const auto b = proxy::ShmWire::map(*fd, proxy::ShmSide::kB);
  ::close(*fd);
  if (!a) return a.error();
  if (!b) return b.error();
  return Ends{(*a)->queue(0), (*b)->queue(0)};
}

namespace {

// As a proxy asks for room and sends one frame; the frame's bytes are the caller's to write.
template <class Write>
void send_frame(proxy::NicQueue& queue, std::uint32_t bytes, Write&& write) {
  std::array<proxy::TxFrame, proxy::kMaxBurst> room;
  CHECK_GT(queue.reserve(room), 0u);
  write(room[0].data);
  room[0].length = bytes;
  queue.commit(std::span(room).first(1));
}

}  // namespace

NiTimes time_ni(Ends& ends, unsigned samples) {
  std::vector<double> send, receive;
  for (unsigned s = 0; s < samples; ++s) {
    const Instant begin = monotonic_now();
    for (int i = 0; i < kRow; ++i) send_frame(*ends.a, kShort, [](std::byte*) {});
    const Instant sent = monotonic_now();
    for (int i = 0; i < kRow; ++i) {
      std::array<MutableBytes, 1> frame;
      CHECK_EQ(ends.b->receive(frame), 1u);
    }
    const Instant received = monotonic_now();
    std::array<MutableBytes, 1> none;
    CHECK_EQ(ends.b->receive(none), 0u);  // the last frames go back
    send.push_back(ns_between(begin, sent) / kRow);
    receive.push_back(ns_between(sent, received) / kRow);
  }
  return {median(send), median(receive)};
}

namespace {

// A frame there: every byte is written by one side and read by the other.
void fill_and_send(proxy::NicQueue& queue, std::uint32_t bytes) {
  send_frame(queue, bytes, [&](std::byte* data) { std::memset(data, 0x5a, bytes); });
}
bool take_and_read(proxy::NicQueue& queue) {
  std::array<MutableBytes, 1> frame;
  if (queue.receive(frame) == 0) return false;
  keep(stack::checksum_add(0, frame[0]));
  return true;
}

// One way between two threads, each on a processor of its own where there are two.
double one_way_ns(Ends& ends, std::uint32_t bytes, unsigned trips) {
  // A look costs nothing while the other one runs; else it must be let run.
  constexpr int kLooks = 1000;
  const auto wait_for_frame = [](proxy::NicQueue& queue, const std::atomic<bool>& stop) {
    for (int look = 1; !take_and_read(queue); ++look) {
      if (stop.load(std::memory_order_relaxed)) return false;
      if (look % kLooks == 0) std::this_thread::yield();
    }
    return true;
  };
  std::atomic<bool> stop{false};
  std::vector<double> times;
  std::thread echo([&] {
    pin(1);
    while (wait_for_frame(*ends.b, stop)) fill_and_send(*ends.b, bytes);
  });
  std::thread measure([&] {
    pin(0);
    const std::atomic<bool> never{false};
    for (unsigned t = 0; t < trips; ++t) {
      const Instant begin = monotonic_now();
      fill_and_send(*ends.a, bytes);
      wait_for_frame(*ends.a, never);
      times.push_back(ns_between(begin, monotonic_now()) / 2);
    }
    stop = true;
  });
  measure.join();
  echo.join();
  return median(times);
}

}  // namespace

WireTimes time_wire(Ends& ends, unsigned samples) {
  // Every slot has been used before: the first lap makes the system map it.
  for (int lap = 0; lap < 600; ++lap) {
    fill_and_send(*ends.a, kLong);
    fill_and_send(*ends.b, kLong);
    CHECK(take_and_read(*ends.b) && take_and_read(*ends.a));
  }
  const auto alone = [&](std::uint32_t bytes) {
    return ns_each(samples, 16, [&](int) {
      fill_and_send(*ends.a, bytes);
      CHECK(take_and_read(*ends.b));
    });
  };
  const double short_alone = alone(kShort), long_alone = alone(kLong);
  const double short_way = one_way_ns(ends, kShort, 20 * samples);
  const double long_way = one_way_ns(ends, kLong, 20 * samples);
  return {short_way - short_alone,
          ((long_way - long_alone) - (short_way - short_alone)) / static_cast<double>(kLong - kShort)};
}

}  // namespace braid::bench
