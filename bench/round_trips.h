// The loop of every measurement of round trips, and the times that it gives.
#pragma once

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

// One operation over the rounds of a benchmark, and how long the thread that measured it waited for a processor.
struct Operation {
  Latencies all;
  std::vector<double> medians_us;  // by round
  SchedulerGaps::Gaps gaps;

  // One round. `measure(&latencies)` records every latency.
  template <class Measure>
  void take(Measure&& measure) {
    Latencies round;
    const SchedulerGaps scheduler;
    measure(&round);
    const SchedulerGaps::Gaps more = scheduler.since();
    gaps.times += more.times;
    gaps.waited += more.waited;
    medians_us.push_back(round.percentile(0.5).us());
    all.add(round);
  }
  // The median of the rounds' medians.
  double us() const { return median(medians_us); }
  // All latencies as requests at intervals of their median would have met them.
  Latencies corrected() const { return all.corrected(all.percentile(0.5)); }
};

// The time of one call.
template <class Call>
Duration time_of(Call&& call) {
  const Instant before = monotonic_now();
  call();
  return monotonic_now() - before;
}

}  // namespace braid::bench
