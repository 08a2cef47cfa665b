#include "proxy/daemon/port_installer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace braid::proxy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ClusterId kPeer{1};
constexpr std::uint64_t kPeerIncarnation = 0x77;
constexpr PortId kPort{0x10001};

// A node with three proxies, a client, and a connection of that client with cluster 1.
class PortInstallerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    control::Attach request{};
    request.endpoints = 1;
    request.send_bytes = 64 << 10;
    request.receive_bytes = 16 << 10;
    client_ = clients_.add();
    memory_ = clients_.attach(*clients_.find(client_), request, 3).value();
    lanes_.add(client_, *memory_);
    peers_.on_event(
        PathUp{{ProxyId(0), kPeer, ProxyId(0)}, {peers_.own_incarnation(kPeer), kPeerIncarnation}});
  }
  static std::vector<stack::StackConfig> three_stacks() {
    std::vector<stack::StackConfig> stacks(3);
    for (std::uint8_t p = 0; p < 3; ++p) {
      stacks[p].local = {ClusterId(0), ProxyId(p)};
      stack::RemoteStack remote;
      remote.id = {kPeer, ProxyId(p)};
      stacks[p].remotes.push_back(remote);
    }
    return stacks;
  }
  PortInstaller::End an_end() const {
    PortInstaller::End end;
    end.port = kPort;
    end.client = client_;
    end.window_bytes = 4096;
    end.grant = {.cell = 2, .window_offset = 8192};
    end.peer = kPeer;
    end.peer_port = PortId(0x20009);
    return end;
  }
  // The proxies that are told this, in order; nothing else was to be told.
  template <class Command>
  std::vector<unsigned> told() {
    std::vector<unsigned> proxies;
    while (const std::optional<AddressedCommand> next = installer_.poll_command()) {
      EXPECT_TRUE(std::holds_alternative<Command>(next->command));
      proxies.push_back(next->proxy);
    }
    return proxies;
  }
  void forget_commands() {
    while (installer_.poll_command()) {
    }
  }
  // The proxy is stalled, and the others have dropped what they had of it.
  void fence(unsigned p) {
    monitor_.fence(p);
    for (unsigned other = 0; other < 3; ++other) monitor_.forgotten(p, other);
    views_.push_back(memory_->isolate(p));
    channels_ = lanes_.fence(p);
  }

  ProxyMonitor monitor_{{.proxies = 3}, Instant()};
  Clients clients_{{.channel = {}, .memory_bytes = 4 << 20}, make_plain_region};
  Lanes lanes_{monitor_};
  std::vector<stack::StackConfig> stacks_ = three_stacks();
  Peers peers_{stacks_, 10_s, 5, monitor_};
  PortInstaller installer_{clients_, lanes_, monitor_, peers_};
  ClientId client_ = 0;
  ClientMemory* memory_ = nullptr;
  std::vector<RegionView> views_;
  Lanes::Channels channels_;
};

TEST_F(PortInstallerTest, EveryProxyIsToldWhereThePortLiesInItsView) {
  installer_.install(an_end());
  for (unsigned p = 0; p < 3; ++p) {
    const std::optional<AddressedCommand> told = installer_.poll_command();
    ASSERT_TRUE(told);
    EXPECT_EQ(told->proxy, p);
    const PortEntry& port = std::get<InstallPort>(told->command).port;
    EXPECT_EQ(port.id, kPort);
    EXPECT_EQ(port.peer_incarnation, kPeerIncarnation);
    EXPECT_EQ(port.channel, lanes_.receiver(client_, 0, p));
    EXPECT_EQ(port.window, memory_->view(p) + 8192);
    EXPECT_EQ(port.cell, memory_->cell(2, p));
  }
  EXPECT_FALSE(installer_.poll_command());
}

TEST_F(PortInstallerTest, CellIsClearedWhenThePortIsInstalled) {
  PortCell& cell = *memory_->cell(2);
  cell.corrupted = 1;
  cell.consumed = 7;
  cell.credit[1] = 9;
  installer_.install(an_end());
  EXPECT_EQ(cell.state.load(), PortState::kOpen);
  EXPECT_EQ(cell.corrupted.load(), 0u);
  EXPECT_EQ(cell.consumed.load(), 0u);
  EXPECT_EQ(cell.credit[1].load(), 0u);
}

