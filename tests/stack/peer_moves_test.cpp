// Two sealed sub-connections whose addresses change while they are connected, and somebody on the way who sends their
// packets again from elsewhere (RFC 9000, 9.3).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "two_ends.h"

namespace braid::stack {
namespace {

using Delays = std::vector<Duration>;
const Delays kLost;

constexpr Endpoint kOther{Ipv4Address(10, 9, 9, 9), 4242};
constexpr Endpoint kThird{Ipv4Address(10, 8, 8, 8), 4343};

SubConnectionConfig sealed_config() {
  SubConnectionConfig config;
  config.security = virtual_security(0);
  return config;
}

struct MovingEnds : TwoEnds {
  explicit MovingEnds(std::optional<Endpoint> home_of_a = {}) : TwoEnds(sealed_config()) {
    let_move(home_of_a);
  }

  // A packet of a's that b has not got, and nobody else will.
  Bytes next_packet_of_a() {
    link = [](int, std::size_t, const PacketHeader&) { return kLost; };
    packets.clear();
    send(0, 64);
    run_for(1_us);
    link = nullptr;
    for (const Sent& p : packets)
      if (p.from == 0 && p.header.type == PacketType::kData) return p.packet;
    ADD_FAILURE() << "a sent nothing";
    return {};
  }
  // B gets a packet of a's from kOther, and a the challenge of that from `from`. What a answers is in `packets`, and nothing
  // arrives by itself any more.
  void pass_challenge_on(const Endpoint& from) {
    const Bytes packet = next_packet_of_a();
    link = [](int, std::size_t, const PacketHeader&) { return kLost; };
    packets.clear();
    arrive(1, packet, {kOther, kLink});
    run_for(1_us);
    ASSERT_EQ(packets.size(), 1u);
    arrive(0, Bytes(packets[0].packet), {from, kLink});
    packets.clear();
    run_for(1_us);
    ASSERT_EQ(count(0, PacketType::kResponse), 1u);
  }
  const Sent& answer() const {
    return *std::find_if(packets.begin(), packets.end(),
                         [](const Sent& p) { return p.header.type == PacketType::kResponse; });
  }
  std::size_t bytes_to(const Endpoint& end) const {
    std::size_t bytes = 0;
    for (const Sent& p : packets) bytes += p.destination == end ? p.bytes : 0;
    return bytes;
  }
  void expect_exchange() {
    const std::size_t before[2] = {a().delivered.size(), b().delivered.size()};
    send(0, 5000);
    send(1, 5000);
    run_until_finished(5_s);
    EXPECT_GT(a().delivered.size(), before[0]);
    EXPECT_GT(b().delivered.size(), before[1]);
    EXPECT_EQ(a().lost + b().lost, 0);
  }
};

TEST(PeerMoves, HostWithAnotherAddressKeepsItsConnection) {  // SE-8
  for (const int mover : {0, 1}) {
    MovingEnds t;
    t.establish();
    const std::uint64_t epoch = t.a().sub->epoch();
    t.send_many(0, 20, 5000);
    t.send_many(1, 20, 5000);
    t.run_for(15_us);
    t.address[mover] = kOther;
    t.run_until_finished(5_s);
    t.run_for(300_ms);  // or it is only a probe that tells
    EXPECT_EQ(t.a().delivered.size(), 20u);
    EXPECT_EQ(t.b().delivered.size(), 20u);
    const SubConnection& other = *t.ends[1 - mover].sub;
    EXPECT_EQ(other.peer_address(), kOther);
    EXPECT_EQ(t.ends[1 - mover].moves, 1);
    EXPECT_EQ(other.stats().address_moves, 1u);
    EXPECT_EQ(t.ends[mover].sub->stats().address_moves, 0u);
    EXPECT_EQ(t.a().sub->epoch(), epoch);
    EXPECT_EQ(t.count(0, PacketType::kHello) + t.count(1, PacketType::kHello), 0u);
    EXPECT_EQ(t.count(1 - mover, PacketType::kChallenge), 1u);
    EXPECT_EQ(t.count(mover, PacketType::kResponse), 1u);
  }
}

TEST(PeerMoves, SilentHostIsFoundByItsNextProbe) {  // SE-8, SC-8
  MovingEnds t;
  t.establish();
  t.address[0] = kOther;
  t.run_for(300_ms);
  EXPECT_EQ(t.b().sub->peer_address(), kOther);
  t.address[0] = kThird;
  t.run_for(300_ms);
  EXPECT_EQ(t.b().sub->peer_address(), kThird);
  EXPECT_FALSE(t.b().sub->path_dead());
  t.expect_exchange();
}

TEST(PeerMoves, OtherPortOfANatIsTheSameWay) {  // SE-8
  for (const bool is_port_only : {true, false}) {
    MovingEnds t;
    t.establish();
    t.expect_exchange();
    const Endpoint new_address{is_port_only ? t.address[0].address : kOther.address, 4711};
    t.address[0] = new_address;
    Duration before{};
    while (t.b().moves == 0) {
      before = t.b().sub->srtt();
      t.run_for(10_us);
      ASSERT_LT(t.now, at(5_s));
    }
    EXPECT_EQ(t.b().sub->peer_address(), new_address);
    EXPECT_GT(before, 0_us);
    EXPECT_EQ(t.b().sub->srtt(), is_port_only ? before : 0_us);
    t.expect_exchange();
  }
}

TEST(PeerMoves, NewestPacketFromElsewhereIsChallengedThere) {  // SE-8
  MovingEnds t;
  t.establish();
  const Bytes packet = t.next_packet_of_a();
  t.packets.clear();
  t.arrive(1, packet, {kOther, TwoEnds::kLink});
  t.run_for(1_us);
  ASSERT_EQ(t.count(1, PacketType::kChallenge), 1u);
  const auto challenge = std::find_if(t.packets.begin(), t.packets.end(),
                                      [](const auto& p) { return p.header.type == PacketType::kChallenge; });
  EXPECT_EQ(challenge->destination, kOther);
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
  EXPECT_EQ(t.bytes_to(kOther), challenge->bytes) << "nothing else goes there";
  EXPECT_LE(challenge->bytes, 3 * packet.size());
}

TEST(PeerMoves, OlderPacketFromElsewhereIsNotChallenged) {  // SE-8
  MovingEnds t;
  t.establish();
  const Bytes packet = t.next_packet_of_a();
  t.a().sub->flush_ack(t.now);
  t.expect_exchange();  // b gets newer ones
  t.packets.clear();
  EXPECT_NE(t.arrive(1, packet, {kOther, TwoEnds::kLink}), PacketFate::kReplayed);
  t.run_for(100_ms);
  EXPECT_EQ(t.count(1, PacketType::kChallenge), 0u);
  EXPECT_EQ(t.bytes_to(kOther), 0u);
}

TEST(PeerMoves, ReplayedForgedAndReflectedPacketsMoveNothing) {  // SE-6, SE-8
  MovingEnds t;
  t.establish();
  t.expect_exchange();
  const std::vector<TwoEnds::Sent> seen = t.packets;
  Bytes forged = t.next_packet_of_a();
  forged.back() ^= std::byte{1};
  t.packets.clear();
  for (const TwoEnds::Sent& p : seen)
    for (const int to : {0, 1}) t.arrive(to, p.packet, {kOther, TwoEnds::kLink});
  t.arrive(1, forged, {kOther, TwoEnds::kLink});
  t.run_for(10_ms);
  EXPECT_EQ(t.bytes_to(kOther), 0u);
  for (const int i : {0, 1}) EXPECT_EQ(t.ends[i].sub->stats().address_challenges, 0u);
}

TEST(PeerMoves, PacketsByAnotherLinkMoveNothing) {  // SE-8
  MovingEnds t;
  t.establish();
  const Bytes packet = t.next_packet_of_a();
  t.arrive(1, packet, {kOther, LinkId(0)});
  t.run_for(10_ms);
  EXPECT_EQ(t.b().sub->stats().address_challenges, 0u);
}

TEST(PeerMoves, AddressThatDoesNotAnswerGetsThreeTimesItsBytesAtMost) {  // SE-9
  MovingEnds t;
  t.establish();
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.run_for(200_ms);
  t.link = nullptr;
  const auto probe =
      std::find_if(t.packets.begin(), t.packets.end(), [](const auto& p) { return p.from == 0; });
  ASSERT_NE(probe, t.packets.end());
  const Bytes packet = probe->packet;  // as short as a packet can be
  t.suspended[0] = true;               // so that no newer one comes
  t.packets.clear();
  t.arrive(1, packet, {kOther, TwoEnds::kLink});
  t.run_for(5_s);
  EXPECT_GT(t.bytes_to(kOther), packet.size());
  EXPECT_LE(t.bytes_to(kOther), 3 * packet.size());
  EXPECT_EQ(t.count(1, PacketType::kChallenge), 2u);
  EXPECT_EQ(t.b().sub->stats().address_validations_failed, 1u);
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
  t.suspended[0] = false;
  t.expect_exchange();
}

TEST(PeerMoves, NewerPacketFromThePeersAddressEndsTheValidation) {  // SE-8
  MovingEnds t;
  t.establish();
  t.arrive(1, t.next_packet_of_a(), {kOther, TwoEnds::kLink});
  t.expect_exchange();
  EXPECT_EQ(t.b().sub->stats().address_validations_failed, 1u);
  EXPECT_EQ(t.b().sub->stats().address_challenges, 1u);
  EXPECT_EQ(t.b().moves, 0);
}

// Whoever passes a challenge on to the peer gets its answer from the peer's address.
TEST(PeerMoves, AnswerFromAnotherAddressMovesNothing) {  // SE-8
  for (const bool is_from_there : {false, true}) {
    MovingEnds t;
    t.establish();
    ASSERT_NO_FATAL_FAILURE(t.pass_challenge_on(t.address[1]));
    EXPECT_EQ(t.answer().destination, t.address[1]);
    const Bytes response = t.answer().packet;
    t.arrive(1, t.next_packet_of_a(), {kOther, TwoEnds::kLink});  // so that the answer begins no validation
    t.arrive(1, response, {is_from_there ? kOther : kThird, TwoEnds::kLink});
    EXPECT_EQ(t.b().sub->peer_address(), is_from_there ? kOther : t.address[0]);
  }
}

TEST(PeerMoves, ChallengeIsAnsweredWhereItCameFrom) {  // SE-8
  MovingEnds t;
  t.establish();
  ASSERT_NO_FATAL_FAILURE(t.pass_challenge_on(kThird));
  EXPECT_EQ(t.answer().destination, kThird);
}

TEST(PeerMoves, EachChallengeIsOfNewBytes) {  // SE-8
  MovingEnds t;
  t.establish();
  ASSERT_NO_FATAL_FAILURE(t.pass_challenge_on(t.address[1]));
  const Bytes stale = t.answer().packet;
  const Bytes second = t.next_packet_of_a();
  t.arrive(1, second, {kThird, TwoEnds::kLink});
  t.arrive(1, stale, {kThird, TwoEnds::kLink});
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]) << "the answer to another challenge";
  EXPECT_EQ(t.b().sub->stats().address_validations_failed, 1u);
}

