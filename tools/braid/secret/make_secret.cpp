#include "tools/braid/secret/make_secret.h"

#include <string.h>
#include <sys/random.h>

#include <cerrno>
#include <cstddef>

namespace braid::cli {

Result<std::shared_ptr<const stack::Secret>> make_secret() {
  stack::KeyBytes bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return error("the system gives no random bytes for a secret: {}", ::strerror(errno));
  auto secret = std::make_shared<const stack::Secret>(bytes);
  stack::wipe(bytes);
  return std::shared_ptr<const stack::Secret>(std::move(secret));
}

}  // namespace braid::cli
