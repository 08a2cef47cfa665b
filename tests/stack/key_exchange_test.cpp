#include "stack/secure/key_exchange.h"

#include <gtest/gtest.h>

#include "hex.h"

namespace braid::stack {
namespace {

Security security(char secret, char seed) {
  Security s;
  s.secret = std::make_shared<const Secret>(key_from_hex(std::string(64, secret)));
  s.seed = key_from_hex(std::string(64, seed));
  return s;
}

struct KeyExchangeTest : testing::Test {
  KeyExchange a{security('1', '2'), bytes("a")};
  KeyExchange b{security('1', '3'), bytes("b")};
  Bytes prologue = bytes("prologue");
  static constexpr EpochPair kOfA{0xa1, 0xb1};
  static constexpr EpochPair kOfB{0xb1, 0xa1};
};

TEST_F(KeyExchangeTest, HelloIsAuthenticForThoseWithTheSecret) {  // SE-2
  const Bytes hello = bytes("a hello");
  std::byte mac[KeyExchange::kMacBytes];
  a.authenticate(hello, mac);
  EXPECT_TRUE(b.is_authentic(hello, mac));
  EXPECT_FALSE(b.is_authentic(bytes("a hellO"), mac));
  mac[15] ^= std::byte{1};
  EXPECT_FALSE(b.is_authentic(hello, mac));
  mac[15] ^= std::byte{1};
  EXPECT_FALSE(KeyExchange(security('2', '2'), bytes("a")).is_authentic(hello, mac));
}

TEST_F(KeyExchangeTest, BothEndsGetTheSameKeysOnce) {  // SE-3
  a.begin(kOfA, CipherKind::kAesGcm, prologue);
  EXPECT_TRUE(a.is_between(kOfA));
  EXPECT_FALSE(a.take_keys().has_value());
  ASSERT_TRUE(b.answer(kOfB, CipherKind::kAesGcm, prologue, a.message()));
  EXPECT_TRUE(b.is_repeated(a.message()));
  ASSERT_TRUE(a.finish(b.message()));
  const std::optional<Noise::Keys> of_a = a.take_keys(), of_b = b.take_keys();
  ASSERT_TRUE(of_a && of_b);
  EXPECT_EQ(of_a->send, of_b->receive);
  EXPECT_EQ(of_a->receive, of_b->send);
  EXPECT_FALSE(a.take_keys().has_value());
  EXPECT_FALSE(b.take_keys().has_value());
}

TEST_F(KeyExchangeTest, AnswerToAForgedMessageChangesNothing) {  // SE-3
  a.begin(kOfA, CipherKind::kAesGcm, prologue);
  const Bytes right(a.message().begin(), a.message().end());
  ASSERT_TRUE(b.answer(kOfB, CipherKind::kAesGcm, prologue, right));
  Bytes wrong = right;
  wrong[40] ^= std::byte{1};
  EXPECT_FALSE(b.answer({0xb2, 0xa1}, CipherKind::kAesGcm, prologue, wrong));
  EXPECT_FALSE(b.answer({0xb2, 0xa1}, CipherKind::kAesGcm, bytes("other"), right));
  EXPECT_FALSE(b.answer({0xb2, 0xa1}, CipherKind::kChaChaPoly, prologue, right));
  EXPECT_TRUE(b.is_between(kOfB));
  EXPECT_TRUE(a.finish(b.message()));
}

TEST_F(KeyExchangeTest, WrongAnswerEndsTheExchange) {  // SE-3
  a.begin(kOfA, CipherKind::kAesGcm, prologue);
  EXPECT_FALSE(a.finish(Bytes(KeyExchange::kMessageBytes)));
  EXPECT_FALSE(a.is_between(kOfA));
  EXPECT_FALSE(a.take_keys().has_value());
}

TEST_F(KeyExchangeTest, EachExchangeHasKeysOfItsOwn) {  // SE-3
  a.begin(kOfA, CipherKind::kAesGcm, prologue);
  const Bytes first(a.message().begin(), a.message().end());
  a.begin(kOfA, CipherKind::kAesGcm, prologue);
  EXPECT_NE(first, Bytes(a.message().begin(), a.message().end()));
  KeyExchange sibling(security('1', '2'), bytes("b"));
  sibling.begin(kOfA, CipherKind::kAesGcm, prologue);
  EXPECT_NE(first, Bytes(sibling.message().begin(), sibling.message().end())) << "of the same seed";
}

TEST(KeyExchange, CipherIsAesOnlyIfBothWantIt) {  // SE-4
  constexpr auto kAes = CipherKind::kAesGcm, kChaCha = CipherKind::kChaChaPoly;
  EXPECT_EQ(KeyExchange::agreed(kAes, kAes), kAes);
  EXPECT_EQ(KeyExchange::agreed(kAes, kChaCha), kChaCha);
  EXPECT_EQ(KeyExchange::agreed(kChaCha, kAes), kChaCha);
  Security s = security('1', '1');
  s.cipher = CipherOffer::kChaCha;
  EXPECT_EQ(KeyExchange(s, {}).wanted(), kChaCha);
  s.cipher = CipherOffer::kAes;
  EXPECT_EQ(KeyExchange(s, {}).wanted(), kAes);
  s.cipher = CipherOffer::kAuto;
  EXPECT_EQ(KeyExchange(s, {}).wanted(), has_aes_instructions() ? kAes : kChaCha);
}

}  // namespace
}  // namespace braid::stack