TEST(PeerMoves, PlainConnectionsNeverMove) {  // SE-8
  TwoEnds t;
  t.establish();
  t.send(0, 64);
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.b().sub->let_move(t.address[0], TwoEnds::kLink);
  t.run_for(1_us);
  t.arrive(1, t.packets.back().packet, {kOther, TwoEnds::kLink});
  t.packets.clear();
  t.run_for(100_ms);
  EXPECT_EQ(t.b().moves, 0);
  EXPECT_EQ(t.count(1, PacketType::kChallenge), 0u);
  for (const PacketType type : {PacketType::kChallenge, PacketType::kResponse}) {
    Bytes packet = t.packets.front().packet;
    ASSERT_GE(packet.size(), kPacketHeaderBytes);
    store(packet.data() + 1, static_cast<std::uint8_t>(type));
    store(packet.data() + 2, std::uint8_t{0});
    packet.resize(packet.size() + 8);
    EXPECT_EQ(t.arrive(1 - t.packets.front().from, packet), PacketFate::kRefused);
  }
}

// A peer behind a NAT is not where the configuration says; its hellos tell where it is.
TEST(PeerMoves, PeerBehindANatIsAnsweredWhereItsHelloCameFrom) {  // SE-10
  for (const int first : {0, 1}) {
    MovingEnds t(kOther);
    t.suspended[1 - first] = true;
    t.run_for(30_ms);
    t.suspended[1 - first] = false;
    t.establish();
    EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
    EXPECT_EQ(t.b().moves, 1);
    EXPECT_EQ(t.b().sub->stats().address_moves, 0u) << "it was there from the beginning";
    EXPECT_EQ(t.a().moves, 0);
    t.expect_exchange();
  }
}

