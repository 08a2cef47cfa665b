// Two sub-connections and the link between them, in virtual time: getting to know each other, sending,
// losing, dying and coming back.
#include "stack/sub_connection.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "two_ends.h"

namespace braid::stack {
namespace {

using Delays = std::vector<Duration>;
const Delays kLost;

std::uint32_t part_bytes(const SubConnectionConfig& config) {
  return static_cast<std::uint32_t>(
      (config.max_payload_bytes - seal_bytes(config) - kMaxPacketHeaderBytes - kPartRecordBytes) / 64 * 64);
}

// Every test with plain and with sealed packets, unless it says why not.
class SubConnectionTest : public testing::TestWithParam<bool> {
 protected:
  SubConnectionTest() { TwoEnds::sealed_by_default = GetParam(); }
  ~SubConnectionTest() override { TwoEnds::sealed_by_default = false; }
};
INSTANTIATE_TEST_SUITE_P(Packets, SubConnectionTest, testing::Bool(),
                         [](const auto& packets) { return packets.param ? "Sealed" : "Plain"; });

// ---------------------------------------------------------------- the handshake

TEST_P(SubConnectionTest, EndsThatStartTogetherAreEstablishedAfterARoundTrip) {  // SC-1
  if (GetParam()) GTEST_SKIP() << "keys take a round trip more: KeysAreAgreedInTwoAndAHalfRoundTrips";
  TwoEnds t;
  t.run_until(at(30_us));
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_TRUE(t.b().sub->established());
  EXPECT_EQ(t.count(0, PacketType::kHello), 2u) << "to whoever is there, then to b";
}

TEST_P(SubConnectionTest, LaterStarterIsEstablishedByItsFirstHello) {  // SC-1
  TwoEnds t;
  t.suspended[1] = true;
  t.run_until(at(3_s));
  t.in_flight.clear();
  EXPECT_FALSE(t.a().sub->established());
  EXPECT_LT(t.count(0, PacketType::kHello), 25u) << "asking slows down";
  EXPECT_GT(t.count(0, PacketType::kHello), 14u) << "but does not cease";
  t.suspended[1] = false;
  t.start(1, 0xb1);
  t.run_for(50_us);
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_TRUE(t.b().sub->established());
}

TEST_P(SubConnectionTest, HandshakeSurvivesTheLossOfAnyFirstPacket) {  // SC-1
  for (int lost_from = 0; lost_from < 2; ++lost_from) {
    for (std::size_t lost = 0; lost < 4; ++lost) {
      SCOPED_TRACE(testing::Message() << "packet " << lost << " from " << lost_from);
      TwoEnds t;
      t.link = [&](int from, std::size_t n, const PacketHeader&) {
        return from == lost_from && n == lost ? kLost : Delays{10_us};
      };
      t.send(0, 100);
      t.send(1, 100);
      t.run_until_finished(100_ms);
      EXPECT_EQ(t.a().delivered.size(), 1u);
      EXPECT_EQ(t.b().delivered.size(), 1u);
      EXPECT_EQ(t.a().lost + t.b().lost, 0);
    }
  }
}

SubConnectionConfig silent() {
  SubConnectionConfig c;
  c.greets_at_first_use = true;
  return c;
}

TEST_P(SubConnectionTest, EndThatWaitsForItsFirstUseSaysNothingAndLosesNobody) {  // SC-14
  TwoEnds t(silent());
  t.run_until(at(100_s));
  EXPECT_TRUE(t.packets.empty());
  EXPECT_TRUE(t.a().sub->asleep());
  EXPECT_EQ(t.a().sub->next_deadline(), Instant::never());
  EXPECT_EQ(t.a().lost, 0);
  EXPECT_FALSE(t.a().sub->path_dead());
}

TEST_P(SubConnectionTest, FirstMessageOfEitherEndOrBothWakesThem) {  // SC-14
  for (const unsigned senders : {1u, 2u, 3u}) {
    SCOPED_TRACE(senders);
    TwoEnds t(silent());
    t.run_until(at(20_s));
    for (int i = 0; i < 2; ++i)
      if ((senders >> i & 1) != 0) t.send_many(i, 3, 1000);
    t.run_for(1_ms);
    EXPECT_TRUE(t.a().sub->established());
    EXPECT_TRUE(t.b().sub->established());
    EXPECT_EQ(t.b().delivered.size(), (senders & 1) != 0 ? 3u : 0u);
    EXPECT_EQ(t.a().delivered.size(), (senders & 2) != 0 ? 3u : 0u);
    EXPECT_EQ(t.a().lost + t.b().lost, 0);
  }
}

TEST_P(SubConnectionTest, EndsThatWaitAreEstablishedWhicheverPacketIsLost) {  // SC-14, SC-1
  for (int from = 0; from < 2; ++from) {
    for (std::size_t lost = 0; lost < 6; ++lost) {
      SCOPED_TRACE(testing::Message() << "packet " << lost << " from " << from);
      TwoEnds t(silent());
      t.link = [&](int sender, std::size_t n, const PacketHeader&) {
        return sender == from && n == lost ? kLost : Delays{5_us};
      };
      t.send(0, 1000);
      t.run_for(1_s);
      EXPECT_TRUE(t.a().sub->established());
      EXPECT_TRUE(t.b().sub->established());
      EXPECT_EQ(t.b().delivered.size(), 1u);
    }
  }
}

TEST_P(SubConnectionTest, EndThatWaitsNoticesThatItsPeerKnewAnother) {  // SC-14, SC-5
  TwoEnds t(silent());
  t.send(0, 1000);
  t.run_for(1_ms);
  t.start(1, 0xb2);
  EXPECT_TRUE(t.b().sub->asleep());
  t.send(0, 1000);  // to its predecessor
  t.run_for(100_ms);
  EXPECT_EQ(t.a().lost, 1) << "long before peer_death";
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_EQ(t.a().sub->peer_incarnation(), TwoEnds::incarnation_of(0xb2));
}

TEST_P(SubConnectionTest, EndThatWaitsIsFencedReopenedAndClosedAsAnyOther) {  // SC-14, SC-10, SC-11
  TwoEnds t(silent());
  EXPECT_TRUE(t.fence(0).empty());
  EXPECT_FALSE(t.a().sub->asleep());
  t.a().sub->reopen(t.now, t.a().sub->config().incarnation);
  t.run_for(1_ms);
  EXPECT_TRUE(t.a().sub->established()) << "only its first handshake waits";
  EXPECT_TRUE(t.b().sub->established());

  TwoEnds u(silent());
  u.a().sub->close(u.now);
  EXPECT_EQ(u.a().sub->state(), SubConnection::State::kClosed);
  u.run_for(1_s);
  EXPECT_TRUE(u.packets.empty());
}

TEST_P(SubConnectionTest, EndGreetsWhenItIsTold) {  // SC-14
  TwoEnds t(silent());
  t.run_until(at(1_s));
  t.a().sub->greet(t.now);
  t.run_for(1_ms);
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_TRUE(t.b().sub->established());
  const std::size_t packets = t.packets.size();
  t.a().sub->greet(t.now);
  EXPECT_EQ(t.packets.size(), packets) << "of no effect later";
}

TEST_P(SubConnectionTest, RefusedHelloDoesNotWakeAnEnd) {  // SC-14, SC-1
  TwoEnds t(silent());
  SubConnectionConfig other = t.config;
  other.shared_hash = 99;
  other.greets_at_first_use = false;
  std::swap(other.local, other.remote);
  t.b() = End{};
  t.b().sub = std::make_unique<SubConnection>(other, 0xb2, t.now, t.b().agenda->entry(0));
  t.run_for(1_s);
  EXPECT_TRUE(t.a().sub->refused_hash());
  EXPECT_TRUE(t.a().sub->asleep());
}

TEST_P(SubConnectionTest, NothingIsSentBeforeThePeerIsEstablished) {  // SC-1
  TwoEnds t;
  t.suspended[1] = true;
  t.send(0, 64);
  t.run_until(at(1_s));
  EXPECT_EQ(t.count(0, PacketType::kData), 0u);
  EXPECT_TRUE(t.a().sub->has_unfinished());
}

TEST_P(SubConnectionTest, PeerWithOtherSettingsIsRefused) {  // SC-1
  TwoEnds t;
  t.config.shared_hash = 2;
  t.start(1, 0xb1);
  t.run_until(at(1_s));
  EXPECT_FALSE(t.a().sub->established());
  EXPECT_FALSE(t.b().sub->established());
  EXPECT_TRUE(t.a().sub->refused_hash());
  EXPECT_TRUE(t.b().sub->refused_hash());
  EXPECT_GT(t.a().fates[PacketFate::kRefused], 0);
  // It comes back with the right ones.
  t.config.shared_hash = 0;
  t.start(1, 0xb2);
  t.run_for(1_s);
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_FALSE(t.a().sub->refused_hash());
}

TEST_P(SubConnectionTest, PacketsOfUnknownEpochsAreNotRead) {  // SC-2
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.run_for(1_ms);
  const auto data = std::find_if(t.packets.begin(), t.packets.end(),
                                 [](const TwoEnds::Sent& p) { return p.header.type == PacketType::kData; });
  ASSERT_NE(data, t.packets.end());
  for (const std::size_t epoch_at : {12u, 20u}) {
    Bytes packet = data->packet;
    packet[epoch_at] ^= std::byte{1};
    store(packet.data() + 28, std::uint32_t{1});  // would be new
    EXPECT_EQ(t.arrive(1, packet), PacketFate::kUnknownEpoch);
  }
  EXPECT_EQ(t.b().delivered.size(), 1u);
  Bytes nobody = data->packet;
  store(nobody.data() + 12, std::uint64_t{0});
  EXPECT_EQ(t.arrive(1, nobody), PacketFate::kRefused);
}

TEST_P(SubConnectionTest, MalformedHellosAndAcknowledgementsAreRefused) {  // SC-1
  TwoEnds t;
  t.run_until(at(60_us));
  const Bytes hello = t.packets.front().packet;
  ASSERT_EQ(t.packets.front().header.type, PacketType::kHello);
  EXPECT_EQ(t.arrive(1, first(hello, hello.size() - 1)), PacketFate::kRefused);
  t.send(0, 64);
  t.run_for(1_ms);
  ASSERT_EQ(t.packets.back().header.type, PacketType::kAck);
  Bytes ack = t.packets.back().packet;
  ack.push_back(std::byte{0});
  EXPECT_EQ(t.arrive(0, ack), GetParam() ? PacketFate::kForged : PacketFate::kRefused);
}

TEST_P(SubConnectionTest, OldHelloIsChallengedAndChangesNothing) {  // SC-3
  TwoEnds t;
  t.run_until(at(1_ms));
  const Bytes old_hello = t.packets.front().packet;  // of the incarnation 0xa1, to whoever is there
  ASSERT_EQ(t.packets.front().from, 0);
  t.start(0, 0xa2);
  t.run_for(1_ms);
  ASSERT_TRUE(t.a().sub->established());
  ASSERT_TRUE(t.b().sub->established());
  ASSERT_EQ(t.b().lost, 1);
  t.packets.clear();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(t.arrive(1, old_hello), PacketFate::kUnknownEpoch);
    t.send(0, 500);
    t.send(1, 500);
    t.run_until_finished(1_ms);
  }
  EXPECT_EQ(t.count(1, PacketType::kHello), 5u) << "each was asked whether it lives";
  EXPECT_EQ(t.a().fates[PacketFate::kUnknownEpoch], 5) << "the question was not for 0xa2";
  EXPECT_EQ(t.b().lost, 1);
  EXPECT_EQ(t.a().lost, 0);
  EXPECT_EQ(t.b().delivered.size(), 5u);
}

TEST_P(SubConnectionTest, PacketsOfAnEarlierConnectionAreIgnored) {  // SC-2, SC-3
  TwoEnds t;
  t.send_many(0, 40, 700);
  t.send_many(1, 40, 700);
  t.run_until_finished(100_ms);
  const std::vector<TwoEnds::Sent> old = t.packets;
  t.start(0, 0xa2);
  t.run_for(10_ms);
  ASSERT_EQ(t.b().lost, 1);
  t.b().delivered.clear();
  for (const TwoEnds::Sent& p : old) t.in_flight.push_back({t.now + 1_us, 0, 1 - p.from, p.packet});
  t.send_many(0, 40, 700);
  t.send_many(1, 40, 700);
  t.run_until_finished(100_ms);
  EXPECT_EQ(t.a().lost, 0);
  EXPECT_EQ(t.b().lost, 1);
  EXPECT_EQ(t.a().delivered.size(), 40u);
  EXPECT_EQ(t.b().delivered.size(), 40u);
}

TEST_P(SubConnectionTest, RestartedPeerIsDetectedAtOnce) {  // SC-3, SC-5
  TwoEnds t;
  t.establish();
  t.send_many(0, 10, 100);
  t.run_until_finished(10_ms);
  // It dies with three messages on their way to it: one packet in flight, the rest behind a full window.
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  std::vector<TestMessage*> unacknowledged;
  for (int i = 0; i < 3; ++i) unacknowledged.push_back(&t.send(0, 60000));
  t.run_for(5_ms);
  t.link = nullptr;
  t.in_flight.clear();
  t.a().finished.clear();
  t.start(1, 0xb2);
  const Instant restarted = t.now;
  while (t.a().lost == 0 && t.now < restarted + 1_s) t.run_for(10_us);
  EXPECT_LE(t.now - restarted, 100_us) << "nobody waits for the peer's death time";
  EXPECT_EQ(t.a().finished, unacknowledged) << "oldest first";
  for (const TestMessage* m : unacknowledged) EXPECT_TRUE(m->failed);
  EXPECT_TRUE(t.b().delivered.empty()) << "nothing of the old connection reaches the new incarnation";

  t.send_many(0, 10, 100);
  t.send_many(1, 10, 100);
  t.run_until_finished(50_ms);
  EXPECT_EQ(t.b().delivered.size(), 10u);
  EXPECT_EQ(t.a().delivered.size(), 10u);
  EXPECT_EQ(t.a().sub->stats().peers_lost, 1u);
}

TEST_P(SubConnectionTest, RestartIsDetectedWhicheverPacketIsLost) {  // SC-3
  for (int lost_from = 0; lost_from < 2; ++lost_from) {
    for (std::size_t lost = 0; lost < 4; ++lost) {
      SCOPED_TRACE(testing::Message() << "packet " << lost << " from " << lost_from);
      TwoEnds t;
      t.establish();
      std::size_t sent[2] = {0, 0};
      t.link = [&](int from, std::size_t, const PacketHeader&) {
        return from == lost_from && sent[from]++ == lost ? kLost : Delays{10_us};
      };
      t.start(1, 0xb2);
      t.run_for(1_ms);
      t.send(0, 100);
      t.send(1, 100);
      t.run_for(100_ms);
      EXPECT_TRUE(t.a().sub->established());
      EXPECT_TRUE(t.b().sub->established());
      EXPECT_EQ(t.a().lost, 1);
      EXPECT_EQ(t.b().lost, 0);
      EXPECT_EQ(t.a().delivered.size(), 1u);
    }
  }
}

TEST_P(SubConnectionTest, NoRecordIsDeliveredBeforeTheLossIsReported) {  // SC-7
  SubConnectionConfig config;
  config.local = {ClusterId(0), ProxyId(0)};
  config.remote = {ClusterId(1), ProxyId(0)};
  Agenda agenda(1);
  SubConnection a(config, 0xa1, at(0_us), agenda.entry(0));
  const auto from_peer = [&](PacketType type, std::uint64_t epoch, std::uint64_t to) {
    PacketHeader h;
    h.type = type;
    h.source = config.remote;
    h.destination = config.local;
    h.sender_epoch = epoch;
    h.receiver_epoch = to;
    const Bytes hash(16);  // and the incarnation
    return a.on_packet(at(1_us), h, type == PacketType::kHello ? ByteView(hash) : ByteView());
  };
  const auto epoch_that_it_says = [&] {
    Bytes room(config.max_payload_bytes);
    std::uint64_t sum = 0;
    PacketHeader h;
    std::size_t length = 0;
    EXPECT_GT(a.poll(at(1_us), room, &sum), 0u);
    EXPECT_TRUE(parse_packet_header(room, &h, &length));
    return h.sender_epoch;
  };
  EXPECT_EQ(from_peer(PacketType::kHello, 0xb1, 0xa1), PacketFate::kNothing);
  EXPECT_EQ(from_peer(PacketType::kData, 0xb1, 0xa1), PacketFate::kRecords);
  (void)epoch_that_it_says();
  EXPECT_EQ(from_peer(PacketType::kHello, 0xb2, 0), PacketFate::kUnknownEpoch);
  const std::uint64_t next = epoch_that_it_says();
  EXPECT_NE(next, 0xa1u);
  // The proof and the first records arrive in one burst, before the driver looked.
  EXPECT_EQ(from_peer(PacketType::kAck, 0xb2, next), PacketFate::kNothing);
  EXPECT_EQ(from_peer(PacketType::kData, 0xb2, next), PacketFate::kNothing);
  EXPECT_TRUE(a.take_lost());
  EXPECT_FALSE(a.take_lost());
  EXPECT_EQ(from_peer(PacketType::kData, 0xb2, next), PacketFate::kRecords);
}

TEST_P(SubConnectionTest, AnswerToAnEarlierIncarnationIsIgnored) {  // SC-3
  TwoEnds t;
  t.run_until(at(1_ms));
  // The answer of b's first incarnation to the living a: it names a's epoch of that time.
  Bytes answer;
  for (const TwoEnds::Sent& p : t.packets)
    if (p.from == 1 && p.header.type == PacketType::kHello && p.header.receiver_epoch == 0xa1)
      answer = p.packet;
  ASSERT_FALSE(answer.empty());
  t.start(1, 0xb2);
  t.run_for(1_ms);
  ASSERT_EQ(t.a().lost, 1);
  EXPECT_EQ(t.arrive(0, answer), PacketFate::kUnknownEpoch);
  t.run_for(1_ms);
  EXPECT_EQ(t.a().lost, 1) << "the dead incarnation is not believed to be back";
}

TEST_P(SubConnectionTest, AnswerOfAnEarlierPeerIncarnationIsIgnored) {  // SC-3
  SubConnectionConfig config;
  config.local = {ClusterId(0), ProxyId(0)};
  config.remote = {ClusterId(1), ProxyId(0)};
  Agenda agenda(1);
  SubConnection a(config, 0xa1, at(0_us), agenda.entry(0));
  const auto hello_from = [&](std::uint64_t epoch) {
    PacketHeader h;
    h.type = PacketType::kHello;
    h.sender_epoch = epoch;
    h.receiver_epoch = 0xa1;
    return a.on_packet(at(1_us), h, Bytes(16));
  };
  // The first hello of a was received by an incarnation that died, and by its successor.
  EXPECT_EQ(hello_from(0xb2), PacketFate::kNothing);
  EXPECT_TRUE(a.established());
  EXPECT_EQ(hello_from(0xb1), PacketFate::kUnknownEpoch);
  EXPECT_FALSE(a.take_lost());
  EXPECT_EQ(hello_from(0xb2), PacketFate::kNothing) << "it still is the peer";
}

// ---------------------------------------------------------------- cutting and coalescing

TEST_P(SubConnectionTest, MessagesThatAreReadyTogetherShareAPacket) {  // SC-6
  TwoEnds t;
  t.establish();
  t.send_many(0, 16, 64);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.count(0, PacketType::kData), 1u) << "16 x 84 bytes and 80 of header are 1424";
  EXPECT_EQ(t.packets.front().header.records, 16);
  EXPECT_EQ(t.b().delivered.size(), 16u);
}

