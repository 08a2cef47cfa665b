#include "stack/secure/key_exchange.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/check.h"

namespace braid::stack {
namespace {

// What is made of the secret for one purpose tells nothing of what is made for another.
KeyBytes derived(ByteView from, std::string_view purpose, ByteView more = {}) {
  constexpr std::string_view kProject = "braid";
  return hmac(hkdf_extract(std::as_bytes(std::span(kProject)), from),
              {std::as_bytes(std::span(purpose)), more});
}

CipherKind wanted_cipher(CipherOffer offer) {
  switch (offer) {
    case CipherOffer::kChaCha:
      return CipherKind::kChaChaPoly;
    case CipherOffer::kAes:
      return CipherKind::kAesGcm;
    case CipherOffer::kAuto:
      break;
  }
  return has_aes_instructions() ? CipherKind::kAesGcm : CipherKind::kChaChaPoly;
}

}  // namespace

KeyExchange::KeyExchange(const Security& security, ByteView purpose)
    : secret_(security.secret),
      hello_key_(derived(security.secret->bytes(), "hello")),
      random_(derived(security.seed, "random", purpose)),
      wanted_(wanted_cipher(security.cipher)) {}

void KeyExchange::authenticate(ByteView hello, std::byte* mac) const {
  const Digest digest = hello_key_({hello});
  std::copy_n(digest.begin(), kMacBytes, mac);
}

bool KeyExchange::is_authentic(ByteView hello, const std::byte* mac) const {
  const Digest digest = hello_key_({hello});
  return equal_in_constant_time(ByteView(digest).first(kMacBytes), {mac, kMacBytes});
}

std::uint64_t KeyExchange::random_number() {
  return load<std::uint64_t>(random_.next().data());
}

void KeyExchange::begin(const EpochPair& epochs, CipherKind cipher, ByteView prologue) {
  forget();
  epochs_ = epochs;
  initiator_ = true;
  cipher_ = cipher;
  KeyBytes ephemeral = random_.next();
  noise_.emplace(Noise::Role::kInitiator, cipher, prologue, secret_->bytes(), ephemeral);
  wipe(ephemeral);
  noise_->write({}, message_);
}

bool KeyExchange::answer(const EpochPair& epochs, CipherKind cipher, ByteView prologue, ByteView message) {
  KeyBytes ephemeral = random_.next();
  std::optional<Noise> noise(std::in_place, Noise::Role::kResponder, cipher, prologue, secret_->bytes(),
                             ephemeral);
  wipe(ephemeral);
  if (!noise->read(message, {})) return false;
  forget();
  epochs_ = epochs;
  cipher_ = cipher;
  noise->write({}, message_);
  std::copy(message.begin(), message.end(), received_.begin());
  keys_ = noise->split();
  return true;
}

bool KeyExchange::finish(ByteView message) {
  CHECK(noise_.has_value());
  const bool right = noise_->read(message, {});
  if (right) keys_ = noise_->split();
  noise_.reset();
  if (!right) forget();
  return right;
}

void KeyExchange::forget() {
  noise_.reset();
  if (keys_) keys_->wipe_all();
  keys_.reset();
  epochs_ = {};
  initiator_ = false;
}

std::optional<Noise::Keys> KeyExchange::take_keys() {
  std::optional<Noise::Keys> keys = keys_;
  if (keys_) keys_->wipe_all();
  keys_.reset();
  return keys;
}

bool KeyExchange::is_repeated(ByteView message) const {
  return !initiator_ && std::equal(message.begin(), message.end(), received_.begin(), received_.end());
}

}  // namespace braid::stack
