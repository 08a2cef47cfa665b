// A node inside the application's own process, driven by the application's thread ("invoker" mode): for
// tests, for small machines, and for measuring without a scheduler in between.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "proxy/client/client.h"
#include "proxy/daemon/node.h"

namespace braid::proxy {

// A service over `node`, whose proxies and control plane work whenever the client waits or polls. All clients
// of the node and their endpoints must be used by one thread. That thread can drive `others` of its nodes
// too: peers in the same process, which must answer while the client waits.
std::unique_ptr<Service> in_process_service(std::shared_ptr<Node> node,
                                            std::vector<std::shared_ptr<Node>> others = {});

}  // namespace braid::proxy