TEST_P(SubConnectionTest, NoMoreThan255RecordsShareAPacket) {  // SC-6
  SubConnectionConfig config;
  config.max_payload_bytes = 9000 - 28;
  TwoEnds t(config);
  t.establish();
  t.send_many(0, 300, 0);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.packets[0].header.records, 255);
  EXPECT_EQ(t.packets[1].header.records, 45);
  EXPECT_EQ(t.b().delivered.size(), 300u);
}

TEST_P(SubConnectionTest, MessageIsCutOnlyIfItFitsNoPacket) {  // SC-6
  TwoEnds t;
  const auto longest = static_cast<std::uint32_t>(t.config.max_payload_bytes - seal_bytes(t.config) -
                                                  kMaxPacketHeaderBytes - kWholeRecordBytes);
  t.establish();
  t.send(0, 700);
  t.send(0, longest);  // it fits a packet, but not beside the first
  t.run_until_finished(10_ms);
  ASSERT_EQ(t.count(0, PacketType::kData), 2u);
  EXPECT_EQ(t.packets[0].header.records, 1);
  EXPECT_EQ(t.packets[1].header.records, 1);
  t.packets.clear();
  t.send(0, 700);
  t.send(0, longest + 1);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.count(0, PacketType::kData), 3u) << "its parts are the same in any company";
}