TEST(PeerMoves, PeerBehindANatIsFoundAgainWhenItRestarts) {  // SE-10
  MovingEnds t(kOther);
  t.establish();
  t.address[0].port = 999;
  t.start(0, 0xa2);
  t.run_for(100_ms);
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_TRUE(t.b().sub->established());
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
  EXPECT_EQ(t.b().lost, 1);
  t.send(1, 100);
  t.run_until_finished(1_s);
  EXPECT_EQ(t.a().delivered.size(), 1u);
}

// The peer's hellos that answer none go home and where it was last, in turn: it may be at either.
TEST(PeerMoves, LostPeerIsLookedForAtBothAddresses) {  // SE-10
  MovingEnds t;
  t.establish();
  t.address[0] = kOther;
  t.run_for(300_ms);
  ASSERT_EQ(t.b().sub->peer_address(), kOther);
  t.suspended[0] = true;
  t.run_for(11_s);
  ASSERT_EQ(t.b().lost, 1);
  t.packets.clear();
  t.run_for(2_s);
  EXPECT_GT(t.bytes_to(kOther), 0u);
  EXPECT_GT(t.bytes_to(t.homes[0]), 0u);
}

TEST(PeerMoves, HelloOfOneWithoutTheSecretIsNotAnswered) {  // SE-10, SE-2
  MovingEnds t;
  t.establish();
  SubConnectionConfig other = t.config;
  KeyBytes secret{};
  other.security.secret = std::make_shared<const Secret>(secret);
  Agenda agenda(1);
  SubConnection impostor(other, 0xe1, t.now, agenda.entry(0));
  Bytes hello(1472);
  std::uint64_t sum = 0;
  hello.resize(impostor.poll(t.now, hello, &sum));
  t.packets.clear();
  EXPECT_EQ(t.arrive(1, hello, {kOther, TwoEnds::kLink}), PacketFate::kRefusedSender);
  t.run_for(10_ms);
  EXPECT_EQ(t.bytes_to(kOther), 0u);
}

