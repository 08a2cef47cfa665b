#include "stack/secure/packet_cipher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "hex.h"

namespace braid::stack {
namespace {

constexpr CipherKind kBoth[] = {CipherKind::kAesGcm, CipherKind::kChaChaPoly};
constexpr std::size_t kHeader = 48;
constexpr std::uint64_t kPerKey = std::uint64_t{1} << kPacketsPerKeyBits;

struct Pair {
  explicit Pair(CipherKind kind = CipherKind::kAesGcm, std::uint64_t first = 0) {
    const KeyBytes key = key_from_hex(std::string(64, '4'));
    sealer.start(kind, key, first);
    opener.start(kind, key);
  }
  Bytes sealed(const Bytes& text) {
    Bytes packet(kHeader, std::byte{0x11});
    packet.insert(packet.end(), text.begin(), text.end());
    packet.resize(packet.size() + kSealBytes);
    EXPECT_EQ(sealer.seal(packet.data(), kHeader, kHeader + text.size()), packet.size());
    return packet;
  }
  Opening open(const Bytes& packet) {
    opened.assign(packet.size() - kHeader, std::byte{0});
    const Opening result =
        opener.open(ByteView(packet).first(kHeader), ByteView(packet).subspan(kHeader), opened.data());
    opened.resize(opened.size() < kSealBytes ? 0 : opened.size() - kSealBytes);
    return result;
  }
  PacketSealer sealer;
  PacketOpener opener;
  Bytes opened;
};

TEST(PacketCipher, PacketOfEveryLengthIsOpenedAndItsTextIsNotSeen) {  // SE-5
  for (const CipherKind kind : kBoth) {
    Pair p(kind);
    Prng prng(5);
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 1400, 8900}) {
      const Bytes text = random_bytes(prng, bytes);
      const Bytes packet = p.sealed(text);
      EXPECT_EQ(p.open(packet), Opening::kOpened);
      EXPECT_EQ(p.opened, text);
      if (bytes < 16) continue;
      for (std::size_t at = 0; at + 8 <= bytes; at += 8)
        EXPECT_EQ(std::search(packet.begin(), packet.end(), text.begin() + at, text.begin() + at + 8),
                  packet.end());
    }
  }
}

TEST(PacketCipher, PartsFromElsewhereAreSealedAsIfTheyLayInThePacket) {  // SE-5
  for (const CipherKind kind : kBoth) {
    Pair there(kind), elsewhere(kind);
    Prng prng(7);
    for (int round = 0; round < 200; ++round) {
      const Bytes text = random_bytes(prng, prng.below(2500));
      Bytes packet(kHeader, std::byte{0x11});
      packet.insert(packet.end(), text.begin(), text.end());
      packet.resize(packet.size() + kSealBytes);
      std::vector<PartElsewhere> parts;
      for (std::size_t at = prng.below(100); at < text.size();) {
        const std::size_t bytes = std::min(1 + prng.below(700), text.size() - at);
        std::fill_n(packet.begin() + static_cast<std::ptrdiff_t>(kHeader + at), bytes, std::byte{0xee});
        parts.push_back({&packet[kHeader + at], ByteView(text).subspan(at, bytes)});
        at += bytes + prng.below(3) * prng.below(60);
      }
      EXPECT_EQ(elsewhere.sealer.seal(packet.data(), kHeader, kHeader + text.size(), parts), packet.size());
      EXPECT_EQ(packet, there.sealed(text)) << "round " << round;
    }
  }
}

TEST(PacketCipher, EveryFlippedBitIsDetected) {  // SE-5
  for (const CipherKind kind : kBoth) {
    Pair p(kind);
    Bytes packet = p.sealed(bytes("a short text"));
    for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
      packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
      EXPECT_EQ(p.open(packet), Opening::kForged) << bit;
      packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    EXPECT_EQ(p.open(packet), Opening::kOpened) << "forged ones have changed nothing";
  }
}

TEST(PacketCipher, TruncatedAndExtendedPacketsAreForged) {  // SE-5
  Pair p;
  const Bytes packet = p.sealed(bytes("a short text"));
  for (std::size_t length = kHeader; length < packet.size(); ++length)
    EXPECT_EQ(p.open(Bytes(packet.begin(), packet.begin() + length)), Opening::kForged) << length;
  Bytes longer = packet;
  longer.push_back(std::byte{0});
  EXPECT_EQ(p.open(longer), Opening::kForged);
}

