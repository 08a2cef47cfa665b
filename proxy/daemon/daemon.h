// braidd around a Node: a thread for every proxy, and the control socket on the calling thread.
#pragma once

#include "base/result.h"
#include "proxy/daemon/node_config.h"

namespace braid::proxy {

enum class DaemonEnd { kOrderly, kFilesIncomplete };

// Serves until SIGTERM or SIGINT. Blocks those signals in the calling thread first, so call it before threads
// are made. Clients of this user and of root may attach.
Result<DaemonEnd> run_daemon(const NodeConfig& config);

}  // namespace braid::proxy
