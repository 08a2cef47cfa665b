#include "bench/transport/rounds.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

namespace braid::bench {

void NearSide::round(Figures& figures, std::span<const Test> tests, int milliseconds) {
  for (std::size_t s = 0; s < systems_.size(); ++s) {
    for (const Test test : tests) figures[systems_[s].name][test].push_back(measure(s, test, milliseconds));
  }
}

// µs of a round trip, or millions of messages in a second.
double NearSide::measure(std::size_t index, Test test, int milliseconds) {
  System& system = *systems_[index].system;
  begin(index, test);
  const double result = test == Test::kTrip
                            ? trip_us(system, trip_times_[systems_[index].name])
                            : million_per_s(system, test == Test::kSmall ? kSmallBytes : kLargeBytes,
                                            Duration::ms(milliseconds));
  // Messages still in flight must not enter the next measurement. A far side that shares its core may not
  // run for many of the scheduler's slices.
  const Duration quiet = far_is_busy_ ? 30_ms : 3_ms;
  system.drain(quiet);
  end();
  system.drain(quiet);
  return result;
}

double NearSide::trip_us(System& system, Operation& times) {
  (void)system.trip_us(trips_ / 10, nullptr);
  const double mean = system.trip_us(trips_, nullptr);
  times.take([&](Latencies* each) { (void)system.trip_us(trips_, each); });
  return mean;
}

double NearSide::million_per_s(System& system, std::uint32_t bytes, Duration time) {
  system.send(bytes, monotonic_now() + time / 5);  // until it flows
  const Instant begin = monotonic_now();
  const std::uint64_t before = shared_.received.load(std::memory_order_acquire);
  system.send(bytes, begin + time);
  const std::uint64_t received = shared_.received.load(std::memory_order_acquire) - before;
  const double units = static_cast<double>(received) * system.unit_bytes(bytes) / bytes;
  return units / (monotonic_now() - begin).us();
}

void NearSide::begin(std::size_t index, Test test) {
  step_ += std::uint64_t{1} << 16;
  const std::uint64_t step = step_ | index << 8 | static_cast<std::uint64_t>(test);
  shared_.step.store(step, std::memory_order_release);
  while (shared_.far_step.load(std::memory_order_acquire) != step) ::sched_yield();
}

void NearSide::end() {
  step_ += std::uint64_t{1} << 16;
  shared_.step.store(step_, std::memory_order_release);
}

void run_far_side(Shared& shared, std::vector<NamedSystem>& systems) {
  shared.far_ready.store(true);
  std::uint64_t done = 0;
  for (;;) {
    const std::uint64_t step = shared.step.load(std::memory_order_acquire);
    if (step == kStop) return;
    if (step == done) {
      ::usleep(50);
      continue;
    }
    done = step;
    const auto test = static_cast<Test>(step & 0xff);
    shared.received.store(0);
    shared.far_step.store(step, std::memory_order_release);
    if (test == Test::kNone) continue;
    systems[(step >> 8) & 0xff].system->far(test, Turn(shared, step));
  }
}

}  // namespace braid::bench
