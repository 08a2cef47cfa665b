// Events per second through the queue of virtual time, with as many waiting as a small and a large simulated
// machine have: the goal is 10 M/s.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "base/prng.h"
#include "sim/event_queue.h"

namespace braid::sim {
namespace {

struct Event {
  std::uint32_t kind;
  std::uint32_t whom;
  void* what;
};

// Each event that comes out puts another one in, at a random distance: the queue stays as long as it is.
void hold(benchmark::State& state) {
  EventQueue<Event> queue;
  Prng random(1);
  for (std::int64_t i = 0; i < state.range(0); ++i)
    queue.push(Instant::from_ns(static_cast<std::int64_t>(random.below(10'000))), Event{});
  std::uint64_t sum = 0;
  for (auto _ : state) {
    Event event = queue.pop();
    sum += event.whom++;
    queue.push(queue.now() + Duration::ns(static_cast<std::int64_t>(random.next() & 0x1fff)), event);
  }
  benchmark::DoNotOptimize(sum);
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(hold)->Arg(16)->Arg(256)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace braid::sim

BENCHMARK_MAIN();
