// How long each of many operations took: counts in buckets whose width is at most a thousandth of their values, as in
// HdrHistogram (hdrhistogram.org), whose text of percentiles write() prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace braid::bench {

class Latencies {
 public:
  // Longer ones count as this.
  static constexpr Duration kMax = Duration::s(1000);

  Latencies();

  void record(Duration latency, std::uint64_t times = 1);
  void add(const Latencies& other);

  std::uint64_t count() const { return count_; }
  // The least duration that the share `p` of all, 0 to 1, does not exceed; 0 if there are none. At most 0.1 % above.
  Duration percentile(double p) const;
  Duration max() const { return max_; }
  double mean_us() const;
  double deviation_us() const;  // standard deviation

  // A program that waits for each answer before its next request sends fewer requests while answers are late. It counts
  // once a delay that requests at fixed intervals would meet several times (coordinated omission). This adds the
  // latencies of requests every `interval`: for each latency of several intervals also those that are one, two, ...
  // intervals shorter.
  Latencies corrected(Duration interval) const;

  // "     Value   Percentile   TotalCount 1/(1-Percentile)", in microseconds, and the mean, the deviation and the
  // maximum; HdrHistogram's plotters read it.
  std::string text() const;
  Result<void> write(const std::string& path) const;

 private:
  static std::size_t bucket_of(std::int64_t ns);
  static std::int64_t longest_in(std::size_t bucket);

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  Duration max_{};
};

// Counts how often and how long the calling thread has waited for a processor since the construction: delays that the
// program did not cause.
class SchedulerGaps {
 public:
  SchedulerGaps();
  struct Gaps {
    std::uint64_t times = 0;  // that another thread got the processor though this one could have gone on
    Duration waited{};        // on a run queue; 0 where the kernel does not count it (CONFIG_SCHED_INFO)
  };
  Gaps since() const;

 private:
  static Gaps now();
  Gaps begin_;
};

}  // namespace braid::bench