// The records in the data packets of end 0, as a receiver sees them.
std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> records_of(const TwoEnds& t,
                                                                                Position of_message) {
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> out;
  for (const TwoEnds::Sent& p : t.packets) {
    if (p.from != 0 || p.header.type != PacketType::kData) continue;
    PacketHeader h;
    std::size_t length = 0;
    EXPECT_TRUE(parse_packet_header(p.packet, &h, &length));
    RecordReader reader(ByteView(p.packet).subspan(length), h.records);
    Record r;
    ByteView bytes;
    while (reader.next(&r, &bytes))
      if (r.message == of_message) out.emplace_back(r.position.value(), r.message_offset, r.bytes);
  }
  return out;
}

TEST_P(SubConnectionTest, LongMessageIsCutTheSameBesideAnyOthers) {  // SC-6
  for (const std::size_t payload : {300u, 1472u, 1400u, 8972u}) {
    for (const std::uint32_t bytes : {2000u, 4096u, 8192u, 30'000u, 65'535u}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes in packets of " << payload);
      SubConnectionConfig config;
      config.max_payload_bytes = payload;
      std::vector<std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>>> cuts;
      for (const std::uint32_t company : {0u, 1u, 64u, 100u, 700u}) {
        TwoEnds t(config);
        t.establish();
        t.ends[0].next_position = Position(5000);
        if (company != 0) t.send(0, company);
        t.ends[0].next_position = Position(7000);
        t.send(0, bytes);
        if (company != 0) t.send(0, company);
        t.run_until_finished(10_ms);
        cuts.push_back(records_of(t, Position(7000)));
      }
      for (const auto& cut : cuts) EXPECT_EQ(cut, cuts.front());
      const std::uint32_t part = part_bytes(config);
      for (std::size_t i = 0; i + 1 < cuts.front().size(); ++i)
        EXPECT_EQ(std::get<2>(cuts.front()[i]), part) << "every part but the last";
    }
  }
}

TEST_P(SubConnectionTest, PageTravelsInFewPacketsAndItsTailSharesOne) {  // SC-6
  TwoEnds t;
  t.establish();
  t.send(0, 4096);
  t.send(0, 100);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.count(0, PacketType::kData), 4u);
  EXPECT_EQ(t.b().delivered.size(), 2u);
}

TEST_P(SubConnectionTest, EveryLengthArrivesWhole) {  // SC-6
  TwoEnds t;
  t.establish();
  const std::uint32_t part = part_bytes(t.config);
  const auto capacity = static_cast<std::uint32_t>(t.config.max_payload_bytes - kMaxPacketHeaderBytes);
  std::vector<std::uint32_t> lengths = {0, 1, 3, 4, 5, 63, 64, 65, 511, 512, 513, 65535, 65534, 32768};
  for (const std::uint32_t around : {part, 2 * part, capacity - 20, capacity - 32, capacity})
    for (std::uint32_t n = around - 3; n <= around + 3; ++n) lengths.push_back(n);
  for (const std::uint32_t n : lengths) {
    SCOPED_TRACE(n);
    t.send(0, n);
    t.send(1, n);
    t.run_until_finished(10_ms);
    ASSERT_EQ(t.b().delivered.back().size(), n);
  }
  // And all together.
  for (const std::uint32_t n : lengths) t.send(0, n);
  t.run_until_finished(50_ms);
  EXPECT_EQ(t.b().delivered.size(), 2 * lengths.size());
}

TEST_P(SubConnectionTest, PiecesOfALongMessageHaveTheirPosition) {  // SC-6
  if (GetParam()) GTEST_SKIP() << "the records are read from the wire";
  TwoEnds t;
  t.establish();
  TestMessage& piece = t.send(0, 3000);
  piece.record.many_pieces = true;
  piece.record.message_bytes = 9016;
  piece.record.message_offset = 6016;
  piece.record.skip = 5;
  piece.record.message = piece.record.position - 6016 / 64;
  std::uint32_t bytes = 0;
  // Read from the packets as they leave: the collector of the fixture knows whole messages only.
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.run_for(10_us);
  std::vector<Record> records;
  for (const TwoEnds::Sent& p : t.packets) {
    if (p.header.type != PacketType::kData) continue;
    PacketHeader h;
    std::size_t length = 0;
    ASSERT_TRUE(parse_packet_header(p.packet, &h, &length));
    RecordReader reader(ByteView(p.packet).subspan(length), h.records);
    Record r;
    ByteView content;
    while (reader.next(&r, &content)) records.push_back(r);
  }
  ASSERT_EQ(records.size(), 3u);
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_TRUE(records[i].many_pieces);
    EXPECT_EQ(records[i].message_bytes, 9016u);
    EXPECT_EQ(records[i].message_offset, 6016u + bytes);
    EXPECT_EQ(records[i].position, piece.record.position + bytes / 64);
    EXPECT_EQ(records[i].message, piece.record.message);
    EXPECT_EQ(records[i].skip, i == 0 ? 5 : 0) << "the gap lies before the first part";
    bytes += records[i].bytes;
  }
  EXPECT_EQ(bytes, 3000u);
}

TEST_P(SubConnectionTest, TrainIsNeverCutAndIsRetransmittedAsItWas) {  // SC-6, CV-11
  if (GetParam()) GTEST_SKIP() << "the records are read from the wire";
  TwoEnds t;
  t.establish();
  // Every packet is lost once.
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    const std::vector<std::uint32_t> sent = t.data_seqs(0);
    const bool first_time = std::count(sent.begin(), sent.end(), h.seq.value()) <= 1;
    return h.type == PacketType::kData && first_time ? kLost : Delays{10_us};
  };
  const std::vector<std::vector<std::uint16_t>> trains{
      {5, 0, 64, 100}, {1, 2}, std::vector<std::uint16_t>(16, 56)};
  std::vector<Bytes> sent;
  for (int round = 0; round < 3; ++round) {
    for (const std::vector<std::uint16_t>& lengths : trains) {
      Position position = t.a().next_position;
      for (const std::uint16_t length : lengths) {
        sent.push_back(TwoEnds::content(position, length));
        position += TwoEnds::granules(length);
      }
      t.send_train(0, lengths);
    }
    sent.push_back(TwoEnds::content(t.a().next_position, 700));
    t.send(0, 700);
  }
  t.run_until_finished(1_s);
  std::sort(sent.begin(), sent.end());
  std::vector<Bytes> delivered = t.b().delivered;
  std::sort(delivered.begin(), delivered.end());
  EXPECT_EQ(delivered, sent);
  std::map<std::uint32_t, Bytes> records;  // by sequence number
  std::size_t again = 0;
  for (const TwoEnds::Sent& p : t.packets) {
    if (p.from != 0 || p.header.type != PacketType::kData) continue;
    PacketHeader h;
    std::size_t length = 0;
    ASSERT_TRUE(parse_packet_header(p.packet, &h, &length));
    const Bytes here(p.packet.begin() + static_cast<std::ptrdiff_t>(length), p.packet.end());
    const auto [first, is_first] = records.emplace(p.header.seq.value(), here);
    EXPECT_EQ(first->second, here);
    again += is_first ? 0 : 1;
  }
  EXPECT_GE(records.size(), 4u);
  EXPECT_GE(again, records.size());
}

// ---------------------------------------------------------------- loss

