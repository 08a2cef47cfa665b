// The bytes of control messages, and what users are told of refusals.
#include "convergence/control_message.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace braid::convergence {
namespace {

TEST(ControlMessage, EveryFieldIsReadBackAndInvalidBytesAreRefused) {  // CN-1
  ControlMessage m;
  m.kind = ControlMessage::Kind::kClose;
  m.ordered = false;
  m.reason = static_cast<std::uint8_t>(Refusal::kProtocolMismatch);
  m.protocol = stack::ProtocolId(0x13);
  m.source = PortId(0x01020304);
  m.destination = PortId(0x05060708);
  m.window_bytes = 0x090a0b0c;
  m.serial = 0x0d0e0f10;
  m.proxy = 0x11;
  m.peer_proxy = 0x12;
  m.epoch = 0x1314'1516'1718'191a;
  std::vector<std::byte> bytes(kControlBytes);
  write_control(bytes, m);
  ControlMessage back;
  ASSERT_TRUE(parse_control(bytes, &back));
  EXPECT_EQ(back.kind, m.kind);
  EXPECT_EQ(back.ordered, m.ordered);
  EXPECT_EQ(back.reason, m.reason);
  EXPECT_EQ(back.protocol, m.protocol);
  EXPECT_EQ(back.source, m.source);
  EXPECT_EQ(back.destination, m.destination);
  EXPECT_EQ(back.window_bytes, m.window_bytes);
  EXPECT_EQ(back.serial, m.serial);
  EXPECT_EQ(back.proxy, m.proxy);
  EXPECT_EQ(back.peer_proxy, m.peer_proxy);
  EXPECT_EQ(back.epoch, m.epoch);
  for (std::size_t n = 0; n < kControlBytes; ++n)
    EXPECT_FALSE(parse_control(ByteView(bytes).first(n), &back));
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(parse_control(bytes, &back));
  bytes.pop_back();
  const auto refused = [&](std::size_t where, int value) {
    std::vector<std::byte> bad = bytes;
    bad[where] = static_cast<std::byte>(value);
    return !parse_control(bad, &back);
  };
  EXPECT_TRUE(refused(0, 0));
  EXPECT_TRUE(refused(0, 11));
  EXPECT_TRUE(refused(1, 2));
  EXPECT_TRUE(refused(2, static_cast<int>(Refusal::kProtocolMismatch) + 1));
}

TEST(ControlMessage, EveryRefusalHasATextOfItsOwn) {
  std::set<std::string> texts;
  for (int r = 0; r <= static_cast<int>(Refusal::kProtocolMismatch); ++r)
    EXPECT_TRUE(texts.insert(to_string(static_cast<Refusal>(r))).second) << r;
  EXPECT_EQ(texts.count("unknown"), 0u);
}

}  // namespace
}  // namespace braid::convergence
