// Who is told of the keys of sealed packets, for those who want to read what was captured (docs/SECURITY.md, Reading
// captures). Nobody is unless Security::observer says so.
//
// Pure. What the observer does with a key is its own; the halves of a connection wipe theirs as ever.
#pragma once

#include <cstdint>

#include "stack/secure/aead.h"
#include "stack/secure/raw_bytes.h"

namespace braid::stack {

// A key, and the packets that it seals: those of this direction whose numbers have this generation (SE-7).
struct PacketKey {
  CipherKind cipher{};
  std::uint64_t sender_epoch = 0;
  std::uint64_t receiver_epoch = 0;
  std::uint64_t generation = 0;
  KeyView key;  // valid during the call
};

class KeyObserver {
 public:
  // Once for each key that an end has made, when it is made: by the end's own thread, so calls of several threads may
  // overlap. Both ends of a connection make the keys of both directions.
  virtual void on_key(const PacketKey& key) = 0;

 protected:
  ~KeyObserver() = default;
};

// The direction that the keys of a half are for, and who is told of them.
struct KeyUse {
  KeyObserver* observer = nullptr;  // nobody; else it outlives the half
  std::uint64_t sender_epoch = 0;
  std::uint64_t receiver_epoch = 0;

  void tell(CipherKind cipher, std::uint64_t generation, KeyView key) const {
    if (observer != nullptr) observer->on_key({cipher, sender_epoch, receiver_epoch, generation, key});
  }
};

}  // namespace braid::stack
