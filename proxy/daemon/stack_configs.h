// Derives the configuration of the proxies' stacks from the node's: each stack's interface on every link, and the
// proxies that it has sub-connections with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "proxy/channel/channel.h"
#include "proxy/daemon/machines.h"
#include "proxy/daemon/node_config.h"
#include "proxy/daemon/remote_paths.h"
#include "stack/stack.h"

namespace braid::proxy {

// A hash of the settings that both ends of a sub-connection must share. `clusters`: of their machine; 0
// between two.
std::uint64_t shared_hash(const NodeConfig& config, std::uint16_t clusters);

// Clusters of other machines that the node has room for.
std::uint16_t machine_slots(const NodeConfig& config);

// Of the node's clients: a train fits into a packet of every path.
TrainLimits train_limits(const TransportConfig& transport);

// The stack of one proxy. `seed`: of the node's epochs. Incarnations and wanted source ports are not filled in.
stack::StackConfig stack_config(const NodeConfig& config, unsigned proxy, std::uint64_t seed);

// The paths to a cluster of another machine, which is known as `slot` and was introduced so. `incarnation` is
// the node's own towards it; `links` lead to all of its addresses.
std::vector<RemotePath> paths_to_machine(const NodeConfig& config, ClusterId slot, const Introduction& peer,
                                         std::span<const stack::Interface> links, std::uint64_t incarnation);

// Of the node towards other machines.
Machines::Config machines_config(const NodeConfig& config, const std::vector<stack::Interface>& links,
                                 std::uint64_t seed);

}  // namespace braid::proxy