TEST_P(SubConnectionTest, LostPacketAloneIsRetransmittedAfterThreeLaterOnes) {  // SW-4
  TwoEnds t;
  t.establish();
  t.link = [&](int from, std::size_t, const PacketHeader& h) {
    static_cast<void>(from);
    const bool first_time = t.data_seqs(0).size() <= 8;
    return h.type == PacketType::kData && h.seq == Seq(2) && first_time ? kLost : Delays{10_us};
  };
  t.send_many(0, 8, 1000);
  const Instant sent = t.now;
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.data_seqs(0), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 2}));
  const auto again = std::find_if(t.packets.rbegin(), t.packets.rend(),
                                  [](const TwoEnds::Sent& p) { return p.header.type == PacketType::kData; });
  EXPECT_EQ(again->when - sent, 20_us) << "as soon as the acknowledgement of the others is there";
  EXPECT_EQ(t.a().sub->stats().fast_retransmissions, 1u);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 1u);
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
}

TEST_P(SubConnectionTest, PacketLostTwiceIsSentThreeTimesWithoutATimeout) {  // SW-4
  TwoEnds t;
  t.establish();
  int losses = 0;
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    return h.type == PacketType::kData && h.seq == Seq(0) && losses++ < 2 ? kLost : Delays{10_us};
  };
  const Instant sent = t.now;
  for (int i = 0; i < 30; ++i) {
    t.send(0, 1000);
    t.run_for(3_us);
  }
  t.run_until_finished(10_ms);
  EXPECT_LT(t.now - sent, 200_us);
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 2u);
}

TEST_P(SubConnectionTest, SlightReorderingIsNoLoss) {  // SW-4
  TwoEnds t;
  t.establish();
  std::size_t data = 0;
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    if (h.type != PacketType::kData) return Delays{10_us};
    return Delays{data++ % 3 == 0 ? 12_us : 10_us};
  };
  for (int i = 0; i < 100; ++i) {
    t.send(0, 1000);
    t.run_for(1_us);
  }
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
  EXPECT_EQ(t.b().delivered.size(), 100u);
}

TEST_P(SubConnectionTest, LastPacketIsRetransmittedAtTimeoutAndTheTimerDoubles) {  // SW-5, SW-6, SW-10
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) {  // round trips of 20 us, below the timer's floor
    t.send(0, 64);
    t.run_until_finished(1_ms);
  }
  t.run_for(1_ms);
  t.packets.clear();
  int losses = 0;
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    return h.type == PacketType::kData && losses++ < 4 ? kLost : Delays{10_us};
  };
  t.send(0, 64);
  const Instant sent = t.now;
  t.run_until_finished(100_ms);
  std::vector<Duration> left;
  for (const TwoEnds::Sent& p : t.packets)
    if (p.header.type == PacketType::kData) left.push_back(p.when - sent);
  ASSERT_EQ(left.size(), 5u);
  // A round trip after a probe, which leaves after one round trip and a half and the acknowledgement's delay; then the
  // timer.
  EXPECT_NEAR(left[1].us(), 60, 1);
  for (const std::int64_t ms : {1, 3, 7}) {
    const std::size_t i = ms == 1 ? 2 : ms == 3 ? 3 : 4;
    EXPECT_EQ(left[i] - left[1], Duration::us(500 * ms));
  }
  EXPECT_EQ(t.a().sub->stats().tail_probes, 1u);
  EXPECT_EQ(t.a().sub->stats().timeouts, 3u);
  // The answer ends the wait.
  losses = 3;
  t.packets.clear();
  t.send(0, 64);
  t.run_until_finished(100_ms);
  ASSERT_EQ(t.count(0, PacketType::kData), 2u);
}

// Messages with a round trip of 20 us before, so that the path is known; then `packets` of which the last
// `lost` are lost. Until all is acknowledged.
Duration time_with_lost_tail(int packets, int lost, bool together) {
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) {
    t.send(0, 64);
    t.run_until_finished(1_ms);
  }
  const auto first = static_cast<std::uint32_t>(30 + packets - lost);
  std::set<std::uint32_t> seen;
  t.link = [&](int from, std::size_t, const PacketHeader& h) {
    const bool tail = from == 0 && h.type == PacketType::kData && h.seq.value() >= first;
    return tail && seen.insert(h.seq.value()).second ? kLost : Delays{10_us};
  };
  const Instant sent = t.now;
  for (int i = 0; i < packets; ++i) {
    t.send(0, 1000);
    if (!together) t.run_for(1_us);
  }
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.a().sub->stats().tail_probes, lost > 0 ? 1u : 0u);
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
  return t.now - sent;
}

TEST_P(SubConnectionTest, LostTailCostsAtMostThreeRoundTrips) {  // SW-10
  std::vector<double> costs_us;
  for (const int packets : {1, 2, 3, 8, 20}) {
    for (int lost = 1; lost <= std::min(packets, 10); ++lost) {
      for (const bool together : {true, false}) {
        const Duration cost =
            time_with_lost_tail(packets, lost, together) - time_with_lost_tail(packets, 0, together);
        costs_us.push_back(cost.us());
        // Where acknowledgements of what came before arrive late, the wait begins anew.
        EXPECT_LE(cost.us(), 100) << lost << " of " << packets;
      }
    }
  }
  std::sort(costs_us.begin(), costs_us.end());
  EXPECT_LE(costs_us[costs_us.size() / 2], 60.0) << "the median";
}

// One message, whose acknowledgement takes so long on its way; `losses` transmissions of it are lost. How long
// it takes.
Duration exchange(TwoEnds& t, Duration ack_takes, int losses = 0) {
  t.link = [=](int from, std::size_t, const PacketHeader& h) mutable {
    if (from == 1) return Delays{ack_takes};
    return h.type == PacketType::kData && losses-- > 0 ? kLost : Delays{10_us};
  };
  t.send(0, 64);
  const Instant sent = t.now;
  t.run_until_finished(100_ms);
  const Duration took = t.now - sent;
  t.run_for(1_ms);
  return took;
}

TEST_P(SubConnectionTest, SlowAcknowledgerCostsOneSpuriousProbeAndNoRetransmission) {  // SW-12
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) exchange(t, 10_us);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
  exchange(t, 200_us);
  EXPECT_EQ(t.a().sub->stats().tail_probes, 1u);
  EXPECT_EQ(t.a().sub->stats().spurious_tail_probes, 1u);
  EXPECT_EQ(t.b().fates[PacketFate::kDuplicate], 0);
  for (int i = 0; i < 300; ++i) exchange(t, i % 20 == 0 ? 200_us : 10_us);
  EXPECT_EQ(t.a().sub->stats().tail_probes, 1u);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
}

TEST_P(SubConnectionTest, LostTailIsFoundSoonerWithEachLossAfterASlowAcknowledgement) {  // SW-12
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) exchange(t, 10_us);
  const Duration quick = exchange(t, 10_us, 1);
  exchange(t, 200_us);
  for (int i = 0; i < 30; ++i) exchange(t, 10_us);
  const Duration first = exchange(t, 10_us, 1);
  EXPECT_GT(first, 200_us);
  EXPECT_LT(first, 400_us) << "before the retransmission timeout";
  Duration last = first;
  for (int i = 0; i < 4; ++i) {
    const Duration next = exchange(t, 10_us, 1);
    EXPECT_LE(next, last);
    last = next;
  }
  EXPECT_LE(last, quick + 1_us);
  EXPECT_EQ(t.a().sub->stats().spurious_tail_probes, 1u) << "of the slow acknowledgement alone";
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
}

TEST_P(SubConnectionTest, PeerThatOftenSleepsCausesNoMoreTimeouts) {  // SW-12
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) exchange(t, 10_us);
  const auto asleep = [&](Duration time) {
    t.suspended[1] = true;
    t.send(0, 64);
    t.run_for(time);
    t.suspended[1] = false;
    t.run_until_finished(100_ms);
    for (int i = 0; i < 50; ++i) exchange(t, 10_us);
  };
  asleep(3_ms);
  const std::uint64_t timeouts = t.a().sub->stats().timeouts;
  EXPECT_GT(timeouts, 0u);
  EXPECT_EQ(t.a().sub->stats().spurious_timeouts, timeouts);
  EXPECT_EQ(t.a().sub->stats().spurious_tail_probes, 1u);
  EXPECT_EQ(static_cast<std::uint64_t>(t.b().fates[PacketFate::kDuplicate]), timeouts);
  for (int i = 0; i < 10; ++i) asleep(3_ms);
  EXPECT_EQ(t.a().sub->stats().retransmissions, timeouts) << "none since the first sleep";
}

TEST_P(SubConnectionTest, SpuriousRetransmissionsAreCountedBeyondTheConnection) {  // SW-12
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 30; ++i) exchange(t, 10_us);
  exchange(t, 200_us);
  t.fence(0);
  t.a().sub->reopen(t.now, 2);
  t.run_for(50_ms);
  EXPECT_EQ(t.a().sub->stats().spurious_tail_probes, 1u);
}

TEST_P(SubConnectionTest, LostPacketAmongOthersCostsAtMostOneAndAHalfRoundTrips) {  // SW-4
  for (std::uint32_t lost = 0; lost < 19; ++lost) {
    Duration took[2];
    for (const bool lose : {false, true}) {
      TwoEnds t;
      t.establish();
      for (int i = 0; i < 30; ++i) {
        t.send(0, 64);
        t.run_until_finished(1_ms);
      }
      bool done = !lose;
      t.link = [&](int from, std::size_t, const PacketHeader& h) {
        const bool it = from == 0 && h.type == PacketType::kData && h.seq == Seq(30 + lost);
        return it && !std::exchange(done, true) ? kLost : Delays{10_us};
      };
      const Instant sent = t.now;
      t.send_many(0, 20, 1000);
      t.run_until_finished(10_ms);
      took[lose] = t.now - sent;
      EXPECT_EQ(t.a().sub->stats().tail_probes, 0u);
    }
    EXPECT_LE((took[1] - took[0]).us(), 30.0) << lost;
  }
}

