// A new secret: random bytes of the system.
#pragma once

#include <memory>

#include "base/result.h"
#include "stack/secure/secret.h"

namespace braid::cli {

Result<std::shared_ptr<const stack::Secret>> make_secret();

}  // namespace braid::cli