TEST(PacketCipher, EachPacketIsOpenedOnceInAnyOrder) {  // SE-6
  Pair p;
  std::vector<Bytes> packets;
  for (int i = 0; i < 2048; ++i) packets.push_back(p.sealed(bytes("x")));
  std::vector<std::size_t> order(packets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Prng prng(6);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[prng.below(i)]);
  for (const std::size_t i : order) {
    EXPECT_EQ(p.open(packets[i]), Opening::kOpened);
    EXPECT_EQ(p.open(packets[i]), Opening::kReplayed);
  }
  for (const Bytes& packet : packets) EXPECT_EQ(p.open(packet), Opening::kReplayed);
}

TEST(PacketCipher, PacketThatIsOlderThanTheWindowIsNotOpened) {  // SE-6
  Pair p;
  const Bytes first = p.sealed(bytes("1")), second = p.sealed(bytes("2"));
  for (std::uint64_t i = 2; i < ReplayWindow::kNumbers; ++i) (void)p.sealed({});
  EXPECT_EQ(p.open(p.sealed(bytes("newest"))), Opening::kOpened);  // number 2048
  EXPECT_EQ(p.open(first), Opening::kReplayed);
  EXPECT_EQ(p.open(second), Opening::kOpened);
}

TEST(PacketCipher, ForgedNumberOfTheFarFutureClosesNothing) {  // SE-6
  Pair p;
  Bytes packet = p.sealed(bytes("x"));
  const Bytes right = packet;
  store(packet.data() + packet.size() - kSealBytes, kPerKey - 1);
  EXPECT_EQ(p.open(packet), Opening::kForged);
  store(packet.data() + packet.size() - kSealBytes, kPerKey * 7);
  EXPECT_EQ(p.open(packet), Opening::kForged);
  EXPECT_EQ(p.open(right), Opening::kOpened);
}

// Packets around the change from key 0 to key 1, in every direction of the loss and the overtaking.
TEST(PacketCipher, KeysChangeWithoutAPause) {  // SE-7
  for (const CipherKind kind : kBoth) {
    Pair p(kind, kPerKey - 4);
    std::vector<Bytes> packets;
    for (int i = 0; i < 8; ++i) packets.push_back(p.sealed(bytes({i})));
    for (const int i : {5, 0, 4, 3, 7, 6, 1, 2}) {
      EXPECT_EQ(p.open(packets[i]), Opening::kOpened) << i;
      EXPECT_EQ(p.opened, bytes({i}));
      EXPECT_EQ(p.open(packets[i]), Opening::kReplayed) << i;
    }
  }
}

TEST(PacketCipher, PacketsOfTheKeyBeforeAreOpenedAsLongAsTheWindowHasThem) {  // SE-7
  Pair p(CipherKind::kAesGcm, kPerKey - 2);
  const Bytes a = p.sealed(bytes("a")), b = p.sealed(bytes("b"));
  for (std::uint64_t i = 0; i + 1 < ReplayWindow::kNumbers; ++i)
    EXPECT_EQ(p.open(p.sealed({})), Opening::kOpened);
  EXPECT_EQ(p.open(a), Opening::kReplayed);
  EXPECT_EQ(p.open(b), Opening::kOpened);
  EXPECT_EQ(p.open(p.sealed({})), Opening::kOpened);
  EXPECT_EQ(p.open(p.sealed({})), Opening::kOpened);
  EXPECT_EQ(p.open(b), Opening::kReplayed);
}

TEST(PacketCipher, SealerChangesItsKeyAtTheBoundary) {  // SE-7
  const KeyBytes key = key_from_hex(std::string(64, '4'));
  Pair p(CipherKind::kAesGcm, kPerKey - 1);
  Aead first(Aead::Use::kOpen), second(Aead::Use::kOpen);
  first.set_key(CipherKind::kAesGcm, key);
  second.set_key(CipherKind::kAesGcm, first.next_key());
  for (int i = 0; i < 2; ++i) {
    Bytes packet = p.sealed(bytes("x"));
    const ByteView view(packet);
    std::byte to[1];
    EXPECT_EQ(first.open(kPerKey - 1 + i, view.first(kHeader), view.subspan(kHeader, 1),
                         packet.data() + kHeader + 9, to),
              i == 0);
    EXPECT_EQ(second.open(kPerKey - 1 + i, view.first(kHeader), view.subspan(kHeader, 1),
                          packet.data() + kHeader + 9, to),
              i == 1);
  }
}

