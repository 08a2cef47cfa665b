#include "tools/braid/process/name_claim.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/check.h"

namespace braid::cli {
namespace {

struct Address {
  explicit Address(const std::string& name) {
    CHECK_LT(name.size(), sizeof address.sun_path);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length;
};

Descriptor make_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

}  // namespace

std::optional<Descriptor> claim_name(const std::string& name) {
  Descriptor made = make_socket();
  const Address address(name);
  if (made && ::bind(made.get(), address.get(), address.length) != 0) {
    if (errno == EADDRINUSE) return std::nullopt;
    made = Descriptor();
  }
  return made;
}

bool is_name_claimed(const std::string& name) {
  const Descriptor made = make_socket();
  const Address address(name);
  return made && ::connect(made.get(), address.get(), address.length) == 0;
}

}  // namespace braid::cli
