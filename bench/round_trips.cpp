#include "bench/round_trips.h"

#include <fmt/core.h>

namespace braid::bench {

std::string Operation::percentiles() const {
  return fmt::format("{:9.2f} {:9.2f} {:9.2f}", all.percentile(0.5).us(), all.percentile(0.99).us(),
                     all.percentile(0.999).us());
}

void print_trip_head(const char* what) {
  fmt::print("{:16} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}   {}\n", what, "p50", "p99", "p99.9", "most", "p99 *",
             "p99.9 *", "* corrected for coordinated omission; other threads on this core");
}

void print_trip_line(const std::string& name, const TripTimes& times) {
  const Latencies& all = times.latencies;
  const Latencies corrected = all.corrected(all.percentile(0.5));
  fmt::print("{:16} {:9.3f} {:9.3f} {:9.3f} {:9.1f} {:9.3f} {:9.3f}   {} times, {:.2f} ms\n", name,
             all.percentile(0.5).us(), all.percentile(0.99).us(), all.percentile(0.999).us(), all.max().us(),
             corrected.percentile(0.99).us(), corrected.percentile(0.999).us(), times.gaps.times,
             times.gaps.waited.ms());
}

}  // namespace braid::bench
