#include "proxy/daemon/machine_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using State = MachineSlot::State;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr stack::Ipv4Address kFirst(10, 0, 0, 1), kSecond(10, 0, 0, 2);

class MachineSlotsTest : public ::testing::Test {
 protected:
  MachineSlots slots_{ClusterId(5), 3};
};

TEST_F(MachineSlotsTest, NumbersFollowThoseOfTheOwnMachine) {
  EXPECT_FALSE(slots_.contains(ClusterId(4)));
  EXPECT_TRUE(slots_.contains(ClusterId(5)));
  EXPECT_TRUE(slots_.contains(ClusterId(7)));
  EXPECT_FALSE(slots_.contains(ClusterId(8)));
  for (std::uint16_t n = 5; n < 8; ++n) EXPECT_EQ(slots_.id(slots_.at(ClusterId(n))), ClusterId(n));
}

TEST_F(MachineSlotsTest, SlotThatHasBeenFreeLongestIsTakenFirst) {
  for (std::uint16_t n = 5; n < 8; ++n) slots_.at(ClusterId(n)).state = State::kConnected;
  EXPECT_EQ(slots_.find_free(), nullptr);
  slots_.free(slots_.at(ClusterId(7)));
  slots_.free(slots_.at(ClusterId(5)));
  ASSERT_NE(slots_.find_free(), nullptr);
  EXPECT_EQ(slots_.id(*slots_.find_free()), ClusterId(7));
  slots_.find_free()->state = State::kCalling;
  EXPECT_EQ(slots_.id(*slots_.find_free()), ClusterId(5));
}

TEST_F(MachineSlotsTest, FreedSlotKeepsNothingOfItsOwner) {
  MachineSlot& slot = slots_.at(ClusterId(6));
  slot.state = State::kDraining;
  slot.peer.addresses = {kFirst};
  slot.problems = "silent";
  slot.busy = slot.called = true;
  slots_.free(slot);
  EXPECT_EQ(slot.state, State::kFree);
  EXPECT_TRUE(slot.peer.addresses.empty());
  EXPECT_EQ(slot.problems, "");
  EXPECT_FALSE(slot.busy || slot.called);
  EXPECT_EQ(slots_.find({kFirst}), nullptr);
}

TEST_F(MachineSlotsTest, ClusterIsFoundByAnyOfItsAddresses) {
  MachineSlot& calling = slots_.at(ClusterId(5));
  calling.state = State::kCalling;
  calling.wanted = {kFirst};
  MachineSlot& connected = slots_.at(ClusterId(6));
  connected.state = State::kConnected;
  connected.peer.addresses = {kSecond};
  EXPECT_EQ(slots_.find({kFirst}), &calling) << "a cluster that is called is known by the called addresses";
  EXPECT_EQ(slots_.find({stack::Ipv4Address(10, 0, 0, 9), kSecond}), &connected);
  EXPECT_EQ(slots_.find({stack::Ipv4Address(10, 0, 0, 9)}), nullptr);
}

TEST_F(MachineSlotsTest, CallIsFoundByItsNonceAndACalledAddress) {  // CN-14
  MachineSlot& slot = slots_.at(ClusterId(6));
  slot.state = State::kCalling;
  slot.nonce = 77;
  slot.wanted = {kFirst, kSecond};
  EXPECT_EQ(slots_.find_calling(77, kSecond), &slot);
  EXPECT_EQ(slots_.find_calling(78, kSecond), nullptr);
  EXPECT_EQ(slots_.find_calling(77, stack::Ipv4Address(10, 0, 0, 9)), nullptr);
  slot.state = State::kConnecting;
  EXPECT_EQ(slots_.find_calling(77, kSecond), nullptr) << "it has been answered";
}

TEST_F(MachineSlotsTest, PathsExistFromTheIntroductionUntilTheyAreDrained) {
  EXPECT_THAT(slots_.with_paths(), IsEmpty());
  slots_.at(ClusterId(5)).state = State::kConnecting;
  slots_.at(ClusterId(6)).state = State::kDraining;
  slots_.at(ClusterId(7)).state = State::kConnected;
  EXPECT_THAT(slots_.with_paths(), ElementsAre(ClusterId(5), ClusterId(7)));
  slots_.at(ClusterId(5)).state = State::kCalling;
  EXPECT_THAT(slots_.with_paths(), ElementsAre(ClusterId(7)));
}

}  // namespace
}  // namespace braid::proxy
