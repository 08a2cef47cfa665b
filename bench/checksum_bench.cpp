// The Internet checksum alone and with the copy into a frame, against a bare memcpy of the same bytes in the
// same run.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "stack/wire/checksum.h"

namespace braid::stack {
namespace {

struct Buffers {
  explicit Buffers(const benchmark::State& state)
      : bytes(static_cast<std::size_t>(state.range(0))), source(bytes, std::byte{0x5a}), destination(bytes) {}
  void count(benchmark::State& state) const {
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
  }
  std::size_t bytes;
  std::vector<std::byte> source;
  std::vector<std::byte> destination;
};

void sizes(benchmark::internal::Benchmark* benchmark) {
  // A short message, a packet of them, a full Ethernet frame's UDP payload, a page.
  for (const int bytes : {64, 448, 1472, 4096}) benchmark->Arg(bytes);
}

void checksum(benchmark::State& state) {
  Buffers b(state);
  std::uint64_t sum = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(b.source.data());
    sum = checksum_add(sum, b.source);
  }
  benchmark::DoNotOptimize(sum);
  b.count(state);
}
BENCHMARK(checksum)->Apply(sizes);

void copy_with_checksum(benchmark::State& state) {
  Buffers b(state);
  std::uint64_t sum = 0;
  for (auto _ : state) {
    sum = copy_and_sum(b.destination.data(), b.source.data(), b.bytes, sum);
    benchmark::ClobberMemory();
  }
  benchmark::DoNotOptimize(sum);
  b.count(state);
}
BENCHMARK(copy_with_checksum)->Apply(sizes);

void copy_alone(benchmark::State& state) {
  Buffers b(state);
  for (auto _ : state) {
    std::memcpy(b.destination.data(), b.source.data(), b.bytes);
    benchmark::DoNotOptimize(b.destination.data());
    benchmark::ClobberMemory();
  }
  b.count(state);
}
BENCHMARK(copy_alone)->Apply(sizes);

}  // namespace
}  // namespace braid::stack

BENCHMARK_MAIN();
