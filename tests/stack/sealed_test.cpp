// Two sub-connections with a secret, and somebody on the wire between them who reads, keeps, changes, repeats and
// reflects packets, or who has no secret or another.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "two_ends.h"

namespace braid::stack {
namespace {

using Delays = std::vector<Duration>;
const Delays kLost;

SubConnectionConfig sealed_config(CipherOffer cipher = CipherOffer::kAuto) {
  SubConnectionConfig config;
  config.security = virtual_security(0);
  config.security.cipher = cipher;
  return config;
}

Security other_secret() {
  KeyBytes secret{};
  Security security;
  security.secret = std::make_shared<const Secret>(secret);
  return security;
}

// An end of the same addresses as end i of `t`, with another configuration of its security.
struct Impostor {
  Impostor(TwoEnds& t, int i, const Security& security, std::uint64_t epoch) {
    SubConnectionConfig config = t.config;
    if (i == 1) std::swap(config.local, config.remote);
    config.security = security;
    sub = std::make_unique<SubConnection>(config, epoch, t.now, agenda.entry(0));
  }
  Bytes packet(Instant now) {
    Bytes room(1472);
    std::uint64_t sum = 0;
    room.resize(sub->poll(now, room, &sum));
    return room;
  }
  Agenda agenda{1};
  std::unique_ptr<SubConnection> sub;
};

PacketHeader header_of(const Bytes& packet) {
  PacketHeader h;
  std::size_t length = 0;
  EXPECT_TRUE(parse_packet_header(packet, &h, &length));
  return h;
}
bool is_hello(const TwoEnds::Sent& p) {
  return p.header.type == PacketType::kHello;
}
// With a message of the key exchange.
bool has_message(const TwoEnds::Sent& p) {
  return is_hello(p) && p.bytes > kPacketHeaderBytes + 40;
}

TEST(Sealed, KeysAreAgreedInTwoAndAHalfRoundTrips) {  // SE-3
  TwoEnds t(sealed_config());
  t.run_until(at(40_us));
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_TRUE(t.b().sub->established());
  EXPECT_TRUE(t.a().sub->sealed());
  EXPECT_FALSE(t.b().sub->confirmed());
  t.run_until(at(50_us));
  EXPECT_TRUE(t.b().sub->confirmed());
  EXPECT_EQ(std::count_if(t.packets.begin(), t.packets.end(),
                          [](const auto& p) { return p.from == 0 && has_message(p); }),
            2)
      << "b's first hello and b's answer each make a send the first message";
}

TEST(Sealed, MessagesOfEveryLengthArriveWithEitherCipher) {  // SE-5
  for (const CipherOffer cipher : {CipherOffer::kAes, CipherOffer::kChaCha}) {
    TwoEnds t(sealed_config(cipher));
    for (const std::uint32_t bytes : {0, 1, 63, 64, 65, 1300, 1400, 1472, 9000, 32'768}) {
      t.send(0, bytes);
      t.send(1, bytes);
    }
    t.run_until_finished(1_s);
    EXPECT_EQ(t.a().delivered.size(), 10u);
    EXPECT_EQ(t.b().delivered.size(), 10u);
    EXPECT_EQ(t.a().sub->stats().retransmissions + t.b().sub->stats().retransmissions, 0u);
  }
}

TEST(Sealed, EndsThatWantDifferentCiphersAgreeOnOne) {  // SE-4
  for (const int with_chacha : {0, 1}) {
    TwoEnds t(sealed_config(CipherOffer::kAes));
    t.config.security.cipher = CipherOffer::kChaCha;
    t.start(with_chacha, with_chacha == 0 ? 0xa2 : 0xb2);
    t.send(0, 3000);
    t.send(1, 3000);
    t.run_until_finished(100_ms);
    EXPECT_EQ(t.a().delivered.size() + t.b().delivered.size(), 2u);
  }
}

TEST(Sealed, NoByteOfAMessageIsSeenOnTheWire) {  // SE-1, SE-5
  TwoEnds t(sealed_config());
  std::vector<TestMessage*> sent;
  for (const std::uint32_t bytes : {16, 64, 700, 5000})
    for (const int i : {0, 1}) sent.push_back(&t.send(i, bytes));
  t.run_until_finished(100_ms);
  ASSERT_EQ(t.a().delivered.size() + t.b().delivered.size(), 8u);
  std::set<std::uint64_t> words;  // eight bytes in a row of what was sent
  for (const TestMessage* m : sent)
    for (std::size_t at = 0; at + 8 <= m->content.size(); at += 8)
      words.insert(load<std::uint64_t>(m->content.data() + at));
  for (const TwoEnds::Sent& p : t.packets)
    for (std::size_t at = 0; at + 8 <= p.packet.size(); ++at)
      ASSERT_EQ(words.count(load<std::uint64_t>(p.packet.data() + at)), 0u);
}

struct ToldKeys final : KeyObserver {
  using Id = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // epochs and generation
  void on_key(const PacketKey& key) override {
    ++calls;
    std::unique_ptr<Aead>& opener = openers[{key.sender_epoch, key.receiver_epoch, key.generation}];
    opener = std::make_unique<Aead>(Aead::Use::kOpen);
    opener->set_key(key.cipher, key.key);
  }
  // nullopt: no key that was told opens it.
  std::optional<Bytes> open(const TwoEnds::Sent& p) {
    const std::size_t header = packet_header_bytes(p.header.sack_words);
    const ByteView sealed = ByteView(p.packet).subspan(header);
    const auto key =
        openers.find({p.header.sender_epoch, p.header.receiver_epoch, generation_of(packet_number(sealed))});
    Bytes text(sealed.size() - kSealBytes);
    if (key == openers.end() ||
        !open_packet(*key->second, ByteView(p.packet).first(header), sealed, text.data()))
      return std::nullopt;
    return text;
  }
  std::map<Id, std::unique_ptr<Aead>> openers;
  int calls = 0;
};

TEST(Sealed, KeysThatAnEndTellsOpenEveryPacketOfBothDirections) {
  ToldKeys keys;
  SubConnectionConfig config = sealed_config();
  config.security.observer = &keys;
  TwoEnds t(config);
  for (const int i : {0, 1}) t.send(i, 5000);
  t.run_until_finished(100_ms);
  EXPECT_EQ(keys.calls, 4) << "both ends make the keys of both directions";
  EXPECT_EQ(keys.openers.size(), 2u);
  // A new incarnation of one end has other keys.
  t.start(1, 0xb2);
  t.run_for(50_ms);
  t.send(0, 5000);
  t.run_until_finished(100_ms);
  EXPECT_EQ(keys.openers.size(), 4u);
  std::size_t opened = 0, records = 0;
  for (const TwoEnds::Sent& p : t.packets) {
    if (is_hello(p)) continue;
    const std::optional<Bytes> text = keys.open(p);
    ASSERT_TRUE(text.has_value());
    ++opened;
    RecordReader reader(*text, p.header.records);
    Record record;
    ByteView content;
    while (reader.next(&record, &content)) ++records;
    EXPECT_FALSE(reader.broken());
  }
  EXPECT_GT(opened, 10u);
  EXPECT_GT(records, 10u);
}

// What an end is, as far as a test can ask.
std::vector<std::uint64_t> state_of(const SubConnection& sub) {
  const SubConnectionStats s = sub.stats();
  return {static_cast<std::uint64_t>(sub.state()),
          sub.epoch(),
          sub.peer_epoch(),
          sub.peer_incarnation(),
          sub.confirmed(),
          sub.path_dead(),
          sub.in_flight_packets(),
          sub.queued_messages(),
          s.peers_lost,
          s.renewals,
          s.retransmissions,
          static_cast<std::uint64_t>(sub.srtt().ns())};
}

// Hands `to` the packet once for each of its bits, with that bit flipped: its fate is one of `fates`, and nothing changes. Headers
// that cannot be parsed are left out, for the stack refuses them.
void expect_flips_change_nothing(SubConnection& to, Instant now, const Bytes& packet,
                                 std::initializer_list<PacketFate> fates) {
  const auto before = state_of(to);
  for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
    Bytes flipped = packet;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    PacketHeader h;
    std::size_t length = 0;
    if (!parse_packet_header(flipped, &h, &length)) continue;
    const PacketFate fate = to.on_packet(now, h, ByteView(flipped).subspan(length));
    EXPECT_EQ(std::count(fates.begin(), fates.end(), fate), 1) << bit << ": " << static_cast<int>(fate);
    EXPECT_EQ(state_of(to), before) << bit;
  }
}

TEST(Sealed, EveryFlippedBitIsDetected) {  // SE-2, SE-5
  TwoEnds t(sealed_config());
  t.establish();
  t.send(0, 20);
  t.send(1, 20);
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.run_for(1_us);
  t.link = nullptr;
  std::vector<TwoEnds::Sent> sent = t.packets;
  ASSERT_EQ(sent.size(), 2u);
  for (const TwoEnds::Sent& p : sent) {
    // With the number of a packet before it, it looks like a replay of that.
    expect_flips_change_nothing(
        *t.ends[1 - p.from].sub, t.now, p.packet,
        {PacketFate::kForged, PacketFate::kReplayed, PacketFate::kUnknownEpoch, PacketFate::kRefused});
    EXPECT_EQ(t.arrive(1 - p.from, p.packet), PacketFate::kRecords) << "unchanged it is taken";
  }
}

TEST(Sealed, EveryFlippedBitOfAHelloIsDetected) {  // SE-2
  TwoEnds t(sealed_config());
  t.run_until(at(60_us));
  const std::vector<TwoEnds::Sent> sent = t.packets;
  std::size_t hellos = 0;
  for (const TwoEnds::Sent& p : sent) {
    if (!is_hello(p)) continue;
    ++hellos;
    TwoEnds fresh(sealed_config());
    expect_flips_change_nothing(
        *fresh.ends[1 - p.from].sub, fresh.now, p.packet,
        {PacketFate::kRefusedSender, PacketFate::kUnknownEpoch, PacketFate::kRefused});
  }
  EXPECT_GE(hellos, 6u);
}

TEST(Sealed, TruncatedAndExtendedPacketsAreRefused) {  // SE-2, SE-5
  TwoEnds t(sealed_config());
  t.run_until(at(60_us));
  t.send(0, 20);
  t.run_for(1_ms);
  const std::vector<TwoEnds::Sent> sent = t.packets;
  for (const TwoEnds::Sent& p : sent) {
    SubConnection& sub = *t.ends[1 - p.from].sub;
    const auto before = state_of(sub);
    for (std::size_t length = kPacketHeaderBytes; length <= p.packet.size() + 1; ++length) {
      if (length == p.packet.size()) continue;
      Bytes packet = p.packet;
      packet.resize(length);
      PacketHeader h;
      std::size_t header = 0;
      if (!parse_packet_header(packet, &h, &header)) continue;
      const PacketFate fate = sub.on_packet(t.now, h, ByteView(packet).subspan(header));
      EXPECT_TRUE(fate != PacketFate::kRecords && fate != PacketFate::kNothing) << length;
      EXPECT_EQ(state_of(sub), before);
    }
  }
}

// One with the secret may be broken, too.
TEST(Sealed, AuthenticHelloWithWrongContentsIsRefused) {  // SE-2
  const auto take = [](int i, std::uint64_t named, bool with_message, std::size_t field, unsigned value) {
    TwoEnds t(sealed_config());
    Impostor other(t, 1 - i, t.config.security, 0xe1);
    Bytes hello = other.packet(t.now);
    hello.resize(kPacketHeaderBytes + 20 + (with_message ? KeyExchange::kMessageBytes : 0));
    store(hello.data() + 20, named);
    store(hello.data() + kPacketHeaderBytes + 19, static_cast<std::uint8_t>(with_message ? 1 : 0));
    store(hello.data() + kPacketHeaderBytes + field, static_cast<std::uint8_t>(value));
    const std::size_t bytes = hello.size();
    hello.resize(bytes + KeyExchange::kMacBytes);
    const KeyExchange sender(t.config.security, {});
    sender.authenticate(ByteView(hello).first(bytes), hello.data() + bytes);
    const PacketFate fate = t.arrive(i, hello);
    EXPECT_FALSE(t.ends[i].sub->established());
    return fate;
  };
  for (const int i : {0, 1}) {
    for (const std::uint64_t named : {std::uint64_t{0}, std::uint64_t{0xa1}, std::uint64_t{0xb1}}) {
      for (const bool with_message : {false, true}) {
        for (unsigned value = 0; value < 6; ++value) {
          const bool right_cipher = value == 1 || value == 2;
          const bool right_kind = with_message ? value == 1 || value == 2 : value == 0;
          if (!right_cipher) {
            EXPECT_EQ(take(i, named, with_message, 18, value), PacketFate::kRefused);
          }
          if (!right_kind) {
            EXPECT_EQ(take(i, named, with_message, 19, value), PacketFate::kRefused);
          }
          EXPECT_NE(take(i, named, with_message, 19, value), PacketFate::kRefusedSender)
              << "it has the secret";
        }
      }
    }
  }
}

TEST(Sealed, ReplayedPacketsChangeNothing) {  // SE-6
  TwoEnds t(sealed_config());
  t.send_many(0, 30, 900);
  t.send_many(1, 30, 900);
  t.run_until_finished(10_ms);
  t.run_for(1_ms);
  const std::vector<TwoEnds::Sent> recorded = t.packets;  // the whole connection
  const auto a = state_of(*t.a().sub), b = state_of(*t.b().sub);
  for (int round = 0; round < 3; ++round) {
    for (const TwoEnds::Sent& p : recorded) {
      const PacketFate fate = t.arrive(1 - p.from, p.packet);
      if (!is_hello(p)) {
        EXPECT_EQ(fate, PacketFate::kReplayed);
      }
      EXPECT_NE(fate, PacketFate::kRecords);
    }
    EXPECT_EQ(state_of(*t.a().sub), a);
    EXPECT_EQ(state_of(*t.b().sub), b);
  }
  EXPECT_EQ(t.a().delivered.size(), 30u);
  EXPECT_EQ(t.b().delivered.size(), 30u);
  EXPECT_EQ(t.a().lost + t.b().lost, 0);
}

TEST(Sealed, ReplayedConnectionIsNotTakenForALiveOne) {  // SE-3, SE-6
  TwoEnds t(sealed_config());
  t.send_many(0, 5, 900);
  t.run_until_finished(10_ms);
  const std::vector<TwoEnds::Sent> recorded = t.packets;
  t.start(0, 0xa2);
  t.start(1, 0xb2);
  // Alone with the record, in any part of it: each end answers hellos, and nobody is established.
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  for (std::size_t from = 0; from < recorded.size(); ++from) {
    for (std::size_t i = from; i < recorded.size(); ++i) {
      t.arrive(1 - recorded[i].from, recorded[i].packet);
      t.run_for(10_us);
    }
    EXPECT_FALSE(t.a().sub->established());
    EXPECT_FALSE(t.b().sub->established());
  }
  EXPECT_TRUE(t.b().delivered.empty());
  // The living ones find each other, and a record then is what it was before.
  t.link = nullptr;
  t.run_for(1_s);
  ASSERT_TRUE(t.a().sub->established() && t.b().sub->established());
  const auto a = state_of(*t.a().sub), b = state_of(*t.b().sub);
  for (const TwoEnds::Sent& p : recorded) {
    t.arrive(1 - p.from, p.packet);
    t.run_for(10_us);
  }
  EXPECT_EQ(state_of(*t.a().sub), a);
  EXPECT_EQ(state_of(*t.b().sub), b);
}

TEST(Sealed, OldHelloKeepsNoSilentPeerAlive) {  // SE-6
  TwoEnds t(sealed_config());
  t.run_until(at(1_ms));
  std::vector<Bytes> hellos;
  for (const TwoEnds::Sent& p : t.packets)
    if (p.from == 1 && is_hello(p)) hellos.push_back(p.packet);
  t.suspended[1] = true;
  for (int i = 0; i < 110; ++i) {
    for (const Bytes& hello : hellos) t.arrive(0, hello);
    t.run_for(100_ms);
  }
  EXPECT_EQ(t.a().lost, 1) << "the peer is dead, whatever is repeated";
}

TEST(Sealed, ReflectedPacketsChangeNothing) {  // SE-5
  TwoEnds t(sealed_config());
  t.send(0, 100);
  t.send(1, 100);
  t.run_until_finished(10_ms);
  for (const bool swap : {false, true}) {
    for (const TwoEnds::Sent& p : std::vector<TwoEnds::Sent>(t.packets)) {
      Bytes packet = p.packet;
      if (swap) {  // addressed to its sender
        for (const auto& [x, y] : {std::pair{4, 8}, {5, 9}, {6, 7}}) std::swap(packet[x], packet[y]);
        std::swap_ranges(packet.begin() + 12, packet.begin() + 20, packet.begin() + 20);
      }
      const auto before = state_of(*t.ends[p.from].sub);
      const PacketFate fate = t.arrive(p.from, packet);
      EXPECT_TRUE(fate != PacketFate::kRecords && fate != PacketFate::kNothing) << static_cast<int>(fate);
      EXPECT_EQ(state_of(*t.ends[p.from].sub), before);
    }
  }
}

TEST(Sealed, SenderWithoutTheSecretIsRefused) {  // SE-2
  TwoEnds t(sealed_config());
  t.establish();
  for (int i = 0; i < 2; ++i) {
    SubConnection& sub = *t.ends[1 - i].sub;
    const auto before = state_of(sub);
    Impostor other(t, i, other_secret(), 0xe1);
    EXPECT_EQ(t.arrive(1 - i, other.packet(t.now)), PacketFate::kRefusedSender);
    EXPECT_EQ(sub.refusal(), Refusal::kOtherSecret);
    Impostor without(t, i, {}, 0xe2);
    EXPECT_EQ(t.arrive(1 - i, without.packet(t.now)), PacketFate::kRefusedSender);
    EXPECT_EQ(sub.refusal(), Refusal::kNoSecret);
    EXPECT_EQ(state_of(sub), before);
    EXPECT_FALSE(sub.wants_to_send(t.now)) << "it gets no answer";
  }
  Agenda agenda(1);
  SubConnectionConfig plain = t.config;
  plain.security = {};
  SubConnection sub(plain, 0xc1, t.now, agenda.entry(0));
  Impostor sealed(t, 1, t.config.security, 0xe3);
  const Bytes hello = sealed.packet(t.now);
  PacketHeader h;
  std::size_t length = 0;
  ASSERT_TRUE(parse_packet_header(hello, &h, &length));
  EXPECT_EQ(sub.on_packet(t.now, h, ByteView(hello).subspan(length)), PacketFate::kRefusedSender);
  EXPECT_EQ(sub.refusal(), Refusal::kUnexpectedSecret);
  EXPECT_EQ(sub.peer_epoch(), 0u);
}

TEST(Sealed, EndsWithDifferentSecretsNeverConnect) {  // SE-2
  TwoEnds t(sealed_config());
  t.config.security = other_secret();
  t.start(1, 0xb2);
  t.run_for(2_s);
  EXPECT_FALSE(t.a().sub->established());
  EXPECT_FALSE(t.b().sub->established());
  EXPECT_EQ(t.a().sub->refusal(), Refusal::kOtherSecret);
  EXPECT_EQ(t.b().sub->refusal(), Refusal::kOtherSecret);
  // Mended, they do.
  t.config.security = virtual_security(0);
  t.start(1, 0xb3);
  t.run_for(1_s);
  EXPECT_TRUE(t.a().sub->established());
  EXPECT_EQ(t.a().sub->refusal(), Refusal::kNone);
}

// A hello costs nothing that lasts before its sender has shown that it receives what is sent to its address.
TEST(Sealed, HelloThatDoesNotNameOurEpochGetsNoKeyExchange) {  // SE-3
  TwoEnds t(sealed_config());
  Bytes own_hello(1472);
  std::uint64_t own_sum = 0;
  ASSERT_GT(t.a().sub->poll(t.now, own_hello, &own_sum), 0u);
  const auto before = state_of(*t.a().sub);
  for (std::uint64_t epoch = 0xe1; epoch < 0xe9; ++epoch) {
    Impostor replayed(t, 1, t.config.security, epoch);
    EXPECT_EQ(t.arrive(0, replayed.packet(t.now)), PacketFate::kNothing);
    Bytes room(1472);
    std::uint64_t sum = 0;
    room.resize(t.a().sub->poll(t.now, room, &sum));
    EXPECT_EQ(header_of(room).receiver_epoch, epoch);
    EXPECT_LT(room.size(), kPacketHeaderBytes + 40) << "no message of the exchange";
    EXPECT_EQ(state_of(*t.a().sub), before);
  }
}

TEST(Sealed, ExchangeSurvivesTheLossOfAnyFirstPacket) {  // SE-3
  for (int lost_from = 0; lost_from < 2; ++lost_from) {
    for (std::size_t lost = 0; lost < 6; ++lost) {
      SCOPED_TRACE(testing::Message() << "packet " << lost << " from " << lost_from);
      TwoEnds t(sealed_config());
      t.link = [&](int from, std::size_t n, const PacketHeader&) {
        return from == lost_from && n == lost ? kLost : Delays{10_us};
      };
      t.send(0, 100);
      t.send(1, 100);
      t.run_until_finished(100_ms);
      EXPECT_EQ(t.a().delivered.size() + t.b().delivered.size(), 2u);
    }
  }
}

// The answer to a challenge is lost: the peer has its keys and sends, and what it sends makes us ask again.
TEST(Sealed, LostSecondMessageIsAskedForAgainWhenThePeerSends) {  // SE-3
  for (const int restarted : {0, 1}) {
    TwoEnds t(sealed_config());
    t.establish();
    int dropped = 0;
    t.link = [&](int from, std::size_t, const PacketHeader& h) {
      const bool second = from == 1 && h.type == PacketType::kHello && has_message(t.packets.back());
      return second && dropped++ < 1 ? kLost : Delays{10_us};
    };
    t.start(restarted, restarted == 0 ? 0xa2 : 0xb2);
    t.send(0, 100);
    t.send(1, 100);
    t.run_for(100_ms);
    EXPECT_EQ(dropped > 0, true);
    EXPECT_TRUE(t.a().sub->established() && t.b().sub->established());
    EXPECT_FALSE(t.a().sub->has_unfinished() || t.b().sub->has_unfinished());
    EXPECT_EQ(t.ends[1 - restarted].lost, 1);
  }
}

TEST(Sealed, RestartedPeerHasOtherKeys) {  // SE-3
  TwoEnds t(sealed_config());
  t.establish();
  t.send(1, 100);
  t.run_until_finished(1_ms);
  const std::vector<TwoEnds::Sent> before = t.packets;
  t.start(1, 0xb2);
  t.run_for(10_ms);
  ASSERT_EQ(t.a().lost, 1);
  for (const TwoEnds::Sent& p : before)
    if (!is_hello(p)) {
      EXPECT_EQ(t.arrive(1 - p.from, p.packet), PacketFate::kUnknownEpoch);
    }
  // And with the epochs of now, they are not opened.
  for (TwoEnds::Sent p : before) {
    if (is_hello(p) || p.from != 1) continue;
    store(p.packet.data() + 12, t.b().sub->epoch());
    store(p.packet.data() + 20, t.a().sub->epoch());
    EXPECT_EQ(t.arrive(0, p.packet), PacketFate::kForged);
  }
  t.send(0, 100);
  t.send(1, 100);
  t.run_until_finished(10_ms);
  EXPECT_EQ(t.a().delivered.size(), 2u);
}

// Old hellos of the peer's earlier incarnation do not end a closing end early: it goes on telling its peer (SC-11).
TEST(Sealed, OldHelloDoesNotEndAClosingEnd) {  // SE-3
  TwoEnds t(sealed_config());
  t.run_until(at(1_ms));
  const Bytes old_hello = std::find_if(t.packets.begin(), t.packets.end(), [](const auto& p) {
                            return p.from == 1 && p.header.receiver_epoch == 0;
                          })->packet;
  t.start(1, 0xb2);
  t.run_for(10_ms);
  t.packets.clear();
  t.link = [](int, std::size_t, const PacketHeader&) { return kLost; };
  t.a().sub->close(t.now);
  t.run_for(1_us);
  ASSERT_EQ(t.count(0, PacketType::kClose), 1u);
  t.arrive(0, old_hello);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kEstablished);
  t.run_for(1_s);
  EXPECT_EQ(t.count(0, PacketType::kClose), 4u);
  EXPECT_EQ(t.a().sub->state(), SubConnection::State::kClosed);
}

TEST(Sealed, NewHandshakeOfThePeerEndsAClosingEnd) {  // SC-11, SE-3
  for (const int closing : {0, 1}) {
    TwoEnds t(sealed_config());
    t.establish();
    t.link = [](int, std::size_t, const PacketHeader& h) {
      return h.type == PacketType::kClose ? kLost : Delays{10_us};
    };
    t.ends[closing].sub->close(t.now);
    t.run_for(1_us);
    ASSERT_EQ(t.count(closing, PacketType::kClose), 1u);
    t.start(1 - closing, 0xc2);
    t.run_for(200_us);
    EXPECT_EQ(t.ends[closing].sub->state(), SubConnection::State::kClosed);
    EXPECT_FALSE(t.ends[1 - closing].sub->established());
  }
}

// Somebody between the ends who swaps, repeats, reflects, keeps, changes and drops packets at random, and then goes.
TEST(Sealed, ManInTheMiddleDelaysAtMost) {  // SE-2, SE-3, SE-5, SE-6
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    TwoEnds t(sealed_config());
    std::vector<std::pair<int, Bytes>> kept;
    t.link = [&](int from, std::size_t, const PacketHeader&) {
      kept.emplace_back(from, t.packets.back().packet);
      return prng.chance(0.3) ? kLost : Delays{Duration::us(static_cast<std::int64_t>(5 + prng.below(100)))};
    };
    for (int round = 0; round < 200; ++round) {
      if (round % 10 == 0) {
        t.send(0, static_cast<std::uint32_t>(prng.below(3000)));
        t.send(1, static_cast<std::uint32_t>(prng.below(3000)));
      }
      t.run_for(20_us);
      for (int n = 0; n < 3 && !kept.empty(); ++n) {
        auto [from, packet] = kept[prng.below(kept.size())];
        const bool changed = prng.chance(0.5);
        if (changed)
          packet[12 + prng.below(packet.size() - 12)] ^= static_cast<std::byte>(1 + prng.below(255));
        PacketHeader h;
        std::size_t length = 0;
        if (!parse_packet_header(packet, &h, &length)) continue;
        t.arrive(prng.chance(0.2) ? from : 1 - from, packet);
      }
    }
    t.link = nullptr;
    t.run_until_finished(5_s);
    EXPECT_EQ(t.a().delivered.size(), 20u);  // each of them intact: two_ends.h compares
    EXPECT_EQ(t.b().delivered.size(), 20u);
    EXPECT_EQ(t.a().lost + t.b().lost, 0);
  }
}

