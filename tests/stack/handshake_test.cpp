#include "stack/handshake.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "stack/wire/checksum.h"
#include "sub_connection_parts.h"

namespace braid::stack {
namespace {

using namespace parts;
using Hello = Handshake::Hello;

// A packet as it crosses the wire.
struct Packet {
  PacketHeader header;
  std::vector<std::byte> bytes;
  ByteView rest;
};

Packet written(Handshake& h, Instant now) {
  Packet p;
  p.bytes.resize(1472);
  std::uint64_t sum = 0;
  p.bytes.resize(h.write_hello(now, p.bytes, &sum));
  EXPECT_EQ(checksum_fold(sum), checksum_fold(checksum_add(0, p.bytes)));
  std::size_t header_bytes = 0;
  EXPECT_TRUE(parse_packet_header(p.bytes, &p.header, &header_bytes));
  p.rest = ByteView(p.bytes).subspan(header_bytes);
  return p;
}

// Our end, and the first of a peer.
struct Fixture : testing::Test {
  Packet hello_of(Handshake& h, Instant now = at(0_us)) {
    h.on_timer(now);
    EXPECT_TRUE(h.hello_due());
    return written(h, now);
  }
  Hello take(Handshake& h, const Packet& p, bool established = false) {
    return h.on_hello(p.header, p.rest, established);
  }
  // Both know each other.
  void connect() {
    EXPECT_EQ(take(ours, hello_of(theirs)), Hello::kIntroduced);
    PacketHeader hello;
    hello.sender_epoch = 0xb1;
    ours.answer(hello);
    EXPECT_EQ(take(theirs, written(ours, at(1_us))), Hello::kEstablishes);
    theirs.establish(Handshake::Peer(theirs.candidate()));
    ours.establish(Handshake::Peer(ours.candidate()));
  }

