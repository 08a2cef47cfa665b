#include "proxy/daemon/port_drains.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr PortId kPort{0x10007}, kOther{0x10008};

TEST(PortDrains, PortIsDrainedWhenAllHaveAnswered) {
  PortDrains drains;
  drains.await(kPort, 0);
  drains.await(kPort, 1);
  EXPECT_THAT(drains.ports(), ElementsAre(kPort));
  EXPECT_FALSE(drains.answered(kPort, 1));
  EXPECT_FALSE(drains.answered(kPort, 1)) << "it was not to answer twice";
  EXPECT_TRUE(drains.answered(kPort, 0));
  EXPECT_THAT(drains.ports(), IsEmpty());
  EXPECT_FALSE(drains.answered(kPort, 0)) << "it is not being drained";
}

TEST(PortDrains, NewServerOfALaneAnswersOnceMore) {
  PortDrains drains;
  drains.await(kPort, 0);
  drains.await(kPort, 0);
  EXPECT_FALSE(drains.answered(kPort, 0));
  EXPECT_TRUE(drains.answered(kPort, 0));
}

TEST(PortDrains, OthersAnswerForAFencedProxy) {  // FO-5
  PortDrains drains;
  drains.await(kPort, 0);
  drains.await(kPort, 0);
  drains.await(kOther, 1);
  EXPECT_THAT(drains.replace(0, {1, 2}), ElementsAre(kPort));
  EXPECT_FALSE(drains.answered(kPort, 0));
  EXPECT_FALSE(drains.answered(kPort, 1));
  EXPECT_TRUE(drains.answered(kPort, 2));
  EXPECT_THAT(drains.ports(), ElementsAre(kOther));
}

}  // namespace
}  // namespace braid::proxy
