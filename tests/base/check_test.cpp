// CHECK: passes in silence, evaluates once, and dies with the place, the condition and both values.
#include "base/check.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/ids.h"
#include "base/seq.h"
#include "base/time.h"

namespace braid {
namespace {

enum class State : unsigned char { kClosed = 1, kOpen = 2 };

TEST(Check, TrueConditionPrintsNothingAndIsEvaluatedOnce) {
  int evaluated = 0;
  CHECK(++evaluated == 1);
  CHECK_EQ(++evaluated, 2);
  CHECK_NE(++evaluated, 0);
  CHECK_LT(++evaluated, 5);
  CHECK_LE(++evaluated, 5);
  CHECK_GT(++evaluated, 5);
  CHECK_GE(++evaluated, 7);
  EXPECT_EQ(evaluated, 7);
}

TEST(CheckDeathTest, PrintsThePlaceAndTheCondition) {
  const bool armed = false;
  EXPECT_DEATH(CHECK(armed), "check_test.cpp:[0-9]+: CHECK failed: armed");
}

TEST(CheckDeathTest, PrintsBothValues) {
  const int in_flight = 9;
  const int window = 8;
  EXPECT_DEATH(CHECK_LE(in_flight, window), "CHECK failed: in_flight <= window: 9 and 8");
  EXPECT_DEATH(CHECK_EQ(in_flight, window), "in_flight == window: 9 and 8");
  EXPECT_DEATH(CHECK_LT(in_flight, window), "in_flight < window: 9 and 8");
  EXPECT_DEATH(CHECK_NE(window, window), "window != window: 8 and 8");
  EXPECT_DEATH(CHECK_GT(window, in_flight), "window > in_flight: 8 and 9");
  EXPECT_DEATH(CHECK_GE(window, in_flight), "window >= in_flight: 8 and 9");
}

TEST(CheckDeathTest, PrintsOurOwnTypesAsTheirNumber) {
  EXPECT_DEATH(CHECK_EQ(PageId(4), PageId(5)), "4 and 5");
  EXPECT_DEATH(CHECK_LT(Seq(2), Seq(0xffffffff)), "2 and 4294967295");
  EXPECT_DEATH(CHECK_LT(2_us, 1_us), "2000 ns and 1000 ns");
  EXPECT_DEATH(CHECK_EQ(State::kOpen, State::kClosed), "2 and 1");
}

TEST(CheckDeathTest, PrintsTexts) {
  const std::string text = "braid";
  const char* const null = nullptr;
  const char* const short_text = "in";
  EXPECT_DEATH(CHECK_EQ(text, "brain"), "text == \"brain\": braid and brain");
  EXPECT_DEATH(CHECK_EQ(null, short_text), "\\(null\\) and in");
}

TEST(CheckDeathTest, PrintsOptionalsAndPointers) {
  const std::optional<int> none;
  const std::optional<int> some = 3;
  EXPECT_DEATH(CHECK_EQ(none, some), "\\(none\\) and 3");
  int object = 0;
  int* const pointer = &object;
  int* const null = nullptr;
  EXPECT_DEATH(CHECK_EQ(null, pointer), "0x0 and 0x[0-9a-f]+");
}

}  // namespace
}  // namespace braid
