// The keys of key logs, by the packets that they open.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "stack/secure/aead.h"
#include "stack/secure/key_observer.h"
#include "stack/secure/secret.h"
#include "stack/wire/segment.h"

namespace braid::cli {

class KeyRing {
 public:
  // What a file had besides keys.
  struct Lines {
    std::uint64_t keys = 0;
    std::uint64_t others = 0;       // left out
    std::uint64_t first_other = 0;  // counted from 1
  };
  // Adds the keys of a file. The error names it and the cure.
  Result<Lines> add_file(const std::string& path);
  // One of a key that is there already changes nothing.
  void add(const stack::PacketKey& key);

  enum class Opening : std::uint8_t {
    kOpened,
    kNoKey,      // the ring has none for it
    kNotOpened,  // the key that it should have does not open it: it is forged, or was damaged
  };
  // Opens what follows the header of a packet. The text is at opened() until the next call.
  Opening open(const stack::PacketHeader& header, ByteView header_bytes, ByteView sealed);
  ByteView opened() const { return text_; }

 private:
  using Id =
      std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // sender's and receiver's epoch, generation
  struct Key {
    stack::CipherKind cipher;
    stack::Secret bytes;
    std::optional<stack::Aead> opener;  // once it is used
  };

  std::map<Id, Key> keys_;
  std::vector<std::byte> text_;
};

}  // namespace braid::cli