  SubConnectionConfig our_config = test_config();
  SubConnectionConfig their_config = [] {
    SubConnectionConfig c = test_config();
    std::swap(c.local, c.remote);
    c.incarnation = 99;
    return c;
  }();
  Handshake ours{our_config, 0xa1, at(0_us)};
  Handshake theirs{their_config, 0xb1, at(0_us)};
};
using HandshakeTest = Fixture;

TEST_F(HandshakeTest, HelloIsRepeatedWithIncreasingWaits) {  // SC-1
  Instant now = at(0_us);
  std::vector<std::int64_t> waits;
  for (int i = 0; i < 8; ++i) {
    hello_of(ours, now);
    waits.push_back((ours.timer_due() - now).ns() / 1'000'000);
    now = ours.timer_due();
  }
  EXPECT_EQ(waits, (std::vector<std::int64_t>{5, 10, 20, 40, 80, 160, 200, 200}));
  ours.on_timer(now - 1_ns);
  EXPECT_FALSE(ours.hello_due());
}

TEST_F(HandshakeTest, HelloDescribesItsSender) {  // SC-1, SC-12
  their_config.wanted_source_port = 50'000;
  EXPECT_EQ(take(ours, hello_of(theirs)), Hello::kIntroduced);
  EXPECT_EQ(ours.candidate().epoch, 0xb1u);
  EXPECT_EQ(ours.candidate().incarnation, 99u);
  EXPECT_EQ(ours.candidate().source_port, 50'000);
  EXPECT_EQ(ours.peer_incarnation(), 0u);  // not established yet
  EXPECT_EQ(ours.asked_source_port(), 0);
}

TEST_F(HandshakeTest, AnswerNamesBothEpochsAndEchoes) {  // SC-1
  connect();
  EXPECT_TRUE(theirs.has_met(0xa1));
  EXPECT_EQ(ours.peer_incarnation(), 99u);
  PacketHeader h;
  h.receiver_epoch = 0xa1;
  h.sender_epoch = 0xb1;
  EXPECT_TRUE(ours.is_current(h));
  h.sender_epoch = 0xb2;
  EXPECT_FALSE(ours.is_current(h));  // SC-2
}

TEST_F(HandshakeTest, HelloWithOtherSettingsIsRefusedUntilOneWithOurs) {  // SC-1
  their_config.shared_hash = 1;
  EXPECT_EQ(take(ours, hello_of(theirs)), Hello::kOtherSettings);
  EXPECT_EQ(ours.refusal(), Refusal::kOtherSettings);
  their_config.shared_hash = our_config.shared_hash;
  EXPECT_EQ(take(ours, hello_of(theirs, at(1_s))), Hello::kIntroduced);
  EXPECT_EQ(ours.refusal(), Refusal::kNone);
}

TEST_F(HandshakeTest, HelloOfAnotherLengthIsMalformed) {
  const Packet p = hello_of(theirs);
  for (std::size_t length = 0; length < p.rest.size(); ++length)
    EXPECT_EQ(ours.on_hello(p.header, p.rest.first(length), false), Hello::kMalformed);
}

TEST_F(HandshakeTest, UnknownPeerIsChallengedAndTakesOverWithItsAnswer) {  // SC-3
  connect();
  Handshake restarted(their_config, 0xc1, at(1_s));
  const Packet hello = hello_of(restarted, at(1_s));
  ASSERT_EQ(take(ours, hello, true), Hello::kUnknownPeer);
  ours.challenge(hello.header);
  const Packet challenge = written(ours, at(1_s));
  EXPECT_EQ(challenge.header.sender_epoch, ours.challenge_epoch());
  EXPECT_NE(challenge.header.sender_epoch, ours.epoch());
  EXPECT_EQ(challenge.header.receiver_epoch, 0xc1u);
  ASSERT_EQ(take(restarted, challenge), Hello::kEstablishes);
  restarted.answer(challenge.header);
  EXPECT_EQ(take(ours, written(restarted, at(1_s)), true), Hello::kTakesOver);
  EXPECT_EQ(ours.challenged().epoch, 0xc1u);
}

TEST_F(HandshakeTest, HelloOfADeadPeerIsChallengedAsBefore) {  // SC-3
  connect();
  Handshake dead(their_config, 0xc1, at(0_us));
  const Packet old_hello = hello_of(dead);
  ASSERT_EQ(take(ours, old_hello, true), Hello::kUnknownPeer);
  const std::uint64_t epoch = ours.challenge_epoch();
  ASSERT_EQ(take(ours, old_hello, true), Hello::kUnknownPeer);
  EXPECT_EQ(ours.challenge_epoch(), epoch);
  EXPECT_EQ(ours.epoch(), 0xa1u);
  EXPECT_EQ(ours.candidate().epoch, 0xb1u);
}

TEST_F(HandshakeTest, AnswerToAnEarlierIncarnationIsOfAnUnknownEpoch) {  // SC-2
  connect();
  Packet p = hello_of(theirs, at(1_s));
  p.header.sender_epoch = 0xc1;
  p.header.receiver_epoch = 0x99;
  EXPECT_EQ(take(ours, p, true), Hello::kUnknownEpoch);
}

TEST_F(HandshakeTest, RepeatedHelloOfThePeerIsKnown) {
  connect();
  EXPECT_EQ(take(ours, hello_of(theirs, at(1_s)), true), Hello::kOfPeer);
}

TEST_F(HandshakeTest, StartOverForgetsThePeerAndKeepsKnownIncarnations) {
  connect();
  ours.confirm();
  ours.lose_peer();
  ours.start_over(at(2_s), ours.next_epoch());
  EXPECT_EQ(ours.candidate().epoch, 0u);
  EXPECT_FALSE(ours.confirmed());
  EXPECT_TRUE(ours.has_met(0xb1));
  EXPECT_EQ(ours.lost_incarnation(), 99u);
  EXPECT_EQ(ours.timer_due(), at(2_s));
}

TEST_F(HandshakeTest, EpochsAreNeverZeroAndNeverRepeat) {
  std::set<std::uint64_t> epochs{0, ours.epoch()};
  for (int i = 0; i < 10'000; ++i) EXPECT_TRUE(epochs.insert(ours.next_epoch()).second);
}

}  // namespace
}  // namespace braid::stack
