#include "proxy/daemon/client_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::proxy {
namespace {

using ::testing::HasSubstr;

class ClientRequests : public ::testing::Test {
 protected:
  void SetUp() override {
    control::Attach request{};
    request.endpoints = 2;
    request.send_bytes = 64 << 10;
    request.receive_bytes = 16 << 10;
    memory_ = ClientMemory::create(channel_geometry(request, 1).value(), 1, make_plain_region).value();
  }
  static control::Message request(control::Kind kind) {
    control::Message m;
    m.kind = kind;
    m.serial = 4;
    return m;
  }
  static control::Message to_machine(std::initializer_list<std::uint32_t> addresses) {
    control::Message m = request(control::Kind::kConnectMachine);
    m.connect_machine.connect.endpoint = 1;
    m.connect_machine.connect.port = 80;
    m.connect_machine.connect.timeout_ms = 1500;
    m.connect_machine.udp_port = 7699;
    m.connect_machine.nis = static_cast<decltype(m.connect_machine.nis)>(addresses.size());
    std::copy(addresses.begin(), addresses.end(), m.connect_machine.addresses);
    return m;
  }
  std::string problem(const control::Message& m) const { return request_problem(m, memory_.get()); }

  std::unique_ptr<ClientMemory> memory_;
};

TEST_F(ClientRequests, AnotherVersionIsRefusedBeforeAnythingElseIsRead) {
  control::Message m = request(control::Kind::kClose);
  EXPECT_EQ(problem(m), "");
  m.version = control::kVersion + 1;
  EXPECT_THAT(problem(m), HasSubstr("build both from the same source"));
  m = request(control::Kind::kClose);
  m.magic ^= 1;
  EXPECT_NE(problem(m), "");
}

TEST_F(ClientRequests, MostRequireAnAttachedClient) {
  for (const control::Kind kind :
       {control::Kind::kAttach, control::Kind::kCounters, control::Kind::kSetProxies})
    EXPECT_EQ(request_problem(request(kind), nullptr), "");
  for (const control::Kind kind : {control::Kind::kListen, control::Kind::kConnect, control::Kind::kClose,
                                   control::Kind::kConnectMachine})
    EXPECT_EQ(request_problem(request(kind), nullptr), "attach first");
}

TEST_F(ClientRequests, EndpointsMustExist) {
  control::Message m = request(control::Kind::kListen);
  m.listen.endpoint = 1;
  m.listen.port = 80;
  EXPECT_EQ(problem(m), "");
  m.listen.port = 0;
  EXPECT_EQ(problem(m), "no such endpoint, or port 0");
  m = request(control::Kind::kConnect);
  m.connect.endpoint = 2;
  EXPECT_EQ(problem(m), "no such endpoint");
  m.connect.endpoint = 1;
  EXPECT_EQ(problem(m), "");
}

TEST_F(ClientRequests, AnswerIsNoRequest) {
  for (const control::Kind kind :
       {control::Kind::kAttached, control::Kind::kOk, control::Kind::kOpened, control::Kind::kRefused})
    EXPECT_EQ(problem(request(kind)), "not a request");
  EXPECT_EQ(problem(request(static_cast<control::Kind>(99))), "not a request");
}

TEST_F(ClientRequests, MachineIsNamedByHostsAddressesEachOnce) {
  EXPECT_EQ(problem(to_machine({0x0a000001, 0x0a000002})), "");
  EXPECT_THAT(problem(to_machine({})), HasSubstr("0 addresses"));
  EXPECT_THAT(problem(to_machine({0x0a000001, 0x0a000001})),
              HasSubstr("10.0.0.1: must be one host's address"));
  EXPECT_THAT(problem(to_machine({0xffffffff})), HasSubstr("255.255.255.255"));
  control::Message m = to_machine({0x0a000001});
  m.connect_machine.udp_port = 0;
  EXPECT_THAT(problem(m), HasSubstr("UDP port 0"));
}

TEST_F(ClientRequests, MachineRequestKeepsEveryField) {
  const Instant now = Instant() + 10_s;
  const Machines::Request r = machine_request(now, 3, to_machine({0x0a000001, 0x0a000002}));
  EXPECT_EQ(r.client, 3u);
  EXPECT_EQ(r.serial, 4u);
  EXPECT_EQ(r.endpoint, 1u);
  EXPECT_EQ(r.port, PortId(80));
  EXPECT_EQ(r.deadline, now + 1500_ms);
  EXPECT_EQ(r.introduction_port, 7699);
  ASSERT_EQ(r.addresses.size(), 2u);
  EXPECT_EQ(r.addresses[1].to_string(), "10.0.0.2");
}

TEST_F(ClientRequests, OpenedMessageNamesTheWindow) {
  convergence::Ports::End end;
  end.port = PortId(0x10001);
  end.listener = PortId(80);
  end.endpoint = 1;
  end.peer = ClusterId(2);
  end.peer_port = PortId(0x20002);
  end.grant = {3, 4096};
  end.window_bytes = 8192;
  end.peer_window_bytes = 16384;
  const control::Opened accepted = opened_message(end, true).opened;
  EXPECT_EQ(accepted.listener, 80u);
  EXPECT_EQ(accepted.port, 0x10001u);
  EXPECT_EQ(accepted.peer_port, 0x20002u);
  EXPECT_EQ(accepted.peer_cluster, 2u);
  EXPECT_EQ(accepted.cell, 3u);
  EXPECT_EQ(accepted.window_offset, 4096u);
  EXPECT_EQ(accepted.window_bytes, 8192u);
  EXPECT_EQ(accepted.peer_window_bytes, 16384u);
  EXPECT_EQ(opened_message(end, false).opened.listener, 0u);
}

}  // namespace
}  // namespace braid::proxy