TEST_P(SubConnectionTest, LostWindowRecoversWithinRoundTripsOfTheFirstTimeout) {  // SW-4, SW-5
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.run_until_finished(1_ms);
  t.packets.clear();
  bool dark = true;
  t.link = [&](int, std::size_t, const PacketHeader&) { return dark ? kLost : Delays{10_us}; };
  t.send_many(0, 256, 1300);
  const Instant sent = t.now;
  t.run_for(100_us);
  dark = false;
  t.run_until_finished(100_ms);
  EXPECT_LT(t.now - sent, 800_us);
  EXPECT_EQ(t.a().sub->stats().timeouts, 1u);
  EXPECT_EQ(t.b().delivered.size(), 257u);
  EXPECT_LE(t.a().sub->stats().retransmissions, 257u) << "each once, and a probe";
}

TEST_P(SubConnectionTest, TimeoutWhileThePeerSleepsRetransmitsLittle) {  // SW-5
  TwoEnds t;
  t.establish();
  t.send_many(0, 100, 1300);
  t.run_for(1_us);
  t.suspended[1] = true;
  t.run_for(30_ms);
  t.suspended[1] = false;
  t.run_until_finished(100_ms);
  EXPECT_LE(t.a().sub->stats().retransmissions, 8u);
  EXPECT_EQ(t.b().delivered.size(), 100u);
}

TEST_P(SubConnectionTest, SchedulingGapCausesNoRetransmission) {  // SW-5, SC-8
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.run_until_finished(1_ms);
  t.send_many(0, 20, 1300);
  t.run_for(5_us);
  // Neither runs, for longer than any timer and the path's death.
  t.suspended[0] = t.suspended[1] = true;
  t.run_for(700_ms);
  t.suspended[0] = t.suspended[1] = false;
  t.a().sub->on_scheduling_gap(t.now, 700_ms);
  t.b().sub->on_scheduling_gap(t.now, 700_ms);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
  EXPECT_EQ(t.a().sub->stats().path_deaths, 0u);
  EXPECT_FALSE(t.a().sub->path_dead());
}

TEST_P(SubConnectionTest, DuplicateIsAcknowledgedAndNotDelivered) {  // SW-1, SC-4
  if (GetParam()) GTEST_SKIP() << "the network's duplicates are replays: ReplayedPacketsChangeNothing";
  TwoEnds t;
  t.establish();
  t.link = [](int, std::size_t, const PacketHeader& h) {
    return h.type == PacketType::kData ? Delays{10_us, 15_us, 400_us} : Delays{10_us};
  };
  t.send_many(0, 30, 900);
  t.run_until_finished(10_ms);
  t.run_for(1_ms);
  EXPECT_EQ(t.b().delivered.size(), 30u);
  EXPECT_EQ(t.b().fates[PacketFate::kDuplicate], 60);
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
}

TEST_P(SubConnectionTest, NextAcknowledgementReplacesALostOne) {  // SW-2, SW-3
  TwoEnds t;
  t.establish();
  std::size_t acks = 0;
  t.link = [&](int from, std::size_t, const PacketHeader& h) {
    return from == 1 && h.type == PacketType::kAck && acks++ % 2 == 0 ? kLost : Delays{10_us};
  };
  for (int i = 0; i < 40; ++i) {
    t.send(0, 1300);
    t.run_for(20_us);
  }
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.b().delivered.size(), 40u);
  EXPECT_LE(t.a().sub->stats().retransmissions, 1u);
}

TEST_P(SubConnectionTest, PacketThatTheDriverCannotDeliverIsRetransmitted) {  // SC-4
  TwoEnds t;
  t.establish();
  t.b().ring_full = true;
  const TestMessage& m = t.send(0, 100);
  t.run_for(3_ms);
  EXPECT_GE(t.b().turned_away, 2);
  EXPECT_EQ(m.finishes, 0) << "acknowledged is only what lies where it belongs";
  t.b().ring_full = false;
  t.run_until_finished(30_ms);
  EXPECT_EQ(m.finishes, 1);
  EXPECT_EQ(t.b().delivered.size(), 1u);
}

TEST_P(SubConnectionTest, RefusedPacketAmongOthersIsRetransmitted) {  // SC-4, SW-4
  TwoEnds t;
  t.establish();
  t.send_many(0, 6, 1300);
  t.run_for(9_us);
  t.b().ring_full = true;
  bool turned_away = false;
  t.link = [&](int from, std::size_t, const PacketHeader&) {
    static_cast<void>(from);
    return Delays{10_us};
  };
  // The first packet finds the ring full, the others do not.
  std::stable_sort(t.in_flight.begin(), t.in_flight.end(),
                   [](const InFlight& x, const InFlight& y) { return x.order < y.order; });
  for (InFlight& p : t.in_flight) {
    if (!std::exchange(turned_away, true)) continue;
    p.arrives = p.arrives + 2_us;
  }
  t.run_for(2_us);
  EXPECT_EQ(t.b().turned_away, 1);
  t.b().ring_full = false;
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.data_seqs(0), (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 0}));
  EXPECT_EQ(t.a().sub->stats().timeouts, 0u);
}

TEST_P(SubConnectionTest, ImpossibleAcknowledgementIsRefusedAndChangesNothing) {  // SW-3
  if (GetParam()) GTEST_SKIP() << "it cannot be forged: EveryFlippedBitIsDetected";
  TwoEnds t;
  t.establish();
  t.send(1, 64);
  t.run_until_finished(1_ms);
  Bytes ack;
  for (const TwoEnds::Sent& p : t.packets)
    if (p.from == 1 && p.header.type == PacketType::kData) ack = p.packet;
  ASSERT_FALSE(ack.empty());
  store(ack.data() + 32, std::uint32_t{1});
  EXPECT_EQ(t.arrive(0, ack), PacketFate::kRefused);
  t.send(0, 64);
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.b().delivered.size(), 1u);
}

// ---------------------------------------------------------------- windows and acknowledgements

TEST_P(SubConnectionTest, PacketsInFlightStayWithinTheWindow) {  // SW-7
  SubConnectionConfig config;
  config.window_packets = 8;
  TwoEnds t(config);
  t.establish();
  t.send_many(0, 100, 1300);
  t.run_for(1_us);
  EXPECT_EQ(t.count(0, PacketType::kData), 8u);
  EXPECT_EQ(t.a().sub->in_flight_packets(), 8u);
  t.run_until_finished(50_ms);
  EXPECT_EQ(t.b().delivered.size(), 100u);
}

TEST_P(SubConnectionTest, PacketBeyondTheWindowIsRefused) {  // SW-1
  if (GetParam()) GTEST_SKIP() << "it cannot be forged: EveryFlippedBitIsDetected";
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.run_for(1_ms);
  Bytes packet = t.packets.front().packet;
  store(packet.data() + 28, std::uint32_t{ReceiveWindow::kWindow + 1});
  EXPECT_EQ(t.arrive(1, packet), PacketFate::kRefused);
  store(packet.data() + 28, std::uint32_t{0});
  EXPECT_EQ(t.arrive(1, packet), PacketFate::kDuplicate);
}

TEST_P(SubConnectionTest, SinglePacketIsAcknowledgedAfterAckDelay) {  // SW-8
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  const Instant sent = t.now;
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.now - sent, 10_us + 10_us + 10_us);
  EXPECT_EQ(t.count(1, PacketType::kAck), 1u);
}

TEST_P(SubConnectionTest, ManyPacketsAreAcknowledgedSixteenAtATime) {  // SW-8
  TwoEnds t;
  t.establish();
  t.send_many(0, 64, 1300);
  const Instant sent = t.now;
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.now - sent, 20_us);
  EXPECT_LE(t.count(1, PacketType::kAck), 4u);
}

TEST_P(SubConnectionTest, DataCarriesTheAcknowledgement) {  // SW-8
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 20; ++i) {
    t.send(0, 64);
    t.run_for(12_us);
    t.send(1, 64);
    t.run_for(12_us);
  }
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.count(1, PacketType::kAck), 0u);
  EXPECT_LE(t.count(0, PacketType::kAck), 1u) << "of the last answer";
}

TEST_P(SubConnectionTest, FlushAckAcknowledgesAtOnce) {  // SW-8
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.run_for(10_us);
  EXPECT_EQ(t.count(1, PacketType::kAck), 0u);
  t.b().sub->flush_ack(t.now);
  t.run_for(1_us);
  EXPECT_EQ(t.count(1, PacketType::kAck), 1u);
}

TEST_P(SubConnectionTest, LastPacketOfABurstRequestsItsAcknowledgement) {  // SW-8
  TwoEnds t;
  t.establish();
  t.send(0, 5000);
  const Instant sent = t.now;
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.now - sent, 20_us) << "four packets, fewer than are acknowledged together";
  EXPECT_EQ(t.count(1, PacketType::kAck), 1u);
}

TEST_P(SubConnectionTest, FilledHoleIsAcknowledgedAtOnce) {  // SW-8
  TwoEnds t;
  t.establish();
  std::size_t data = 0;
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    return Delays{h.type == PacketType::kData && data++ == 0 ? 14_us : 10_us};
  };
  t.send(0, 64);
  t.run_for(1_us);
  t.send(0, 64);
  t.run_for(23_us);
  EXPECT_FALSE(t.a().sub->has_unfinished());
  EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
}

