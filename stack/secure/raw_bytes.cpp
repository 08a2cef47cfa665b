#include "stack/secure/raw_bytes.h"

#include <openssl/crypto.h>

namespace braid::stack {

void wipe(MutableBytes bytes) {
  OPENSSL_cleanse(bytes.data(), bytes.size());
}

bool equal_in_constant_time(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace braid::stack
