// The secret that all nodes of a machine have: read from where the configuration names it (docs/SECURITY.md).
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "proxy/daemon/node_config.h"
#include "stack/secure/secret.h"

namespace braid::proxy {

// That of the configuration, or else from where it names it; null where no link of the node is sealed. A file holds the secret as 64 hexadecimal digits and at most one end of line, and is
// refused unless it is a regular file of this user's or root's that nobody else may read or write; a descriptor holds its 32
// bytes, and is closed. The error names the file and the cure, and never what the file holds.
Result<std::shared_ptr<const stack::Secret>> load_secret(const NodeConfig& config);

// What to do about a file that is not private.
struct PrivateFileCures {
  std::string_view kind;   // it is no regular file
  std::string_view owner;  // another user's
  std::string_view mode;   // others may use it
};
// Whether only this user, or root, may read or change an open file: a regular one of theirs, whose mode lets nobody else. The
// error begins with `what` and ends with the cure.
Result<void> check_private(const struct stat& about, const std::string& what, const PrivateFileCures& cures);

// The secret from a file, whatever the links are.
Result<std::shared_ptr<const stack::Secret>> read_secret_file(const std::string& path);

}  // namespace braid::proxy
