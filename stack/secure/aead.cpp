#include "stack/secure/aead.h"

#include <openssl/evp.h>

#include <limits>

#include "base/check.h"
#include "stack/secure/openssl.h"

namespace braid::stack {
namespace {

constexpr std::size_t kNonceBytes = 12;

const EVP_CIPHER* cipher(CipherKind kind) {
  static const EVP_CIPHER* const aes = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  static const EVP_CIPHER* const chacha = EVP_CIPHER_fetch(nullptr, "ChaCha20-Poly1305", nullptr);
  return kind == CipherKind::kAesGcm ? aes : chacha;
}

}  // namespace

bool has_aes_instructions() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0 && __builtin_cpu_supports("pclmul") != 0;
#elif defined(__ARM_FEATURE_AES)
  return true;
#else
  return false;
#endif
}

void Aead::Free::operator()(EVP_CIPHER_CTX* context) const {
  EVP_CIPHER_CTX_free(context);  // wipes the key
}

Aead::Aead(Use use) : context_(EVP_CIPHER_CTX_new()), use_(use) {
  CHECK(context_ != nullptr);
}
Aead::~Aead() = default;

void Aead::set_key(CipherKind kind, KeyView key) {
  kind_ = kind;
  const EVP_CIPHER* const algorithm = cipher(kind);
  CHECK(algorithm != nullptr);
  CHECK(EVP_CipherInit_ex(context_.get(), algorithm, nullptr, raw(key.data()), nullptr,
                          use_ == Use::kSeal ? 1 : 0) == 1);
}

void Aead::forget() {
  EVP_CIPHER_CTX_reset(context_.get());
}

void Aead::begin(std::uint64_t nonce, ByteView associated) {
  std::byte iv[kNonceBytes] = {};
  if (kind_ == CipherKind::kAesGcm)
    store_be(iv + 4, nonce);
  else
    store(iv + 4, nonce);
  CHECK(EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr, raw(iv), -1) == 1);
  int length = 0;
  if (!associated.empty())
    CHECK(EVP_CipherUpdate(context_.get(), nullptr, &length, raw(associated.data()),
                           static_cast<int>(associated.size())) == 1);
}

void Aead::seal_part(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  int length = 0;
  CHECK(EVP_CipherUpdate(context_.get(), raw(to), &length, raw(from), static_cast<int>(bytes)) == 1);
}

void Aead::seal(std::uint64_t nonce, ByteView associated, MutableBytes text, std::byte* tag,
                std::span<const PartElsewhere> elsewhere) {
  begin(nonce, associated);
  std::byte* at = text.data();
  for (const PartElsewhere& part : elsewhere) {
    seal_part(at, at, static_cast<std::size_t>(part.to - at));
    seal_part(part.from.data(), part.to, part.from.size());
    at = part.to + part.from.size();
  }
  seal_part(at, at, static_cast<std::size_t>(text.data() + text.size() - at));
  unsigned char none[1];
  int length = 0;
  CHECK(EVP_CipherFinal_ex(context_.get(), none, &length) == 1);
  CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag) == 1);
}

bool Aead::open(std::uint64_t nonce, ByteView associated, ByteView sealed, const std::byte* tag,
                std::byte* to) {
  begin(nonce, associated);
  int length = 0;
  if (!sealed.empty())
    CHECK(EVP_CipherUpdate(context_.get(), raw(to), &length, raw(sealed.data()),
                           static_cast<int>(sealed.size())) == 1);
  std::byte expected[kTagBytes];
  std::memcpy(expected, tag, sizeof expected);
  CHECK(EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, expected) == 1);
  unsigned char none[1];
  return EVP_CipherFinal_ex(context_.get(), none, &length) == 1;
}

KeyBytes Aead::next_key() {
  // Both ciphers add the same stream whether they seal or open, so either makes 32 zeros the same key. The tag
  // is not used.
  begin(std::numeric_limits<std::uint64_t>::max(), {});
  const KeyBytes zeros{};
  KeyBytes key;
  int length = 0;
  CHECK(EVP_CipherUpdate(context_.get(), raw(key.data()), &length, raw(zeros.data()),
                         static_cast<int>(zeros.size())) == 1);
  return key;
}

}  // namespace braid::stack