// ---------------------------------------------------------------- the peer's window

TEST_P(SubConnectionTest, BytesInFlightStayWithinThePeersWindow) {  // SW-9
  for (const bool by_bytes : {false, true}) {
    SCOPED_TRACE(by_bytes);
    TwoEnds t;
    t.establish();
    t.b().sub->set_receive_window(t.now, by_bytes ? 256 : 8, by_bytes ? 8 * 1024 : 1 << 20);
    t.send(1, 64);  // it tells
    t.run_until_finished(1_ms);
    t.packets.clear();
    t.send_many(0, 100, 1000);
    t.run_for(1_us);
    EXPECT_EQ(t.count(0, PacketType::kData), 8u);
    t.run_until_finished(10_ms);
    EXPECT_EQ(t.b().delivered.size(), 100u);
    EXPECT_EQ(t.a().sub->stats().retransmissions, 0u);
  }
}

TEST_P(SubConnectionTest, WindowUpdateResumesSendingAtOnce) {  // SW-9
  TwoEnds t;
  t.establish();
  t.b().sub->set_receive_window(t.now, 0, 1 << 20);
  t.send(1, 64);
  t.run_until_finished(1_ms);
  t.send_many(0, 10, 1000);
  t.run_for(200_us);
  EXPECT_EQ(t.count(0, PacketType::kData), 0u);
  EXPECT_TRUE(t.a().sub->has_unfinished());
  t.b().sub->set_receive_window(t.now, 256, 1 << 20);
  const Instant opened = t.now;
  t.run_until_finished(1_ms);
  EXPECT_LE((t.now - opened).us(), 30.0);
  EXPECT_EQ(t.b().delivered.size(), 10u);
}

TEST_P(SubConnectionTest, ClosedWindowIsProbedWithIncreasingWaits) {  // SW-9
  TwoEnds t;
  t.establish();
  t.b().sub->set_receive_window(t.now, 0, 0);
  t.send(1, 64);
  t.run_until_finished(1_ms);
  t.send(0, 1000);
  t.run_for(20_ms);
  EXPECT_EQ(t.count(0, PacketType::kData), 0u);
  EXPECT_GE(t.a().sub->stats().window_probes, 4u);
  EXPECT_LE(t.a().sub->stats().window_probes, 7u);
  bool lose = true;
  t.link = [&](int from, std::size_t, const PacketHeader&) {
    return from == 1 && std::exchange(lose, false) ? kLost : Delays{10_us};
  };
  t.b().sub->set_receive_window(t.now, 256, 1 << 20);
  t.run_until_finished(100_ms);
  EXPECT_FALSE(lose);
  EXPECT_EQ(t.b().delivered.size(), 1u);
}

TEST_P(SubConnectionTest, RoundTripIsMeasured) {  // SW-6
  TwoEnds t;
  t.delay = 100_us;
  t.establish();
  for (int i = 0; i < 200; ++i) {
    t.send(0, 64);
    t.run_for(300_us);
  }
  EXPECT_NEAR(t.a().sub->srtt().us(), 200, 1) << "both ways, without the acknowledgement's delay";
}

