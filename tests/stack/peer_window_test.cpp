#include "stack/peer_window.h"

#include <gtest/gtest.h>

#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;

PacketHeader window(std::uint16_t packets, std::uint16_t units) {
  PacketHeader h;
  h.window_packets = packets;
  h.window_units = units;
  return h;
}

TEST(PeerWindow, BoundsPacketsAndBytesInFlight) {  // SW-9
  PeerWindow w;
  EXPECT_TRUE(w.allows(256, 1u << 20));
  EXPECT_TRUE(w.differs(window(4, 10)));
  w.update(at(0_us), window(4, 10), 1_ms);
  EXPECT_FALSE(w.differs(window(4, 10)));
  EXPECT_TRUE(w.allows(3, 10 * kWindowUnitBytes - 1));
  EXPECT_FALSE(w.allows(4, 0));
  EXPECT_FALSE(w.allows(0, 10 * kWindowUnitBytes));
  EXPECT_FALSE(w.closed());
}

TEST(PeerWindow, ClosedWindowIsProbedWithIncreasingWaits) {  // SW-9
  PeerWindow w;
  w.update(at(0_us), window(0, 10), 1_ms);
  EXPECT_TRUE(w.closed());
  EXPECT_EQ(w.probe_due(), at(1_ms));
  w.probed(at(1_ms), 3_ms);
  EXPECT_EQ(w.probe_due(), at(2_ms));
  w.probed(at(2_ms), 3_ms);
  EXPECT_EQ(w.probe_due(), at(4_ms));
  w.probed(at(4_ms), 3_ms);
  EXPECT_EQ(w.probe_due(), at(7_ms));  // the longest wait
  w.probed(at(7_ms), 3_ms);
  EXPECT_EQ(w.probe_due(), at(10_ms));
}

TEST(PeerWindow, RepeatedClosingDoesNotDelayTheProbe) {
  PeerWindow w;
  w.update(at(0_us), window(10, 0), 1_ms);
  w.update(at(500_us), window(0, 0), 1_ms);
  EXPECT_EQ(w.probe_due(), at(1_ms));
  w.update(at(600_us), window(1, 1), 1_ms);
  EXPECT_FALSE(w.closed());
  w.update(at(700_us), window(0, 1), 2_ms);
  EXPECT_EQ(w.probe_due(), at(2700_us));
}

}  // namespace
}  // namespace braid::stack
