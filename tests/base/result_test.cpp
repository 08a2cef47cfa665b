// Result: a value, or the text for whoever can mend it.
#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace braid {
namespace {

Result<int> proxies_of(int asked) {
  if (asked < 1) return error("run.yaml:3: proxies is {}: at least 1 is needed", asked);
  return asked;
}

TEST(Result, HoldsTheValue) {
  const Result<int> r = proxies_of(2);
  ASSERT_TRUE(r.ok());
  EXPECT_TRUE(static_cast<bool>(r));
  EXPECT_EQ(r.value(), 2);
  EXPECT_EQ(*r, 2);
}

TEST(Result, HoldsTheTextOfTheError) {
  const Result<int> r = proxies_of(0);
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.error().text, "run.yaml:3: proxies is 0: at least 1 is needed");
}

TEST(Result, MovesMoveOnlyValues) {
  Result<std::unique_ptr<int>> r = std::make_unique<int>(7);
  ASSERT_TRUE(r.ok());
  const std::unique_ptr<int> owned = std::move(r).value();
  EXPECT_EQ(*owned, 7);
}

TEST(Result, ArrowAccessesTheValuesMembers) {
  Result<std::string> r = std::string("braid");
  r->append("d");
  const auto& constant = r;
  EXPECT_EQ(constant->size(), 6u);
  EXPECT_EQ(*r, "braidd");
}

TEST(Result, VoidResultHasOnlySuccessOrError) {
  const Result<void> well;
  const Result<void> badly = error("socket {}: in use", "/run/braidd.sock");
  EXPECT_TRUE(well.ok());
  EXPECT_FALSE(badly.ok());
  EXPECT_EQ(badly.error().text, "socket /run/braidd.sock: in use");
}

TEST(ResultDeathTest, TakingTheValueOfAnErrorIsAProgrammingError) {
  const Result<int> r = proxies_of(-1);
  EXPECT_DEATH({ [[maybe_unused]] const int v = r.value(); }, "result.h:[0-9]+: CHECK failed: ok\\(\\)");
}

}  // namespace
}  // namespace braid