TEST_P(SubConnectionTest, AcknowledgementOfSeveralPacketsEchoesTheFirstAndItsDelay) {  // SW-6
  TwoEnds t;
  t.establish();
  for (int i = 0; i < 200; ++i) {
    t.send(0, 64);
    t.run_for(20_us);
    t.send(0, 64);
    t.run_for(100_us);
  }
  EXPECT_NEAR(t.a().sub->srtt().us(), 20, 1);
  const auto ack = std::find_if(t.packets.begin(), t.packets.end(),
                                [](const TwoEnds::Sent& p) { return p.header.type == PacketType::kAck; });
  ASSERT_NE(ack, t.packets.end());
  EXPECT_EQ(ack->header.ack_held, 10'000 / 64);
}

TEST_P(SubConnectionTest, TransmissionsWithinOneTimestampTickAreDistinguished) {  // SW-4
  // The second transmission of 0 arrives and its echo names it; three packets that left before it are lost
  // then.
  for (int offset = 0; offset < 64; offset += 7) {
    SCOPED_TRACE(offset);
    TwoEnds t;
    t.establish();
    t.run_for(Duration::ns(offset));
    bool dark = true;
    t.link = [&](int, std::size_t, const PacketHeader&) {
      return dark ? kLost : Delays{Duration::ns(10'013)};
    };
    t.send_many(0, 6, 1300);
    t.run_for(100_us);
    dark = false;
    t.run_until_finished(100_ms);
    EXPECT_EQ(t.a().sub->stats().timeouts, 1u) << "the echo told about the others";
  }
}

// ---------------------------------------------------------------- life and death

TEST_P(SubConnectionTest, IdleConnectionProbesAndStaysAlive) {  // SC-8
  TwoEnds t;
  t.establish();
  t.run_for(60_s);
  EXPECT_EQ(t.a().sub->stats().path_deaths, 0u);
  EXPECT_EQ(t.a().lost + t.b().lost, 0);
  // Quiet from 2 s on: then one end probes each 1250 ms, and the other answers.
  EXPECT_GT(t.packets.size(), 90u);
  EXPECT_LT(t.packets.size(), 170u);
  EXPECT_LT(t.count(1, PacketType::kProbe), 30u) << "hardly any since it is quiet";
}

TEST_P(SubConnectionTest, QuietConnectionCarriesMessagesAtOnceAndProbesOftenAgain) {  // SC-8
  TwoEnds t;
  t.establish();
  t.send_many(0, 300, 1000);
  t.send_many(1, 300, 1000);
  t.run_until_finished(50_ms);
  t.run_for(20_s);
  for (int from : {0, 1, 0}) {
    t.send_many(from, 300, 1000);
    t.run_until_finished(50_ms);
    t.packets.clear();
    t.run_for(1_s);
    EXPECT_GE(t.packets.size(), 14u) << "probes and answers, 8 in a second";
    t.run_for(9_s);
  }
  EXPECT_EQ(t.a().sub->stats().timeouts + t.b().sub->stats().timeouts, 0u);
  EXPECT_EQ(t.a().sub->stats().path_deaths + t.b().sub->stats().path_deaths, 0u);
  EXPECT_EQ(t.a().lost + t.b().lost, 0);
}

TEST_P(SubConnectionTest, DeadQuietPathIsFoundByTheNextMessageOrInHalfOfPeerDeath) {  // SC-8
  for (const bool sends : {true, false}) {
    SCOPED_TRACE(sends);
    TwoEnds t;
    t.establish();
    t.run_for(4_s);
    t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
    t.run_for(3_s);
    EXPECT_FALSE(t.a().sub->path_dead());
    if (sends) t.send(0, 100);
    t.run_for(480_ms);
    EXPECT_FALSE(t.a().sub->path_dead());
    t.run_for(40_ms);
    EXPECT_EQ(t.a().sub->path_dead(), sends);
    EXPECT_FALSE(t.b().sub->path_dead());
    t.run_for(1500_ms);
    EXPECT_TRUE(t.a().sub->path_dead());
    EXPECT_TRUE(t.b().sub->path_dead());
    EXPECT_EQ(t.a().lost + t.b().lost, 0);
    t.run_for(5_s);
    EXPECT_EQ(t.a().lost, 1);
    EXPECT_EQ(t.b().lost, 1);
  }
}

TEST_P(SubConnectionTest, PathIsDeadAfterPathDeathAndAliveAtTheNextPacket) {  // SC-8
  TwoEnds t;
  t.establish();
  bool dark = true;
  t.link = [&](int, std::size_t, const PacketHeader&) { return dark ? kLost : Delays{10_us}; };
  t.run_for(380_ms);  // the last word was at most a probe's interval old
  EXPECT_FALSE(t.a().sub->path_dead());
  t.run_for(125_ms);
  EXPECT_TRUE(t.a().sub->path_dead());
  EXPECT_EQ(t.a().sub->stats().path_deaths, 1u);
  dark = false;
  t.run_for(300_ms);
  EXPECT_FALSE(t.a().sub->path_dead());
  EXPECT_EQ(t.a().lost, 0) << "a dead path is not a dead peer";
}

TEST_P(SubConnectionTest, SilentPeerIsLostAndUnacknowledgedMessagesFail) {  // SC-5, SC-8
  TwoEnds t;
  t.establish();
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  const TestMessage& m = t.send(0, 100);
  t.run_for(9800_ms);
  EXPECT_EQ(t.a().lost, 0);
  EXPECT_EQ(m.finishes, 0);
  t.run_for(300_ms);
  EXPECT_EQ(t.a().lost, 1);
  EXPECT_EQ(m.finishes, 1);
  EXPECT_TRUE(m.failed);
  EXPECT_FALSE(t.a().sub->established());
}

TEST_P(SubConnectionTest, EndsThatLostEachOtherReconnect) {  // SC-3, SC-5, SC-8
  for (const bool both : {true, false}) {
    SCOPED_TRACE(both);
    TwoEnds t;
    t.establish();
    t.link = [&](int from, std::size_t, const PacketHeader&) {
      return both || from == 1 ? kLost : Delays{10_us};  // otherwise a receives nothing, but is received
    };
    t.send(0, 5000);
    t.send(1, 5000);
    t.run_for(12_s);
    EXPECT_EQ(t.a().lost, 1);
    t.link = nullptr;
    // Its driver makes it another one, so that the peer, which may have received its packets all the time, starts anew
    // too.
    (void)t.fence(0);
    t.a().sub->reopen(t.now, TwoEnds::incarnation_of(0xa2));
    t.run_for(1_s);
    EXPECT_TRUE(t.a().sub->established());
    EXPECT_TRUE(t.b().sub->established());
    EXPECT_EQ(t.a().lost, 1);
    EXPECT_EQ(t.b().lost, 1);
    const std::size_t before = t.b().delivered.size();
    t.send_many(0, 5, 5000);
    t.run_until_finished(10_ms);
    EXPECT_EQ(t.b().delivered.size(), before + 5);
  }
}

// ---------------------------------------------------------------- fencing

TEST_P(SubConnectionTest, FenceReturnsUnacknowledgedMessagesUnchanged) {  // SC-10
  TwoEnds t;
  t.establish();
  // Six messages in six packets: the first, the second last's first part and the last are missing.
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    const bool lost = h.type == PacketType::kData && (h.seq == Seq(0) || h.seq == Seq(3) || h.seq == Seq(5));
    return lost ? kLost : Delays{10_us};
  };
  for (const std::uint32_t bytes : {1300u, 1200u, 1000u, 300u, 2000u, 900u}) t.send(0, bytes);
  const auto sent = [&](std::size_t i) { return t.a().sent[i].get(); };
  t.run_for(21_us);
  ASSERT_EQ(t.count(0, PacketType::kData), 7u) << "and the first again";
  EXPECT_EQ(t.a().finished, (std::vector<TestMessage*>{sent(1), sent(2), sent(3)}));
  EXPECT_EQ(t.a().sub->queued_messages(), 3u);
  EXPECT_EQ(t.a().sub->queued_bytes(), 1300u + 2000u + 900u);
  EXPECT_EQ(t.fence(0), (std::vector<TestMessage*>{sent(0), sent(4), sent(5)}));
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kFenced);
  EXPECT_FALSE(t.a().sub->has_unfinished());
  EXPECT_EQ(t.a().sub->queued_messages(), 0u);
  EXPECT_EQ(t.a().sub->queued_bytes(), 0u);
  EXPECT_FALSE(t.a().sub->take_lost()) << "nobody was lost";
  EXPECT_EQ(t.a().sub->take_finished(), nullptr);
}

TEST_P(SubConnectionTest, PartlySentMessageIsReturnedOnceAndInOrder) {  // SC-10
  SubConnectionConfig config;
  config.window_packets = 2;
  TwoEnds t(config);
  t.establish();
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.send_many(0, 3, 60'000);
  t.run_for(10_us);
  const auto back = t.fence(0);
  ASSERT_EQ(back.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(back[i], t.a().sent[i].get());
  // Before there is a peer as well.
  TwoEnds u;
  u.suspended[1] = true;
  u.send_many(0, 2, 100);
  EXPECT_EQ(u.fence(0).size(), 2u);
}

TEST_P(SubConnectionTest, FencedEndDropsEverythingAndSendsNothing) {  // SC-10
  TwoEnds t;
  t.establish();
  t.send_many(0, 10, 1000);
  t.send_many(1, 10, 1000);
  t.run_for(2_us);
  const auto in_flight = t.in_flight;
  EXPECT_EQ(t.fence(0).size(), 10u);
  t.packets.clear();
  t.run_for(11_s);
  EXPECT_EQ(t.count(0, PacketType::kData) + t.count(0, PacketType::kAck) + t.count(0, PacketType::kProbe) +
                t.count(0, PacketType::kHello),
            0u);
  EXPECT_TRUE(t.a().delivered.empty());
  EXPECT_EQ(t.a().lost, 0) << "it judges nobody";
  EXPECT_EQ(t.a().sub->stats().path_deaths, 0u);
  EXPECT_EQ(t.b().lost, 1) << "its peer does";
  EXPECT_GT(t.a().fates[PacketFate::kUnknownEpoch], 10) << "hellos among them";
  EXPECT_EQ(t.a().sub->next_deadline(), Instant::never());
}

TEST_P(SubConnectionTest, ReopenedEndIsANewIncarnationOfTheSameNode) {  // SC-10, SC-3, SC-13
  TwoEnds t;
  t.establish();
  const std::uint64_t epoch = t.a().sub->epoch();
  EXPECT_EQ(t.b().sub->peer_epoch(), epoch);
  t.send_many(0, 5, 1000);
  t.send_many(1, 5, 1000);
  t.run_for(2_us);
  const auto in_flight = t.in_flight;
  const auto back = t.fence(0);
  t.run_for(1_ms);
  EXPECT_TRUE(t.a().delivered.empty());
  t.a().sub->reopen(t.now, t.a().sub->config().incarnation);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kHandshake);
  EXPECT_NE(t.a().sub->epoch(), epoch);
  t.run_for(1_ms);
  ASSERT_TRUE(t.a().sub->established());
  ASSERT_TRUE(t.b().sub->established());
  EXPECT_EQ(t.a().lost + t.b().lost, 0) << "nobody is another one";
  EXPECT_EQ(t.b().sub->stats().renewals, 1u);
  EXPECT_EQ(t.b().sub->peer_epoch(), t.a().sub->epoch());
  EXPECT_EQ(t.b().sub->peer_incarnation(), TwoEnds::incarnation_of(0xa1));
  // Its peer's unacknowledged messages arrive in the new connection, marked as possible duplicates.
  EXPECT_EQ(t.a().delivered.size(), 5u);
  for (const auto& m : t.b().sent) {
    EXPECT_EQ(m->finishes, 1);
    EXPECT_FALSE(m->failed);
    EXPECT_TRUE(m->record.maybe_duplicate);
  }
  EXPECT_EQ(t.b().sub->queued_messages(), 0u);
  // Packets that were in flight at the fence are dropped, at either end.
  t.b().delivered.clear();
  for (const InFlight& p : in_flight) EXPECT_EQ(t.arrive(p.to, p.bytes), PacketFate::kUnknownEpoch);
  EXPECT_TRUE(t.b().delivered.empty());
  EXPECT_EQ(t.a().delivered.size(), 5u);
  // The returned messages may be given to it again, and travel.
  t.b().arriving.clear();
  for (TestMessage* m : back) t.a().sub->send(*m);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.b().delivered.size(), 5u);
  for (const TestMessage* m : back) EXPECT_EQ(m->finishes, 1);
}

TEST_P(SubConnectionTest, OnlyAPacketOfTheNewConnectionConfirmsThePeer) {  // SC-13
  TwoEnds t;
  t.establish();
  (void)t.fence(0);
  t.a().sub->reopen(t.now, t.a().sub->config().incarnation);
  EXPECT_FALSE(t.a().sub->confirmed());
  // Its peer answers the hello, and receives nothing more.
  t.link = [](int from, std::size_t, const PacketHeader& h) {
    return from == 0 && h.type != PacketType::kHello ? kLost : Delays{10_us};
  };
  t.run_for(1_ms);
  ASSERT_TRUE(t.a().sub->established());
  // A message of the key exchange cannot be old, so with it b has left the old connection.
  EXPECT_EQ(t.b().sub->stats().renewals, GetParam() ? 1u : 0u) << "a hello may be old";
  EXPECT_EQ(t.a().sub->confirmed(), GetParam()) << "what its peer has in flight may still be taken there";
  EXPECT_FALSE(GetParam() && t.b().sub->confirmed());
  t.link = nullptr;
  t.run_for(200_ms);  // the next probe
  EXPECT_EQ(t.b().sub->stats().renewals, 1u);
  EXPECT_TRUE(t.a().sub->confirmed());
  EXPECT_TRUE(t.b().sub->confirmed());
}

// One end closes and reopens again and again over a bad link: what the other sends arrives, or comes again
// as what may have come before, and nobody is lost.
TEST_P(SubConnectionTest, RepeatedReopeningLosesNoMessage) {  // SC-13
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoEnds t;
    t.establish();
    Prng prng(seed);
    t.link = [&](int, std::size_t, const PacketHeader&) {
      return prng.chance(0.2) ? kLost : Delays{Duration::us(static_cast<std::int64_t>(1 + prng.below(300)))};
    };
    for (int round = 0; round < 10; ++round) {
      t.send_many(1, 3, static_cast<std::uint32_t>(prng.below(5000)));
      t.run_for(Duration::us(static_cast<std::int64_t>(prng.below(3000))));
      (void)t.fence(0);
      t.a().arriving.clear();  // its driver tells the copies of one message apart
      t.run_for(Duration::us(static_cast<std::int64_t>(prng.below(500))));
      t.a().sub->reopen(t.now, t.a().sub->config().incarnation);
    }
    t.run_until_finished(2_s);
    EXPECT_EQ(t.b().lost + t.a().lost, 0);
    for (const auto& m : t.b().sent) {
      EXPECT_EQ(m->finishes, 1);
      EXPECT_FALSE(m->failed);
    }
    EXPECT_GE(t.a().delivered.size(), t.b().sent.size());
  }
}

TEST_P(SubConnectionTest, HelloCarriesTheNodesIncarnation) {  // SC-1, SC-3
  TwoEnds t;
  EXPECT_EQ(t.a().sub->peer_incarnation(), 0u) << "nobody yet";
  t.establish();
  EXPECT_EQ(t.a().sub->peer_incarnation(), TwoEnds::incarnation_of(0xb1));
  EXPECT_EQ(t.b().sub->peer_incarnation(), TwoEnds::incarnation_of(0xa1));
  t.start(1, 0xb2);  // with data on its way at once: whichever packet proves the new one
  t.send(1, 100);
  t.run_for(1_ms);
  EXPECT_EQ(t.a().lost, 1);
  EXPECT_EQ(t.a().sub->peer_incarnation(), TwoEnds::incarnation_of(0xb2));
}

