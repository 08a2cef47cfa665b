#include "base/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <memory>

namespace braid {

std::string interface_with(const std::string& address) {
  in_addr wanted{};
  ifaddrs* first = nullptr;
  if (::inet_pton(AF_INET, address.c_str(), &wanted) != 1 || ::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if (reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr == wanted.s_addr)
      return one->ifa_name;
  }
  return {};
}

}  // namespace braid
