#include "proxy/daemon/installed_ports.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace braid::proxy {
namespace {

constexpr PortId kPort{0x10001};

InstalledPorts::End an_end() {
  InstalledPorts::End end;
  end.port = kPort;
  end.client = 3;
  end.window_bytes = 128 * 64;
  end.peer = ClusterId(2);
  end.peer_port = PortId(0x20009);
  return end;
}

TEST(InstalledPorts, EntryNamesBothEndsAndHasABitForEachGranule) {
  InstalledPorts ports(2);
  ports.add(an_end());
  const PortEntry entry = ports.entry(kPort, 1);
  EXPECT_EQ(entry.id, kPort);
  EXPECT_EQ(entry.peer, ClusterId(2));
  EXPECT_EQ(entry.peer_port, PortId(0x20009));
  EXPECT_EQ(entry.window_granules, 128u);
  ASSERT_EQ(reported_words(entry.window_granules), 2u);
  EXPECT_TRUE(std::all_of(entry.reported, entry.reported + 2, [](std::uint64_t w) { return w == 0; }));
  EXPECT_NE(entry.reported, ports.entry(kPort, 0).reported) << "each proxy has bits of its own";
}

TEST(InstalledPorts, ReturnedProxyBeginsWithoutBits) {  // FO-6
  InstalledPorts ports(1);
  ports.add(an_end());
  ports.entry(kPort, 0).reported[1] = 5;
  EXPECT_EQ(ports.entry(kPort, 0).reported[1], 0u);
}

TEST(InstalledPorts, BitsOutliveThePortUntilTheProxyIsDone) {
  InstalledPorts ports(3);
  ports.add(an_end());
  std::uint64_t* const bits = ports.entry(kPort, 0).reported;
  (void)ports.entry(kPort, 1);
  ports.remove(kPort);
  EXPECT_EQ(ports.find(kPort), nullptr);
  bits[0] = 1;  // a proxy that has not obeyed yet
  EXPECT_EQ(ports.unreleased(0), 1u);
  EXPECT_EQ(ports.unreleased(1), 1u);
  EXPECT_EQ(ports.unreleased(2), 0u) << "it was never told of the port";
  ports.release(0);
  EXPECT_EQ(ports.unreleased(0), 0u);
  EXPECT_EQ(ports.unreleased(1), 1u);
}

TEST(InstalledPorts, FindsWhatWasAdded) {
  InstalledPorts ports(1);
  EXPECT_EQ(ports.find(kPort), nullptr);
  ports.add(an_end());
  ASSERT_NE(ports.find(kPort), nullptr);
  EXPECT_EQ(ports.find(kPort)->client, 3u);
  EXPECT_EQ(ports.all().size(), 1u);
  ports.remove(PortId(99));
  EXPECT_EQ(ports.all().size(), 1u);
}

}  // namespace
}  // namespace braid::proxy