// An end whose peer has another incarnation than its hello said, or other names, agrees on nothing with it.
TEST(Sealed, ExchangeIsBoundToBothEnds) {  // SE-4
  const Security security = virtual_security(0);
  for (const int different : {0, 1, 2, 3}) {
    SubConnectionConfig a;
    a.local = {ClusterId(0), ProxyId(0)};
    a.remote = {ClusterId(1), ProxyId(0)};
    a.incarnation = 7;
    a.security = security;
    SubConnectionConfig b = a;
    std::swap(b.local, b.remote);
    Agenda agendas[2]{Agenda(1), Agenda(1)};
    SubConnection ends[2]{{a, 0xa1, at(0_us), agendas[0].entry(0)}, {b, 0xb1, at(0_us), agendas[1].entry(0)}};
    // What passes is changed by one who has the secret: it is as authentic as before.
    KeyExchange exchange(security, {});
    for (int step = 0; step < 20; ++step) {
      const int from = step % 2;
      Bytes packet(1472);
      std::uint64_t sum = 0;
      packet.resize(ends[from].poll(at(Duration::us(step)), packet, &sum));
      if (packet.empty() || header_of(packet).type != PacketType::kHello) continue;
      if (from == 0 && different == 1) store(packet.data() + kPacketHeaderBytes + 8, std::uint64_t{8});
      if (from == 0 && different == 2) store(packet.data() + 6, std::uint8_t{1});
      if (from == 1 && different == 3) store(packet.data() + 6, std::uint8_t{1});
      const std::size_t bytes = packet.size() - KeyExchange::kMacBytes;
      exchange.authenticate(ByteView(packet).first(bytes), packet.data() + bytes);
      PacketHeader h;
      std::size_t length = 0;
      ASSERT_TRUE(parse_packet_header(packet, &h, &length));
      (void)ends[1 - from].on_packet(at(Duration::us(step)), h, ByteView(packet).subspan(length));
    }
    EXPECT_EQ(ends[0].established(), different == 0) << different;
    EXPECT_EQ(ends[1].established(), different == 0) << different;
  }
}

TEST(Sealed, FloodOfForgedHellosLeavesTheConnectionAlone) {  // SE-2
  TwoEnds t(sealed_config());
  t.establish();
  Prng prng(5);
  Impostor other(t, 1, other_secret(), 0xe1);
  Bytes hello = other.packet(t.now);
  const auto before = state_of(*t.a().sub);
  for (int i = 0; i < 10'000; ++i) {
    store(hello.data() + 12, prng.next() | 1);
    ASSERT_EQ(t.arrive(0, hello), PacketFate::kRefusedSender);
  }
  EXPECT_EQ(state_of(*t.a().sub), before);
  t.send(0, 1000);
  t.run_until_finished(1_ms);
  EXPECT_EQ(t.b().delivered.size(), 1u);
}

}  // namespace
}  // namespace braid::stack