// ---------------------------------------------------------------- closing

TEST_P(SubConnectionTest, ClosingEndTellsItsPeerWhenAllIsAcknowledged) {  // SC-11
  TwoEnds t;
  t.establish();
  t.send_many(0, 50, 3000);
  t.a().sub->close(t.now);
  t.run_for(10_us);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kEstablished) << "it has unacknowledged messages";
  t.run_for(1_ms);
  EXPECT_EQ(t.b().delivered.size(), 50u);
  for (const TestMessage* m : t.a().finished) EXPECT_FALSE(m->failed);
  EXPECT_EQ(t.a().finished.size(), 50u);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kClosed);
  EXPECT_EQ(t.a().lost, 0);
  EXPECT_EQ(t.b().lost, 1) << "at once, and not after peer_death";
  EXPECT_TRUE(t.b().sub->peer_closed());
  EXPECT_EQ(t.count(0, PacketType::kClose), 1u) << "the peer's hello showed that it knows";
  EXPECT_EQ(t.a().sub->next_deadline(), Instant::never());
  // The node comes back.
  t.start(0, 0xa2);
  t.run_for(1_s);
  EXPECT_TRUE(t.b().sub->established());
  EXPECT_FALSE(t.b().sub->peer_closed());
  EXPECT_EQ(t.b().lost, 1);
}

TEST_P(SubConnectionTest, LostCloseIsRepeatedABoundedNumberOfTimes) {  // SC-11
  TwoEnds t;
  t.establish();
  int closes = 0;
  t.link = [&](int, std::size_t, const PacketHeader& h) {
    return h.type == PacketType::kClose && closes++ == 0 ? kLost : Delays{10_us};
  };
  t.a().sub->close(t.now);
  t.run_for(100_ms);
  EXPECT_EQ(closes, 2);
  EXPECT_EQ(t.b().lost, 1);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kClosed);
  TwoEnds cut_off;
  cut_off.establish();
  cut_off.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  cut_off.a().sub->close(cut_off.now);
  cut_off.run_for(100_ms);
  EXPECT_EQ(cut_off.count(0, PacketType::kClose), 4u);
  EXPECT_EQ(cut_off.a().sub->state(), SubConnection::State::kClosed);
  EXPECT_FALSE(cut_off.b().sub->peer_closed());
}

TEST_P(SubConnectionTest, HelloDoesNotCloseAnEndWithUnacknowledgedMessages) {  // SC-11
  TwoEnds t;
  t.establish();
  t.link = [](int from, std::size_t, const PacketHeader&) { return from == 0 ? kLost : Delays{10_us}; };
  t.send_many(0, 5, 100);
  t.a().sub->close(t.now);
  t.run_for(1_ms);
  // The peer comes back as another: first it must be challenged, and then all unacknowledged messages are reported.
  t.start(1, 0xb2);
  t.run_for(10_us);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kEstablished);
  EXPECT_TRUE(t.a().sub->has_unfinished());
  t.link = {};
  t.run_for(1_s);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kClosed);
  ASSERT_EQ(t.a().finished.size(), 5u);
  for (const TestMessage* m : t.a().finished) EXPECT_TRUE(m->failed);
}

TEST_P(SubConnectionTest, EndWithoutAPeerClosesAtOnceAndBothMayCloseTogether) {  // SC-11
  TwoEnds t;
  t.suspended[1] = true;
  t.a().sub->close(t.now);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kClosed);
  TwoEnds u;
  u.establish();
  u.send_many(0, 5, 1000);
  u.send_many(1, 5, 1000);
  u.a().sub->close(u.now);
  u.b().sub->close(u.now);
  u.run_for(100_ms);
  EXPECT_EQ(u.a().sub->state(), SubConnection::State::kClosed);
  EXPECT_EQ(u.b().sub->state(), SubConnection::State::kClosed);
  EXPECT_EQ(u.a().delivered.size(), 5u);
  EXPECT_EQ(u.b().delivered.size(), 5u);
}

// ---------------------------------------------------------------- everything at once

struct Weather {
  double loss = 0;
  double doubled = 0;
  double late = 0;
};

// Random messages both ways through bad weather: each arrives once, whole, and is finished, in bounded time.
void soak(std::uint64_t seed, const Weather& weather, Seq first_seq, int messages) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", loss " << weather.loss << ", doubled "
                                  << weather.doubled << ", late " << weather.late);
  Prng prng(seed);
  SubConnectionConfig config;
  config.first_seq = first_seq;
  config.window_packets = static_cast<std::uint32_t>(1 + prng.below(256));
  config.max_payload_bytes = 300 + prng.below(8700);
  TwoEnds t(config);
  t.link = [&](int, std::size_t, const PacketHeader&) {
    Delays copies;
    if (!prng.chance(weather.loss)) copies.push_back(10_us);
    while (prng.chance(weather.doubled))
      copies.push_back(Duration::us(10 + static_cast<std::int64_t>(prng.below(500))));
    for (Duration& d : copies)
      if (prng.chance(weather.late)) d += Duration::us(static_cast<std::int64_t>(prng.below(300)));
    return copies;
  };
  std::size_t sent[2] = {0, 0};
  for (int i = 0; i < messages; ++i) {
    const int from = static_cast<int>(prng.below(2));
    const std::uint64_t sizes[] = {0, 64, 300, 3000, 65535};
    t.send(from, static_cast<std::uint32_t>(prng.below(sizes[prng.below(5)] + 1)));
    ++sent[from];
    if (prng.chance(0.3)) t.run_for(Duration::us(static_cast<std::int64_t>(prng.below(200))));
    // A driver's ring is full now and then.
    t.ends[prng.below(2)].ring_full = prng.chance(0.05);
  }
  t.a().ring_full = t.b().ring_full = false;
  t.run_until_finished(60_s);
  EXPECT_EQ(t.a().delivered.size(), sent[1]);
  EXPECT_EQ(t.b().delivered.size(), sent[0]);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(t.ends[i].finished.size(), sent[i]);
    for (const auto& m : t.ends[i].sent) {
      EXPECT_EQ(m->finishes, 1);
      EXPECT_FALSE(m->failed);
      EXPECT_EQ(m->unacknowledged, 0u);
    }
    EXPECT_EQ(t.ends[i].sub->in_flight_packets(), 0u);
    EXPECT_EQ(t.ends[i].lost, 0);
  }
}

TEST(SubConnectionSoak, OverAnyNetwork) {  // SW-1, SW-2, SW-3, SW-4, SW-5, SC-4, SC-6
  const Weather weathers[] = {{0, 0, 0},       {0.01, 0, 0}, {0.05, 0.05, 0.1}, {0.2, 0, 0},
                              {0.2, 0.2, 0.5}, {0, 0.5, 0},  {0, 0, 1},         {0.1, 0.3, 0.05}};
  for (std::uint64_t seed = 1; seed <= 25; ++seed)
    for (const Weather& weather : weathers) soak(seed, weather, Seq(), 60);
}

TEST(SubConnectionSoak, AcrossTheWrapOfPacketNumbers) {  // SW-1, SW-3
  for (std::uint64_t seed = 100; seed < 115; ++seed)
    soak(seed, {0.05, 0.05, 0.2}, Seq(0u - static_cast<std::uint32_t>(seed)), 150);
}

// Ends die and come back at random, links go dark: whatever happened, two that live find each other, nothing
// is delivered twice or to a wrong incarnation, and every message finishes once, with success only if it was
// delivered.
TEST(SubConnectionSoak, ThroughDeathsOfEitherEnd) {  // SC-1, SC-2, SC-3, SC-5
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Prng prng(seed);
    TwoEnds t;
    std::uint64_t epoch = 1000;
    double loss = 0;
    t.link = [&](int, std::size_t, const PacketHeader&) {
      Delays copies;
      if (!prng.chance(loss)) copies.push_back(10_us);
      // Some copies arrive long after their sender's death.
      if (prng.chance(0.05)) copies.push_back(Duration::us(static_cast<std::int64_t>(prng.below(30'000))));
      return copies;
    };
    for (int round = 0; round < 12; ++round) {
      loss = prng.chance(0.5) ? 0.2 : 0;
      for (int i = 0; i < 8; ++i)
        t.send(static_cast<int>(prng.below(2)), static_cast<std::uint32_t>(prng.below(4000)));
      t.run_for(Duration::us(static_cast<std::int64_t>(prng.below(20'000))));
      if (prng.chance(0.7)) {
        const int dead = static_cast<int>(prng.below(2));
        const int alive = 1 - dead;
        t.start(dead, ++epoch);
        if (prng.chance(0.3)) {  // and the other one too, before they met
          t.run_for(Duration::us(static_cast<std::int64_t>(prng.below(100))));
          t.start(alive, ++epoch);
        }
      }
    }
    loss = 0;
    t.run_for(2_s);
    EXPECT_TRUE(t.a().sub->established());
    EXPECT_TRUE(t.b().sub->established());
    t.send(0, 3000);
    t.send(1, 3000);
    t.run_until_finished(100_ms);
    for (End& end : t.ends) {
      ASSERT_FALSE(end.sent.empty());
      EXPECT_FALSE(end.sent.back()->failed);
      for (const auto& m : end.sent) EXPECT_EQ(m->finishes, 1);
    }
    for (int i = 0; i < 2; ++i) {
      const TestMessage& last = *t.ends[i].sent.back();
      EXPECT_EQ(t.ends[1 - i].delivered.back(), last.content);
    }
  }
}

}  // namespace
}  // namespace braid::stack