TEST(PacketCipher, SeveralKeysFollowEachOther) {  // SE-7
  Pair p;
  for (std::uint64_t i = 0; i < 3 * kPerKey + 10; ++i) {
    const Bytes packet = p.sealed({});
    if (i % 1000 != 0 && i % kPerKey >= 2) continue;
    EXPECT_EQ(p.open(packet), Opening::kOpened) << i;
  }
}

struct ToldKeys final : KeyObserver {
  struct Key {
    CipherKind cipher;
    std::uint64_t sender_epoch, receiver_epoch, generation;
    KeyBytes bytes;
    bool operator==(const Key&) const = default;
  };
  void on_key(const PacketKey& key) override {
    Key& told = keys.emplace_back(Key{key.cipher, key.sender_epoch, key.receiver_epoch, key.generation, {}});
    std::copy(key.key.begin(), key.key.end(), told.bytes.begin());
  }
  std::vector<Key> keys;
};

TEST(PacketCipher, BothHalvesTellEachKeyOnceAndToldKeysOpenThePacketsOfTheirGeneration) {
  for (const CipherKind kind : kBoth) {
    const KeyBytes key = key_from_hex(std::string(64, '4'));
    ToldKeys of_sealer, of_opener;
    Pair p;
    p.sealer.start(kind, key, kPerKey - 2, {&of_sealer, 0xa, 0xb});
    p.opener.start(kind, key, {&of_opener, 0xa, 0xb});
    std::vector<Bytes> packets;
    for (int i = 0; i < 4; ++i) {
      packets.push_back(p.sealed(bytes({i})));
      EXPECT_EQ(p.open(packets[i]), Opening::kOpened);
    }
    ASSERT_EQ(of_sealer.keys.size(), 2u);
    for (std::uint64_t generation = 0; generation < 2; ++generation) {
      const ToldKeys::Key& told = of_sealer.keys[generation];
      EXPECT_EQ(told.cipher, kind);
      EXPECT_EQ(told.sender_epoch, 0xau);
      EXPECT_EQ(told.receiver_epoch, 0xbu);
      EXPECT_EQ(told.generation, generation);
      Aead aead(Aead::Use::kOpen);
      aead.set_key(kind, told.bytes);
      for (std::size_t i = 0; i < packets.size(); ++i) {
        const ByteView sealed = ByteView(packets[i]).subspan(kHeader);
        EXPECT_EQ(generation_of(packet_number(sealed)), i / 2);
        std::byte to[1];
        EXPECT_EQ(open_packet(aead, ByteView(packets[i]).first(kHeader), sealed, to), i / 2 == generation);
      }
    }
    EXPECT_EQ(of_sealer.keys[0].bytes, key);
    EXPECT_EQ(of_opener.keys, of_sealer.keys);
  }
}

TEST(PacketCipher, AfterItIsStoppedAndStartedNothingOfBeforeIsOpened) {
  Pair p;
  const Bytes packet = p.sealed(bytes("x"));
  p.opener.stop();
  p.opener.start(CipherKind::kChaChaPoly, key_from_hex(std::string(64, '8')));
  EXPECT_EQ(p.open(packet), Opening::kForged);
}

TEST(ReplayWindow, AgreesWithAModel) {  // SE-6
  Prng prng(8);
  ReplayWindow window;
  std::set<std::uint64_t> seen;
  std::uint64_t top = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::uint64_t n = top + prng.below(20);
    if (prng.below(3) != 0) n = n > 2100 ? n - prng.below(2100) : prng.below(n + 1);
    if (prng.below(500) == 0) n += prng.below(5000);
    const bool expected = seen.count(n) == 0 && n + ReplayWindow::kNumbers >= std::max(top, n + 1);
    ASSERT_EQ(window.is_new(n), expected) << n << " of " << top;
    if (!expected) continue;
    window.mark(n);
    seen.insert(n);
    top = std::max(top, n + 1);
    ASSERT_EQ(window.end(), top);
    ASSERT_EQ(window.oldest(), top > ReplayWindow::kNumbers ? top - ReplayWindow::kNumbers : 0);
  }
}

}  // namespace
}  // namespace braid::stack
