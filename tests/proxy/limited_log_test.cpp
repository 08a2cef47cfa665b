#include "proxy/daemon/limited_log.h"

#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

constexpr Instant kStart = Instant::from_ns(1'000'000'000'000);

TEST(LimitedLog, AFloodIsToldAFewTimesAndCounted) {
  LimitedLog log(3);
  std::uint64_t told = 0, untold = 0;
  for (int ms = 0; ms < 60'000; ++ms) {
    const Instant now = kStart + Duration::ms(ms);
    for (int i = 0; i < 50; ++i) told += log.on_event(now) ? 1 : 0;
    untold += log.poll_untold(now).value_or(0);
  }
  untold += log.poll_untold(kStart + 80_s).value_or(0);
  EXPECT_LE(told, 3u + 6u);
  EXPECT_EQ(told + untold, 3'000'000u) << "each is told or counted";
  EXPECT_EQ(log.all(), 3'000'000u);
}

TEST(LimitedLog, SeldomEventsAreAllTold) {
  LimitedLog log(3);
  for (int n = 0; n < 100; ++n) EXPECT_TRUE(log.on_event(kStart + 15_s * n)) << n;
  EXPECT_EQ(log.poll_untold(kStart + 9000_s), std::nullopt);
}

TEST(LimitedLog, EventsThatWereNotToldAreReportedWithoutAnother) {
  LimitedLog log(1);
  EXPECT_TRUE(log.on_event(kStart));
  EXPECT_FALSE(log.on_event(kStart + 1_s));
  EXPECT_FALSE(log.on_event(kStart + 2_s));
  EXPECT_EQ(log.poll_untold(kStart + 9_s), std::nullopt);
  EXPECT_EQ(log.poll_untold(kStart + 11_s), 2u);
  EXPECT_EQ(log.poll_untold(kStart + 30_s), std::nullopt);
}

}  // namespace
}  // namespace braid::proxy
