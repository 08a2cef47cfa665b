// The loop of every measurement of round trips.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/latencies.h"
#include "bench/two_processes.h"

namespace braid::bench {

// Calls trip() so often and returns the mean in µs. `each`, if given, gets every trip's time; the clock is then read once a
// trip, which the mean includes.
template <class Trip>
double round_trip_us(int trips, Latencies* each, Trip&& trip) {
  const Instant begin = monotonic_now();
  Instant before = begin;
  for (int i = 0; i < trips; ++i) {
    trip();
    if (each == nullptr) continue;
    const Instant after = monotonic_now();
    each->record(after - before);
    before = after;
  }
  return (monotonic_now() - begin).us() / trips;
}

// The times of one kind of round trip, and how long the thread that measured them waited for a processor.
struct TripTimes {
  Latencies latencies;
  SchedulerGaps::Gaps gaps;

  // Measures with `measure(&latencies)`.
  template <class Measure>
  void take(Measure&& measure) {
    const SchedulerGaps scheduler;
    measure(&latencies);
    const SchedulerGaps::Gaps more = scheduler.since();
    gaps.times += more.times;
    gaps.waited += more.waited;
  }
};

// One operation over the rounds of a benchmark.
struct Operation {
  std::vector<double> medians_us;  // by round
  Latencies all;

  void take(const Latencies& round) {
    medians_us.push_back(round.percentile(0.5).us());
    all.add(round);
  }
  double us() const { return median(medians_us); }
  // "p50, p99, p99.9" of all rounds, for the end of a line.
  std::string percentiles() const;
};

// The time of one call.
template <class Call>
Duration time_of(Call&& call) {
  const Instant before = monotonic_now();
  call();
  return monotonic_now() - before;
}

// A head, and a line for each: percentiles, those corrected for coordinated omission by the median, and the gaps.
void print_trip_head(const char* what);
void print_trip_line(const std::string& name, const TripTimes& times);

}  // namespace braid::bench
