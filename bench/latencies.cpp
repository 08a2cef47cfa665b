#include "bench/latencies.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>

#include "bench/write_text.h"

namespace braid::bench {
namespace {

// Values below 2 * kSteps ns have a bucket each; above, every power of two has kSteps.
constexpr unsigned kStepBits = 10;
constexpr std::int64_t kSteps = std::int64_t{1} << kStepBits;

double us(std::int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

}  // namespace

std::size_t Latencies::bucket_of(std::int64_t ns) {
  const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(ns)));
  const int shift = std::max(0, width - static_cast<int>(kStepBits) - 1);
  return static_cast<std::size_t>(shift * kSteps + (ns >> shift));
}

std::int64_t Latencies::longest_in(std::size_t bucket) {
  const auto b = static_cast<std::int64_t>(bucket);
  const std::int64_t shift = std::max<std::int64_t>(0, b / kSteps - 1);
  return ((b - shift * kSteps + 1) << shift) - 1;
}

Latencies::Latencies() : counts_(bucket_of(kMax.ns()) + 1) {}

void Latencies::record(Duration latency, std::uint64_t times) {
  const std::int64_t ns = std::clamp<std::int64_t>(latency.ns(), 0, kMax.ns());
  counts_[bucket_of(ns)] += times;
  count_ += times;
  max_ = std::max(max_, Duration::ns(ns));
}

void Latencies::add(const Latencies& other) {
  for (std::size_t b = 0; b < counts_.size(); ++b) counts_[b] += other.counts_[b];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

Duration Latencies::percentile(double p) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(p * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t b = 0; b < counts_.size() && count_ > 0; ++b) {
    seen += counts_[b];
    if (seen >= std::max<std::uint64_t>(wanted, 1)) return Duration::ns(std::min(longest_in(b), max_.ns()));
  }
  return {};
}

double Latencies::mean_us() const {
  double sum = 0;
  for (std::size_t b = 0; b < counts_.size(); ++b) sum += static_cast<double>(counts_[b]) * us(longest_in(b));
  return count_ == 0 ? 0 : sum / static_cast<double>(count_);
}

double Latencies::deviation_us() const {
  const double mean = mean_us();
  double sum = 0;
  for (std::size_t b = 0; b < counts_.size(); ++b)
    sum += static_cast<double>(counts_[b]) * (us(longest_in(b)) - mean) * (us(longest_in(b)) - mean);
  return count_ == 0 ? 0 : std::sqrt(sum / static_cast<double>(count_));
}

Latencies Latencies::corrected(Duration interval) const {
  Latencies all = *this;
  if (interval <= Duration()) return all;
  for (std::size_t b = 0; b < counts_.size(); ++b) {
    if (counts_[b] == 0) continue;
    const Duration latency = std::min(Duration::ns(longest_in(b)), max_);
    for (Duration missed = latency - interval; missed >= interval; missed = missed - interval)
      all.record(missed, counts_[b]);
  }
  return all;
}

std::string Latencies::text() const {
  std::string text =
      fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
  const auto line = [&](std::int64_t ns, double share, std::uint64_t seen) {
    text += share < 1
                ? fmt::format("{:12.3f} {:14.12f} {:10} {:14.2f}\n", us(ns), share, seen, 1 / (1 - share))
                : fmt::format("{:12.3f} {:14.12f} {:10} {:>14}\n", us(ns), share, seen, "inf");
  };
  // Five lines for each halving of what is left, while a line has somebody.
  std::uint64_t seen = 0;
  int halvings = 0, step = 0;
  double next = 0;
  for (std::size_t b = 0; b < counts_.size() && seen < count_; ++b) {
    if (counts_[b] == 0) continue;
    seen += counts_[b];
    const double reached = static_cast<double>(seen) / static_cast<double>(count_);
    const std::int64_t ns = std::min(longest_in(b), max_.ns());
    while (reached >= next && seen < count_) {
      line(ns, next, seen);
      halvings += ++step / 5;
      step %= 5;
      next = 1 - std::ldexp(1 - step / 10.0, -halvings);
    }
    if (seen == count_) line(ns, 1, seen);
  }
  text += fmt::format("#[Mean    = {:12.3f}, StdDeviation   = {:12.3f}]\n", mean_us(), deviation_us());
  text += fmt::format("#[Max     = {:12.3f}, Total count    = {:12}]\n", max_.us(), count_);
  text += fmt::format("#[Buckets = {:12}, SubBuckets     = {:12}]\n", counts_.size() / kSteps, 2 * kSteps);
  return text;
}

Result<void> Latencies::write(const std::string& path) const {
  return write_text(path, text());
}

SchedulerGaps::SchedulerGaps() : begin_(now()) {}

SchedulerGaps::Gaps SchedulerGaps::now() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  std::ifstream file("/proc/thread-self/schedstat");  // ns on a processor, ns waiting for one, times on one
  std::int64_t ran = 0, waited = 0;
  file >> ran >> waited;
  return {static_cast<std::uint64_t>(usage.ru_nivcsw), Duration::ns(waited)};
}

SchedulerGaps::Gaps SchedulerGaps::since() const {
  const Gaps end = now();
  return {end.times - begin_.times, end.waited - begin_.waited};
}

}  // namespace braid::bench
