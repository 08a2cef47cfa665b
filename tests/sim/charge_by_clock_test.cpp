// Without the plug-in Meter measures the processor's time.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "sim/charge/budget.h"

namespace braid::sim {
namespace {

static_assert(!charges_are_counted());

void compute_for(Duration time) {
  const Duration end = thread_cpu_time() + time;
  while (thread_cpu_time() < end) {
  }
}

TEST(MeterByClock, StopReturnsProcessorTimeInUnits) {
  Meter meter(20'000'000);
  meter.start(1);
  compute_for(Duration::ms(30));
  const std::int64_t used = meter.stop();
  EXPECT_GE(used, 20'000 * 30);
  EXPECT_LT(used, 20'000 * 30 * 10);
  // Time between stop() and start() is not measured.
  compute_for(Duration::ms(300));
  meter.start(1);
  EXPECT_LT(meter.stop(), 20'000 * 100);
}

TEST(MeterByClock, BudgetStaysUnlimited) {
  Meter meter(20'000'000);
  meter.start(1);
  EXPECT_EQ(braid_budget, kUnlimited);
  meter.stop();
  EXPECT_EQ(braid_budget, kUnlimited);
}

}  // namespace
}  // namespace braid::sim
