#include "proxy/daemon/address_conflicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using stack::AddressConflict;
using stack::Ipv4Address;
using stack::MacAddress;
using ::testing::HasSubstr;

constexpr AddressConflict kConflict{Ipv4Address(10, 0, 0, 2), MacAddress(2, 0, 0, 0, 0, 1),
                                    MacAddress(2, 0, 0, 0, 0, 2), false};

Instant at(Duration d) {
  return Instant() + d;
}

TEST(AddressConflicts, EachIsToldOnceInAMinuteWhicheverProxiesSeeIt) {  // ARP-4
  AddressConflicts conflicts;
  for (int proxy = 0; proxy < 4; ++proxy) conflicts.add(at(1_s), kConflict);
  conflicts.add(at(60_s), kConflict);
  EXPECT_EQ(conflicts.poll(), kConflict);
  EXPECT_EQ(conflicts.poll(), std::nullopt);
  conflicts.add(at(61_s), kConflict);
  EXPECT_EQ(conflicts.poll(), kConflict);
}

TEST(AddressConflicts, InventedOnesDoNotFillTheLog) {
  AddressConflicts conflicts;
  for (unsigned i = 0; i < 1000; ++i) {
    AddressConflict c = kConflict;
    c.claimant = MacAddress(2, 0, 0, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i));
    conflicts.add(at(1_s), c);
  }
  std::size_t told = 0;
  while (conflicts.poll()) ++told;
  EXPECT_EQ(told, AddressConflicts::kMaxAtOnce);
}

TEST(AddressConflicts, TextNamesAddressAndBothStations) {
  AddressConflict c = kConflict;
  for (const bool ours : {false, true}) {
    c.ours = ours;
    const std::string text = AddressConflicts::text(c);
    for (const char* part : {"10.0.0.2", "02:00:00:00:00:01", "02:00:00:00:00:02"})
      EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.find("this node") != std::string::npos, ours);
  }
}

}  // namespace
}  // namespace braid::proxy
