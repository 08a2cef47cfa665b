#include "stack/secure/aead.h"

#include <gtest/gtest.h>

#include "hex.h"

namespace braid::stack {
namespace {

constexpr CipherKind kBoth[] = {CipherKind::kAesGcm, CipherKind::kChaChaPoly};

std::string sealed(CipherKind kind, const KeyBytes& key, std::uint64_t nonce, const Bytes& associated,
                   Bytes text) {
  Aead aead(Aead::Use::kSeal);
  aead.set_key(kind, key);
  std::byte tag[Aead::kTagBytes];
  aead.seal(nonce, associated, text, tag);
  return to_hex(text) + to_hex(tag);
}

TEST(Aead, AesGcmIsThatOfItsPublishedVectors) {  // McGrew and Viega, test cases 13 and 14
  EXPECT_EQ(sealed(CipherKind::kAesGcm, {}, 0, {}, {}), "530f8afbc74536b9a963b4f1c4cb738b");
  EXPECT_EQ(sealed(CipherKind::kAesGcm, {}, 0, {}, Bytes(16)),
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(Aead, ChaChaPolyIsThatOfRfc8439) {  // its appendix A.5
  const KeyBytes key = key_from_hex("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0");
  const Bytes text = bytes(
      "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, replaced, or "
      "obsoleted by other documents at any time. It is inappropriate to use Internet-Drafts as reference material "
      "or to cite them other than as /\xe2\x80\x9cwork in progress./\xe2\x80\x9d");
  EXPECT_EQ(
      sealed(CipherKind::kChaChaPoly, key, 0x0807060504030201, from_hex("f33388860000000000004e91"), text),
      "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e382d26b0bdb7"
      "b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd60f982b1ff37c8559797a06e"
      "f4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c767b804d46a59b5216cde7a4e99040c5a40433"
      "225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a0d072b04b3564eea1b422273f548271a0bb2316053fa7699"
      "1955ebd63159434ecebb4e466dae5a1073a6727627097a1049e617d91d361094fa68f0ff77987130305beaba2eda04df997b"
      "714d6c6f2c29a6ad5cb4022b02709beead9d67890cbb22392336fea1851f38");
}

TEST(Aead, OpensWhatWasSealedAndNothingElse) {
  for (const CipherKind kind : kBoth) {
    Prng prng(3);
    KeyBytes key = key_from_hex(std::string(64, '7'));
    Aead seal(Aead::Use::kSeal), open(Aead::Use::kOpen);
    seal.set_key(kind, key);
    open.set_key(kind, key);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{1500}}) {
      const Bytes text = random_bytes(prng, bytes), associated = random_bytes(prng, 48);
      Bytes sealed_text = text, tag(Aead::kTagBytes), to(bytes);
      seal.seal(bytes, associated, sealed_text, tag.data());
      EXPECT_TRUE(open.open(bytes, associated, sealed_text, tag.data(), to.data()));
      EXPECT_EQ(to, text);
      EXPECT_FALSE(open.open(bytes + 1, associated, sealed_text, tag.data(), to.data()));
      for (Bytes* part : {&sealed_text, &tag}) {
        for (std::size_t bit = 0; bit < 8 * std::min<std::size_t>(part->size(), 20); ++bit) {
          (*part)[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
          EXPECT_FALSE(open.open(bytes, associated, sealed_text, tag.data(), to.data())) << bit;
          (*part)[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        }
      }
      Bytes other = associated;
      other[5] ^= std::byte{1};
      EXPECT_FALSE(open.open(bytes, other, sealed_text, tag.data(), to.data()));
    }
  }
}

TEST(Aead, TextOfAnyLengthIsOpenedInItsPlace) {
  for (const CipherKind kind : kBoth) {
    Aead seal(Aead::Use::kSeal), open(Aead::Use::kOpen);
    seal.set_key(kind, KeyBytes{});
    open.set_key(kind, KeyBytes{});
    Prng prng(4);
    for (std::size_t bytes = 0; bytes < 300; ++bytes) {
      const Bytes text = random_bytes(prng, bytes);
      Bytes there = text, tag(Aead::kTagBytes);
      seal.seal(bytes, {}, there, tag.data());
      EXPECT_TRUE(bytes < 16 || there != text);
      EXPECT_TRUE(open.open(bytes, {}, there, tag.data(), there.data()));
      EXPECT_EQ(there, text);
    }
  }
}

TEST(Aead, NextKeyIsTheSameForBothAndAnotherThanTheFirst) {
  for (const CipherKind kind : kBoth) {
    Aead seal(Aead::Use::kSeal), open(Aead::Use::kOpen);
    const KeyBytes key = key_from_hex(std::string(64, '5'));
    seal.set_key(kind, key);
    open.set_key(kind, key);
    EXPECT_EQ(seal.next_key(), open.next_key());
    EXPECT_NE(seal.next_key(), key);
    // The first 32 bytes of 32 zeros that the key seals with the largest nonce (Noise, 4.2).
    EXPECT_EQ(to_hex(seal.next_key()), sealed(kind, key, ~std::uint64_t{0}, {}, Bytes(32)).substr(0, 64));
  }
}

}  // namespace
}  // namespace braid::stack
