// `braid proxies`: how many proxies of a running cluster serve its clients, and changing that.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace braid::cli {

// The control socket of the only cluster with that number that this user runs on this machine, found through
// its application processes.
Result<std::string> service_of_cluster(unsigned cluster);

struct ActiveProxies {
  unsigned active = 0;
  unsigned all = 0;  // that it was started with
};
// Asks the braidd at `service`, after telling it to let `set` be active.
Result<ActiveProxies> active_proxies(const std::string& service, std::optional<unsigned> set);

}  // namespace braid::cli