// An old hello is as authentic as a new one. It is answered by one hello, and directs nothing else.
TEST(PeerMoves, OldHelloFromElsewhereIsAnsweredThereOnceAndMovesNothing) {  // SE-10
  MovingEnds t;
  t.run_for(1_us);
  const auto hello =
      std::find_if(t.packets.begin(), t.packets.end(), [](const auto& p) { return p.from == 0; });
  ASSERT_NE(hello, t.packets.end());
  const Bytes old = hello->packet;
  t.start(0, 0xa2);
  t.establish();
  t.packets.clear();
  t.arrive(1, old, {kOther, TwoEnds::kLink});
  t.run_for(100_ms);
  EXPECT_LE(t.bytes_to(kOther), 3 * old.size());
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
  EXPECT_EQ(t.b().moves, 0);
  t.expect_exchange();
}

// Neither can tell the other: as if each was dead.
TEST(PeerMoves, ConnectionOfTwoThatMoveAtOnceEnds) {  // SE-8, SC-8
  MovingEnds t;
  t.establish();
  t.address[0] = kOther;
  t.address[1] = kThird;
  t.run_for(11_s);
  EXPECT_EQ(t.a().lost, 1);
  EXPECT_EQ(t.b().lost, 1);
}

// Hosts and NATs change addresses now and then, and somebody on the way sends copies of packets, changed or not, from
// addresses of his, before or after the packets themselves. `relays`: also of those that come to his addresses.
std::size_t expect_delays_at_most(std::uint64_t seed, bool relays) {
  SCOPED_TRACE(seed);
  Prng prng(seed);
  MovingEnds t;
  t.establish();
  std::vector<std::pair<int, Bytes>> kept;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::size_t> sent, got;
  const auto key = [](const Endpoint& e) { return std::pair(e.address.value(), e.port); };
  t.link = [&](int from, std::size_t, const PacketHeader&) {
    const Endpoint& to = t.packets.back().destination;
    const bool is_his = to.address.value() >> 16 == (10u << 8 | 66u);
    if (is_his) got[key(to)] += t.packets.back().bytes;
    if (!is_his || relays) kept.emplace_back(from, t.packets.back().packet);
    return prng.chance(0.1) ? kLost : Delays{Duration::us(static_cast<std::int64_t>(5 + prng.below(100)))};
  };
  int moves = 0;
  std::size_t total = 0;
  for (int round = 0; round < 300; ++round) {
    if (round % 15 == 0) {
      t.send(0, static_cast<std::uint32_t>(prng.below(3000)));
      t.send(1, static_cast<std::uint32_t>(prng.below(3000)));
    }
    // One at a time, and the other has noticed.
    const bool settled =
        t.a().sub->peer_address() == t.address[1] && t.b().sub->peer_address() == t.address[0];
    if (!relays && settled && prng.chance(0.05)) {
      Endpoint& mover = t.address[prng.below(2)];
      ++moves;
      if (prng.chance(0.5))
        mover.address =
            Ipv4Address(10, 5, static_cast<std::uint8_t>(moves >> 8), static_cast<std::uint8_t>(moves));
      mover.port = static_cast<std::uint16_t>(1024 + prng.below(60'000));
    }
    t.run_for(20_us);
    for (int n = 0; n < 3 && !kept.empty(); ++n) {
      const bool is_latest = prng.chance(0.5);
      auto [from, packet] = is_latest ? kept.back() : kept[prng.below(kept.size())];
      if (prng.chance(0.2))
        packet[12 + prng.below(packet.size() - 12)] ^= static_cast<std::byte>(1 + prng.below(255));
      PacketHeader h;
      std::size_t length = 0;
      if (!parse_packet_header(packet, &h, &length)) continue;
      const Endpoint forged{Ipv4Address(10, 66, 0, static_cast<std::uint8_t>(prng.below(4))),
                            static_cast<std::uint16_t>(1 + prng.below(3))};
      sent[key(forged)] += packet.size();
      t.arrive(prng.chance(0.2) ? from : 1 - from, packet, {forged, TwoEnds::kLink});
    }
  }
  if (!relays) {
    for (const auto& [address, bytes] : got) EXPECT_LE(bytes, 3 * sent[address]);
    for (const auto& [address, bytes] : got) total += bytes;
  }
  t.link = nullptr;
  t.run_until_finished(9_s);
  t.run_for(300_ms);
  EXPECT_EQ(t.a().delivered.size(), 20u);
  EXPECT_EQ(t.b().delivered.size(), 20u);
  EXPECT_EQ(t.a().lost + t.b().lost, 0);
  EXPECT_EQ(t.a().sub->peer_address(), t.address[1]);
  EXPECT_EQ(t.b().sub->peer_address(), t.address[0]);
  EXPECT_EQ(moves > 0, !relays);
  return total;
}

TEST(PeerMoves, SomebodyOnTheWayMovesNothingAndGetsLittle) {  // SE-8, SE-9, SE-10
  std::size_t bytes = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) bytes += expect_delays_at_most(seed, false);
  EXPECT_GT(bytes, 0u) << "nobody was challenged";
}

// He can be a NAT of his own making. When he goes, the ends find each other where they were.
TEST(PeerMoves, SomebodyWhoRelaysEverythingDelaysAtMost) {  // SE-8
  for (std::uint64_t seed = 1; seed <= 40; ++seed) (void)expect_delays_at_most(seed, true);
}

}  // namespace
}  // namespace braid::stack