TEST_F(PortInstallerTest, PortOfADetachedClientIsNotInstalled) {
  lanes_.detach(client_);
  installer_.install(an_end());
  EXPECT_FALSE(installer_.poll_command());
}

TEST_F(PortInstallerTest, StateIsMarkedInTheClientsMemory) {
  installer_.install(an_end());
  installer_.mark(an_end(), PortState::kPeerLost);
  EXPECT_EQ(memory_->cell(2)->state.load(), PortState::kPeerLost);
  PortInstaller::End unknown = an_end();
  unknown.client = client_ + 1;
  installer_.mark(unknown, PortState::kPeerClosed);  // a client that is gone
}

TEST_F(PortInstallerTest, RemovedPortIsNotInstalledAgain) {
  installer_.install(an_end());
  forget_commands();
  installer_.remove(kPort);
  EXPECT_THAT(told<RemovePort>(), ElementsAre(0, 1, 2));
  installer_.take_back(1);
  EXPECT_FALSE(installer_.poll_command());
}

TEST_F(PortInstallerTest, PortIsDrainedWhenEveryProxyHasAnswered) {
  installer_.install(an_end());
  forget_commands();
  installer_.drain(kPort);
  EXPECT_THAT(told<DrainPort>(), ElementsAre(0, 1, 2));
  EXPECT_FALSE(installer_.drained(kPort, 0));
  EXPECT_FALSE(installer_.drained(kPort, 2));
  EXPECT_TRUE(installer_.drained(kPort, 1));
}

TEST_F(PortInstallerTest, NewServerOfALaneDrainsTheClientsPortsToo) {
  installer_.install(an_end());
  installer_.drain(kPort);
  forget_commands();
  installer_.lane_moved(client_ + 1, 2);
  EXPECT_FALSE(installer_.poll_command());
  installer_.lane_moved(client_, 2);
  EXPECT_THAT(told<DrainPort>(), ElementsAre(2));
  for (const unsigned p : {0u, 1u, 2u}) EXPECT_FALSE(installer_.drained(kPort, p));
  EXPECT_TRUE(installer_.drained(kPort, 2)) << "one answer for each request";
}

TEST_F(PortInstallerTest, DrainWaitsForAStalledProxyAndOthersAnswerForIt) {  // FO-5
  installer_.install(an_end());
  fence(1);
  forget_commands();
  installer_.drain(kPort);
  EXPECT_THAT(told<DrainPort>(), ElementsAre(0, 2));
  EXPECT_FALSE(installer_.drained(kPort, 0));
  EXPECT_FALSE(installer_.drained(kPort, 2)) << "messages in its lanes are not sent yet";
  installer_.drain_instead_of(1);
  EXPECT_THAT(told<DrainPort>(), ElementsAre(0, 2));
  EXPECT_FALSE(installer_.drained(kPort, 0));
  EXPECT_TRUE(installer_.drained(kPort, 2));
}

TEST_F(PortInstallerTest, FencedProxyIsToldOfNoPort) {  // FO-5
  fence(1);
  installer_.install(an_end());
  EXPECT_THAT(told<InstallPort>(), ElementsAre(0, 2));
  installer_.remove(kPort);
  EXPECT_THAT(told<RemovePort>(), ElementsAre(0, 2));
}

TEST_F(PortInstallerTest, ProxyThatIsBackIsToldOfEveryPort) {  // FO-6
  installer_.install(an_end());
  fence(1);
  forget_commands();
  installer_.take_back(1);
  EXPECT_THAT(told<InstallPort>(), IsEmpty()) << "it has no view of the client's memory";
  monitor_.resumed(1);
  monitor_.take_back(1);
  ASSERT_TRUE(memory_->map(1));
  lanes_.take_back(1, client_);
  installer_.take_back(1);
  EXPECT_THAT(told<InstallPort>(), ElementsAre(1));
}

}  // namespace
}  // namespace braid::proxy
