#include "tools/braid/run/core_claims.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace braid::cli {
namespace {

struct Name {
  explicit Name(unsigned core) {
    const std::string name = fmt::format("braid-core-{}", core);
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

// Where a socket cannot be made for another reason, nobody is kept from anything.
bool CoreClaims::claim(unsigned core) {
  Descriptor made = make_socket();
  const Name name(core);
  if (made && ::bind(made.get(), name.get(), name.length) != 0 && errno == EADDRINUSE) return false;
  held_.emplace(core, std::move(made));
  return true;
}

std::set<unsigned> CoreClaims::taken(const HostProcessors& host) {
  std::set<unsigned> all;
  for (const Processor& p : host.usable) {
    const Descriptor made = make_socket();
    const Name name(p.core);
    if (made && ::connect(made.get(), name.get(), name.length) == 0) all.insert(p.core);
  }
  return all;
}

Placement CoreClaims::place(const HostProcessors& host, std::span<const ClusterNeeds> clusters) {
  // Each failure adds a core, so it ends.
  for (std::set<unsigned> others = taken(host);;) {
    Placement placement = cli::place(host, clusters, others);
    // In ascending order: of two runs that want the same, one gets all.
    std::set<unsigned> wanted;
    for (const PlacedCluster& c : placement.clusters) {
      for (const std::vector<unsigned>* threads : {&c.proxies, &c.nodes}) {
        for (const Processor& p : host.usable) {
          if (std::find(threads->begin(), threads->end(), p.number) != threads->end()) wanted.insert(p.core);
        }
      }
    }
    const auto refused =
        std::find_if(wanted.begin(), wanted.end(), [&](unsigned core) { return !claim(core); });
    if (refused == wanted.end()) return placement;
    others.insert(*refused);
    held_.clear();
  }
}

}  // namespace braid::cli
