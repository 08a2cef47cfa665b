#include "proxy/daemon/introduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using ::testing::HasSubstr;
using Reason = Introduction::Reason;

constexpr stack::Ipv4Address kOwn(10, 0, 0, 1), kTheirs(10, 0, 0, 2), kOther(10, 0, 1, 2);

Introduction introduction(stack::Ipv4Address address, std::uint64_t incarnation) {
  Introduction i;
  i.incarnation = incarnation;
  i.proxies = 2;
  i.udp_port = 7700;
  i.link = {.mtu_bytes = 1500, .window_packets = 256};
  i.addresses = {address};
  return i;
}

class IntroductionTest : public ::testing::Test {
 protected:
  std::string problem() const { return answer_problem(answer_, kTheirs, self_, 4, called_); }
  std::string refusal(Reason reason) {
    answer_.reason = reason;
    return refusal_text(answer_, kTheirs, self_);
  }

  Introduction self_ = introduction(kOwn, 1);
  Introduction answer_ = introduction(kTheirs, 2);
  Ipv4Addresses called_{kTheirs};
};

TEST_F(IntroductionTest, AnswerWithTheSameSettingsIsUsable) {  // CN-14
  EXPECT_EQ(problem(), "");
}

TEST_F(IntroductionTest, AnswerOfTheNodeItselfIsNamed) {  // CN-14
  answer_.incarnation = self_.incarnation;
  EXPECT_EQ(problem(), "10.0.0.2 is this node itself");
}

TEST_F(IntroductionTest, EachDifferenceNamesItsSetting) {  // CN-14
  answer_.link = {.mtu_bytes = 9000, .window_packets = 256};
  EXPECT_EQ(problem(), "transport.mtu_bytes is 9000 there and 1500 here: set both alike");
  answer_.link = {.mtu_bytes = 1500, .window_packets = 64};
  EXPECT_EQ(problem(), "transport.window_packets is 64 there and 256 here: set both alike");
  answer_.link = {.mtu_bytes = 1500, .window_packets = 256, .fragmentation = stack::Fragmentation::kIp};
  EXPECT_THAT(problem(), HasSubstr("transport.fragmentation"));
  answer_.link = {.mtu_bytes = 1500, .window_packets = 256, .all_pairs = true};
  EXPECT_THAT(problem(), HasSubstr("transport.all_pairs"));
}

TEST_F(IntroductionTest, AnswerOfAClusterWithTooManyProxiesNamesTheSetting) {  // CN-14
  answer_.proxies = 4;
  EXPECT_EQ(problem(), "");
  answer_.proxies = 5;
  EXPECT_EQ(problem(), "the cluster there has 5 proxies and machines.max_proxies is 4 here");
}

TEST_F(IntroductionTest, CalledAddressOfAnotherClusterIsNamed) {  // CN-14
  called_.push_back(kOther);
  EXPECT_EQ(problem(), "10.0.1.2 is not an address of the cluster at 10.0.0.2");
  answer_.addresses.push_back(kOther);
  EXPECT_EQ(problem(), "");
}

TEST_F(IntroductionTest, EachRefusalNamesItsSenderAndTheSettingToChange) {  // CN-13
  answer_.link.mtu_bytes = 9000;
  EXPECT_EQ(refusal(Reason::kNotAllowed),
            "10.0.0.2 does not let other machines in: set machines.accept in its configuration");
  EXPECT_EQ(refusal(Reason::kDifferent),
            "10.0.0.2 has another configuration: transport.mtu_bytes is 9000 there and 1500 here: set both "
            "alike");
  EXPECT_EQ(refusal(Reason::kTooManyProxies),
            "10.0.0.2 takes clusters of at most 2 proxies (machines.max_proxies), and this has 2");
  EXPECT_THAT(refusal(Reason::kNoSlot), HasSubstr("(machines.slots)"));
  EXPECT_EQ(refusal(Reason::kNoRoute), "10.0.0.2 cannot reach all of 10.0.0.1: give its link a gateway");
}

TEST_F(IntroductionTest, AddressesAreComparedAsSets) {
  const Ipv4Addresses both{kTheirs, kOther};
  EXPECT_TRUE(contains(both, kOther));
  EXPECT_FALSE(contains(both, kOwn));
  EXPECT_TRUE(intersect(both, {kOwn, kTheirs}));
  EXPECT_FALSE(intersect(both, {kOwn}));
  EXPECT_FALSE(intersect(both, {}));
  EXPECT_EQ(to_string(both), "10.0.0.2, 10.0.1.2");
  EXPECT_EQ(to_string(Ipv4Addresses{}), "");
}

}  // namespace
}  // namespace braid::proxy
