// The secret of a run: 32 random bytes that all its nodes share, and nobody else. Who has it may join the run.
//
// It exists once per object: moving wipes what it was moved from, copying must be asked for, destruction wipes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "stack/secure/raw_bytes.h"

namespace braid::stack {

class KeyObserver;

class Secret {
 public:
  static constexpr std::size_t kBytes = kKeyBytes;

  // The caller wipes its own copy.
  explicit Secret(KeyView bytes) { std::copy(bytes.begin(), bytes.end(), bytes_.begin()); }
  Secret(Secret&& other) noexcept : bytes_(other.bytes_) { other.wipe_bytes(); }
  Secret& operator=(Secret&& other) noexcept {
    if (this == &other) return *this;
    bytes_ = other.bytes_;
    other.wipe_bytes();
    return *this;
  }
  Secret& operator=(const Secret&) = delete;
  ~Secret() { wipe_bytes(); }

  Secret copy() const { return *this; }
  KeyView bytes() const { return bytes_; }
  bool operator==(const Secret& other) const { return equal_in_constant_time(bytes_, other.bytes_); }

 private:
  Secret(const Secret&) = default;
  void wipe_bytes() { wipe(bytes_); }

  KeyBytes bytes_;
};

// Which algorithm seals packets. Both ends can do both; what differs is how fast.
enum class CipherOffer : std::uint8_t {
  kAuto,    // AES-256-GCM if this processor and the peer's have instructions for it, else ChaCha20-Poly1305
  kChaCha,  // ChaCha20-Poly1305 always
  kAes,     // AES-256-GCM unless the peer wants ChaCha20-Poly1305
};

// How the packets of sub-connections are protected; docs/PROTOCOL.md, SE-1 to SE-7.
struct Security {
  // nullptr: packets are plain. Both ends must have the same, or both none.
  std::shared_ptr<const Secret> secret;
  // Random bytes for this stack alone, of which its keys are made: never the same in two stacks, nor in two
  // runs of one. Not read without a secret. The stack wipes its copy.
  KeyBytes seed{};
  CipherOffer cipher = CipherOffer::kAuto;
  // Is told of every key of packets (stack/secure/key_observer.h), and outlives the stack; nullptr: nobody is told.
  KeyObserver* observer = nullptr;
};

}  // namespace braid::stack
