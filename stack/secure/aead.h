// Authenticated encryption with associated data, on OpenSSL's libcrypto: AES-256-GCM (NIST SP 800-38D) and
// ChaCha20-Poly1305 (RFC 8439), with the nonces of the Noise protocol framework (revision 34, section 12).
//
// Pure. Its context is made at construction; a packet allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "stack/secure/raw_bytes.h"

// OpenSSL's.
using EVP_CIPHER_CTX = struct evp_cipher_ctx_st;

namespace braid::stack {

enum class CipherKind : std::uint8_t { kAesGcm = 1, kChaChaPoly = 2 };

// This processor has the instructions that make AES-256-GCM the faster one.
bool has_aes_instructions();

// A part of a text that lies elsewhere until it is sealed.
struct PartElsewhere {
  std::byte* to = nullptr;  // its place in the text
  ByteView from;
};

class Aead {
 public:
  static constexpr std::size_t kTagBytes = 16;
  enum class Use : std::uint8_t { kSeal, kOpen };

  explicit Aead(Use use);
  ~Aead();
  Aead(Aead&&) noexcept = default;
  Aead& operator=(Aead&&) noexcept = default;

  void set_key(CipherKind kind, KeyView key);
  // Wipes the key.
  void forget();

  // Seals `text` in its place, and writes the tag. A key seals with each nonce at most once. `elsewhere`: parts that do
  // not overlap, in order; each byte of theirs is read once, so who changes them meanwhile changes only what is sealed.
  void seal(std::uint64_t nonce, ByteView associated, MutableBytes text, std::byte* tag,
            std::span<const PartElsewhere> elsewhere = {});
  // Writes the text of `sealed` to `to`, which may be the same. False: it, the associated bytes, the tag or the
  // nonce is not what was sealed, and what was written means nothing.
  [[nodiscard]] bool open(std::uint64_t nonce, ByteView associated, ByteView sealed, const std::byte* tag,
                          std::byte* to);
  // The key that follows this one (Noise, section 4.2: REKEY). It tells nothing of this one.
  KeyBytes next_key();

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const;
  };
  void begin(std::uint64_t nonce, ByteView associated);
  void seal_part(const std::byte* from, std::byte* to, std::size_t bytes);

  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  Use use_;
  CipherKind kind_ = CipherKind::kAesGcm;
};

}  // namespace braid::stack
