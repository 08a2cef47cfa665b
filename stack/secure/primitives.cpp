// SHA256_Init and its like keep their state where the caller says, and allocate nothing; the interface that
// OpenSSL 3 recommends allocates for every hash.
#define OPENSSL_API_COMPAT 0x10100000L

#include "stack/secure/primitives.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "stack/secure/openssl.h"

namespace braid::stack {
namespace {

constexpr std::size_t kBlockBytes = 64;  // of SHA-256

// A hash that is in progress; wiped, because it may be of keys.
class Sha256 {
 public:
  Sha256() { SHA256_Init(&state_); }
  explicit Sha256(const std::array<std::uint32_t, 28>& state) { std::memcpy(&state_, &state, sizeof state_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256() { OPENSSL_cleanse(&state_, sizeof state_); }
  void add(ByteView bytes) { SHA256_Update(&state_, bytes.data(), bytes.size()); }
  void add(Parts parts) {
    for (const ByteView part : parts) add(part);
  }
  Digest finish() {
    Digest digest;
    SHA256_Final(raw(digest.data()), &state_);
    return digest;
  }
  void save(std::array<std::uint32_t, 28>& to) const {
    static_assert(sizeof to == sizeof state_);
    std::memcpy(&to, &state_, sizeof state_);
  }

 private:
  SHA256_CTX state_;
};

struct FreePkey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreePkeyContext {
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
};
using Pkey = std::unique_ptr<EVP_PKEY, FreePkey>;

Pkey private_pkey(KeyView key) {
  Pkey pkey(EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, raw(key.data()), key.size()));
  CHECK(pkey != nullptr);
  return pkey;
}

}  // namespace

Digest sha256(Parts parts) {
  Sha256 hash;
  hash.add(parts);
  return hash.finish();
}

Hmac::Hmac(ByteView key) {
  std::array<std::byte, kBlockBytes> block{};
  if (key.size() > block.size()) {
    const Digest digest = sha256({key});
    std::copy(digest.begin(), digest.end(), block.begin());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  for (std::byte& b : block) b ^= std::byte{0x36};
  Sha256 inner;
  inner.add(block);
  inner.save(inner_);
  for (std::byte& b : block) b ^= std::byte{0x36 ^ 0x5c};
  Sha256 outer;
  outer.add(block);
  outer.save(outer_);
  wipe(block);
}

Hmac::~Hmac() {
  OPENSSL_cleanse(&inner_, sizeof inner_);
  OPENSSL_cleanse(&outer_, sizeof outer_);
}

Digest Hmac::operator()(Parts parts) const {
  Sha256 inner(inner_);
  inner.add(parts);
  const Digest digest = inner.finish();
  Sha256 outer(outer_);
  outer.add(digest);
  return outer.finish();
}

Digest hmac(ByteView key, Parts parts) {
  return Hmac(key)(parts);
}

Digest hkdf_extract(ByteView salt, ByteView key) {
  return hmac(salt, {key});
}

void hkdf_expand(const Digest& extracted, ByteView info, MutableBytes to) {
  CHECK_LE(to.size(), 255 * sizeof(Digest));
  const Hmac keyed(extracted);
  Digest block{};
  std::size_t before = 0;  // bytes of the block before, in the first none
  for (std::byte number{1}; !to.empty(); number = std::byte(static_cast<unsigned>(number) + 1)) {
    block = keyed({ByteView(block).first(before), info, ByteView(&number, 1)});
    before = block.size();
    const std::size_t n = std::min(to.size(), block.size());
    std::copy_n(block.begin(), n, to.begin());
    to = to.subspan(n);
  }
  wipe(block);
}

KeyBytes x25519_public(KeyView private_key) {
  const Pkey pkey = private_pkey(private_key);
  KeyBytes key;
  std::size_t length = key.size();
  CHECK(EVP_PKEY_get_raw_public_key(pkey.get(), raw(key.data()), &length) == 1);
  return key;
}

std::optional<KeyBytes> x25519(KeyView private_key, KeyView public_key) {
  const Pkey own = private_pkey(private_key);
  const Pkey other(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, raw(public_key.data()), public_key.size()));
  CHECK(other != nullptr);
  const std::unique_ptr<EVP_PKEY_CTX, FreePkeyContext> context(EVP_PKEY_CTX_new(own.get(), nullptr));
  CHECK(context != nullptr);
  CHECK(EVP_PKEY_derive_init(context.get()) == 1);
  KeyBytes shared;
  std::size_t length = shared.size();
  if (EVP_PKEY_derive_set_peer(context.get(), other.get()) != 1 ||
      EVP_PKEY_derive(context.get(), raw(shared.data()), &length) != 1)
    return std::nullopt;
  return shared;
}

KeyBytes RandomKeys::next() {
  constexpr std::byte kKey{1}, kState{2};
  const Hmac keyed(state_);
  const KeyBytes key = keyed({ByteView(&kKey, 1)});
  state_ = keyed({ByteView(&kState, 1)});
  return key;
}

}  // namespace braid::stack
