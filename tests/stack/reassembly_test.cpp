// Fragments put together again: in every order, twice, from liars, and without end.
#include "stack/reassembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/prng.h"
#include "wire_bytes.h"

namespace braid::stack {
namespace {

constexpr Ipv4Address kThem(10, 0, 0, 2);
constexpr Ipv4Address kUs(10, 0, 0, 1);

constexpr Instant at(Duration since_start) {
  return Instant::from_ns(1'000'000'000) + since_start;
}

struct Sender {
  explicit Sender(std::size_t bytes, std::uint64_t seed = 1, std::uint16_t id = 7) : identification(id) {
    Prng prng(seed);
    payload = random_bytes(prng, bytes);
    write_ipv4(header, {.source = kThem, .destination = kUs, .payload_bytes = 8});
  }
  // Bytes [from, to) of `payload` as a fragment.
  Ipv4Packet piece(std::size_t from, std::size_t to) const {
    Ipv4Packet p;
    p.source = kThem;
    p.destination = kUs;
    p.protocol = IpProtocol::kUdp;
    p.identification = identification;
    p.fragment_offset_bytes = static_cast<std::uint16_t>(from);
    p.more_fragments = to < payload.size();
    p.header = header;
    p.payload = ByteView(payload).subspan(from, to - from);
    return p;
  }
  // As a sender cuts it that may send so many bytes at once.
  std::vector<Ipv4Packet> cut(std::size_t bytes) const {
    std::vector<Ipv4Packet> out;
    for (std::size_t from = 0; from < payload.size(); from += bytes)
      out.push_back(piece(from, std::min(from + bytes, payload.size())));
    return out;
  }

  std::uint16_t identification;
  Bytes payload;
  Bytes header = Bytes(kIpv4HeaderBytes);
};

struct Receiver {
  explicit Receiver(const ReassemblyConfig& c = {}) : config(c), reassembly(config) {}
  FragmentFate add(const Ipv4Packet& f, Duration when = 0_s) {
    const FragmentFate fate = reassembly.add(at(when), f, whole);
    reassembly.check();
    return fate;
  }
  Bytes bytes() const { return {whole.payload.begin(), whole.payload.end()}; }
  const ReassemblyStats& stats() const { return reassembly.stats(); }

  ReassemblyConfig config;
  Reassembly reassembly;
  Ipv4Packet whole;
};

TEST(Reassembly, FragmentsInEveryOrderCompleteThePacket) {  // IP-2
  const Sender sender(50);
  const std::vector<Ipv4Packet> pieces = {sender.piece(0, 8), sender.piece(8, 24), sender.piece(24, 32),
                                          sender.piece(32, 48), sender.piece(48, 50)};
  std::vector<std::size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    Receiver r;
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      ASSERT_EQ(r.add(pieces[order[i]]), FragmentFate::kKept);
    ASSERT_EQ(r.add(pieces[order.back()]), FragmentFate::kComplete);
    ASSERT_EQ(r.bytes(), sender.payload);
    ASSERT_EQ(r.reassembly.incomplete(), 0u);
    ASSERT_EQ(r.reassembly.next_deadline(), Instant::never());
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Reassembly, EveryLengthAndEveryCutIsReassembled) {  // IP-2
  Receiver r;
  for (const std::size_t bytes : {9u, 15u, 16u, 1481u, 2960u, 2961u, 9008u, 32768u, 65507u, 65515u}) {
    for (const std::size_t cut : {8u, 552u, 1480u, 8976u, 65512u}) {
      if (cut >= bytes) continue;
      SCOPED_TRACE(std::to_string(bytes) + " cut to " + std::to_string(cut));
      const Sender sender(bytes, bytes * 3 + cut);
      std::vector<Ipv4Packet> pieces = sender.cut(cut);
      std::reverse(pieces.begin(), pieces.end());
      for (std::size_t i = 0; i + 1 < pieces.size(); ++i) ASSERT_EQ(r.add(pieces[i]), FragmentFate::kKept);
      ASSERT_EQ(r.add(pieces.back()), FragmentFate::kComplete);
      ASSERT_EQ(r.bytes(), sender.payload);
      EXPECT_EQ(Bytes(r.whole.header.begin(), r.whole.header.end()), sender.header);
      EXPECT_FALSE(r.whole.is_fragment());
    }
  }
}

TEST(Reassembly, RepeatedFragmentIsADuplicate) {  // IP-2
  const Sender sender(40);
  Receiver r;
  EXPECT_EQ(r.add(sender.piece(16, 40)), FragmentFate::kKept);
  EXPECT_EQ(r.add(sender.piece(16, 40)), FragmentFate::kDuplicate);
  EXPECT_EQ(r.add(sender.piece(0, 8)), FragmentFate::kKept);
  EXPECT_EQ(r.add(sender.piece(0, 8)), FragmentFate::kDuplicate);
  EXPECT_EQ(r.add(sender.piece(8, 16)), FragmentFate::kComplete);
  EXPECT_EQ(r.bytes(), sender.payload);
  EXPECT_EQ(r.stats().duplicates, 2u);
}

TEST(Reassembly, OverlappingFragmentsDiscardTheWholePacket) {  // IP-2
  const Sender honest(64, 1);
  const Sender liar(64, 2);
  struct Case {
    const char* what;
    Ipv4Packet before;
    Ipv4Packet liars;
  };
  Ipv4Packet shorter = honest.piece(16, 24);
  shorter.more_fragments = false;
  const std::vector<Case> cases = {
      {"over its beginning", honest.piece(8, 24), liar.piece(16, 32)},
      {"over its end", honest.piece(16, 32), liar.piece(8, 24)},
      {"around it", honest.piece(16, 24), liar.piece(8, 32)},
      {"inside it", honest.piece(8, 32), liar.piece(16, 24)},
      {"the same place, other bytes", honest.piece(8, 24), liar.piece(8, 24)},
      {"the same bytes, and some more", honest.piece(8, 24), honest.piece(8, 32)},
      {"behind the end", shorter, honest.piece(24, 32)},
      {"another end", honest.piece(56, 64), shorter},
      {"an end before what was there", honest.piece(32, 40), shorter},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Receiver r;
    EXPECT_EQ(r.add(c.before), FragmentFate::kKept);
    EXPECT_EQ(r.add(c.liars), FragmentFate::kOverlap);
    for (const Ipv4Packet& f : honest.cut(8)) EXPECT_EQ(r.add(f), FragmentFate::kGivenUp);
    EXPECT_EQ(r.stats().overlaps, 1u);
    EXPECT_EQ(r.stats().completed, 0u);
    EXPECT_EQ(r.stats().after_giving_up, 8u);
    // After its time the identification may be used anew.
    FragmentFate fate{};
    for (const Ipv4Packet& f : honest.cut(8)) fate = r.add(f, 2_s);
    EXPECT_EQ(fate, FragmentFate::kComplete);
    EXPECT_EQ(r.bytes(), honest.payload);
  }
}

TEST(Reassembly, PacketsAreDistinguishedByAddressesIdentificationAndProtocol) {  // IP-2
  const Sender sender(32);
  std::vector<Ipv4Packet> firsts(5, sender.piece(0, 16));
  firsts[1].source = Ipv4Address(10, 0, 0, 3);
  firsts[2].destination = Ipv4Address(10, 0, 0, 4);
  firsts[3].identification = 8;
  firsts[4].protocol = IpProtocol::kIcmp;
  Receiver r;
  for (const Ipv4Packet& f : firsts) EXPECT_EQ(r.add(f), FragmentFate::kKept);
  EXPECT_EQ(r.reassembly.incomplete(), 5u);
  for (const Ipv4Packet& f : firsts) {
    Ipv4Packet last = sender.piece(16, 32);
    last.source = f.source;
    last.destination = f.destination;
    last.identification = f.identification;
    last.protocol = f.protocol;
    EXPECT_EQ(r.add(last), FragmentFate::kComplete);
    EXPECT_EQ(r.whole.source, f.source);
    EXPECT_EQ(r.whole.protocol, f.protocol);
  }
}

TEST(Reassembly, FullReassemblyDropsTheOldestPacket) {  // IP-2
  Receiver r({.packets = 3});
  for (std::uint16_t id = 0; id < 4; ++id)
    EXPECT_EQ(r.add(Sender(32, 1, id).piece(0, 16), Duration::us(id)), FragmentFate::kKept);
  EXPECT_EQ(r.reassembly.incomplete(), 3u);
  EXPECT_EQ(r.stats().evicted, 1u);
  EXPECT_EQ(r.add(Sender(32, 1, 3).piece(16, 32)), FragmentFate::kComplete);
  EXPECT_EQ(r.add(Sender(32, 1, 1).piece(16, 32)), FragmentFate::kComplete);
  EXPECT_EQ(r.add(Sender(32, 1, 0).piece(16, 32)), FragmentFate::kKept) << "its first half is gone";
}

TEST(Reassembly, IncompletePacketIsDiscardedAfterItsTimeout) {  // IP-2
  Receiver r;
  const Sender sender(32);
  EXPECT_EQ(r.add(sender.piece(0, 16)), FragmentFate::kKept);
  EXPECT_EQ(r.reassembly.next_deadline(), at(1_s));
  Ipv4Packet first;
  EXPECT_FALSE(r.reassembly.expire(at(1_s) - 1_ns, first));
  EXPECT_TRUE(r.reassembly.expire(at(1_s), first));
  EXPECT_EQ(first.source, kThem);
  EXPECT_EQ(Bytes(first.header.begin(), first.header.end()), sender.header);
  EXPECT_EQ(first.payload.size(), 16u);
  EXPECT_FALSE(r.reassembly.expire(at(1_s), first));
  EXPECT_EQ(r.stats().timeouts, 1u);
  EXPECT_EQ(r.add(sender.piece(16, 32), 1_s), FragmentFate::kKept) << "a new packet, as far as one can know";
  EXPECT_TRUE(r.reassembly.expire(at(2_s), first));
  EXPECT_TRUE(first.payload.empty()) << "its beginning never came: nobody is told";
}

TEST(Reassembly, LateFragmentOfAnExpiredPacketStartsANewOne) {  // IP-2
  Receiver r;
  EXPECT_EQ(r.add(Sender(32).piece(0, 16)), FragmentFate::kKept);
  EXPECT_EQ(r.add(Sender(32).piece(16, 32), 1_s), FragmentFate::kKept);
  EXPECT_EQ(r.stats().timeouts, 1u);
  EXPECT_EQ(r.reassembly.next_deadline(), at(2_s));
}

TEST(Reassembly, ReusedIdentificationIsANewPacket) {  // IP-2
  Receiver r({.packets = 4, .begun_later = 100});
  const Sender old(32, 1, 7);
  EXPECT_EQ(r.add(old.piece(0, 16)), FragmentFate::kKept);
  for (std::uint16_t id = 1000; id < 1101; ++id) {
    const Sender later(32, id, id);
    for (const Ipv4Packet& f : later.cut(16)) (void)r.add(f);
  }
  EXPECT_EQ(r.stats().completed, 101u);
  EXPECT_EQ(r.reassembly.incomplete(), 1u);
  const Sender fresh(32, 2, 7);
  EXPECT_EQ(r.add(fresh.piece(16, 32)), FragmentFate::kKept) << "not the old one's missing half";
  EXPECT_EQ(r.add(fresh.piece(0, 16)), FragmentFate::kComplete);
  EXPECT_EQ(r.bytes(), fresh.payload);
}

// Fragments arrive in any mixture. Whole packets are those of a sender, and the memory in use stays constant.
TEST(Reassembly, AnyMixtureOfFragmentsYieldsOnlySentPackets) {  // IP-2
  std::uint64_t complete = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Prng prng(seed);
    Receiver r({.packets = 4});
    std::map<std::uint16_t, Sender> senders;
    for (std::uint16_t id = 0; id < 8; ++id)
      senders.emplace(id, Sender(9 + prng.below(400), seed * 100 + id, id));
    for (int step = 0; step < 3000; ++step) {
      const auto id = static_cast<std::uint16_t>(prng.below(8));
      const std::vector<Ipv4Packet> pieces = senders.at(id).cut(prng.chance(0.7) ? 64 : 24);
      const Ipv4Packet& f = pieces[prng.below(pieces.size())];
      if (r.add(f, Duration::ms(step)) == FragmentFate::kComplete) {
        ++complete;
        ASSERT_EQ(r.bytes(), senders.at(r.whole.identification).payload);
      }
      ASSERT_LE(r.reassembly.incomplete(), 4u);
    }
  }
  EXPECT_GT(complete, 1000u);
}

}  // namespace
}  // namespace braid::stack
