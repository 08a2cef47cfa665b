#include "stack/secure/primitives.h"

#include <gtest/gtest.h>

#include <set>

#include "hex.h"

namespace braid::stack {
namespace {

TEST(Primitives, Sha256IsThatOfFips180) {
  EXPECT_EQ(to_hex(sha256({bytes("abc")})),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256({bytes("a"), {}, bytes("bc")}), sha256({bytes("abc")}));
}

TEST(Primitives, HmacIsThatOfRfc4231) {
  EXPECT_EQ(to_hex(hmac(Bytes(20, std::byte{0x0b}), {bytes("Hi There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac(bytes("Jefe"), {bytes("what do ya want "), bytes("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const Hmac keyed(Bytes(131, std::byte{0xaa}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(to_hex(keyed({bytes("Test Using Larger Than Block-Size Key - Hash Key First")})),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
        << "it can be used again";
  }
}

TEST(Primitives, HkdfIsThatOfRfc5869) {
  Digest extracted = hkdf_extract(from_hex("000102030405060708090a0b0c"), Bytes(22, std::byte{0x0b}));
  EXPECT_EQ(to_hex(extracted), "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
  Bytes expanded(42);
  hkdf_expand(extracted, from_hex("f0f1f2f3f4f5f6f7f8f9"), expanded);
  EXPECT_EQ(to_hex(expanded),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  extracted = hkdf_extract({}, Bytes(22, std::byte{0x0b}));
  EXPECT_EQ(to_hex(extracted), "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
  hkdf_expand(extracted, {}, expanded);
  EXPECT_EQ(to_hex(expanded),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Primitives, X25519IsThatOfRfc7748) {
  const auto exchange = [](std::string_view own, std::string_view other) {
    const std::optional<KeyBytes> shared = x25519(key_from_hex(own), key_from_hex(other));
    return shared ? to_hex(*shared) : "none";
  };
  EXPECT_EQ(exchange("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                     "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  const std::string_view bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
  EXPECT_EQ(to_hex(x25519_public(key_from_hex(bob))),
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  EXPECT_EQ(exchange(bob, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"),
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
}

TEST(Primitives, PublicKeysThatMakeEveryResultZeroAreRefused) {  // RFC 7748, 6.1
  for (const char* point : {"0000000000000000000000000000000000000000000000000000000000000000",
                            "0100000000000000000000000000000000000000000000000000000000000000",
                            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"})
    EXPECT_FALSE(x25519(sha256({bytes("some key")}), key_from_hex(point)).has_value()) << point;
}

TEST(Primitives, RandomKeysFollowFromTheirSeedAndDoNotRepeat) {
  const Digest seed = sha256({bytes("seed")});
  RandomKeys a(seed), same(seed), other(sha256({bytes("another")}));
  std::set<KeyBytes> seen{seed};
  for (int i = 0; i < 1000; ++i) {
    const KeyBytes key = a.next();
    EXPECT_EQ(same.next(), key);
    EXPECT_TRUE(seen.insert(key).second);
    EXPECT_TRUE(seen.insert(other.next()).second);
  }
}

}  // namespace
}  // namespace braid::stack
