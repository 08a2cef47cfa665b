// The secret of every world in virtual time, and what a node's keys are made of there.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "stack/secure/secret.h"

namespace braid {

// `seed`: of one life of one node.
inline stack::Security virtual_security(std::uint64_t seed) {
  stack::KeyBytes secret;
  secret.fill(std::byte{0x5e});
  stack::Security security;
  security.secret = std::make_shared<const stack::Secret>(secret);
  store(security.seed.data() + 8, seed);
  return security;
}

}  // namespace braid
