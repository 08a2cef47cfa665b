// The configuration of the daemon's parts, from the node's settings (settings/node.h).
#pragma once

#include <string>

#include "base/result.h"
#include "convergence/peer_choice.h"
#include "settings/node.h"
#include "stack/sub_connection.h"

namespace braid::proxy {

using convergence::PeerChoice;
using settings::FaultConfig;
using settings::IdleConfig;
using settings::LinkConfig;
using settings::MachinesConfig;
using settings::NiConfig;
using settings::NodeConfig;
using settings::PeerConfig;
using settings::TransportConfig;

// The configuration of a sub-connection; members without a setting keep their defaults.
stack::SubConnectionConfig sub_connection_config(const TransportConfig& transport);

// From JSON, checked; `what` names the source in messages.
Result<NodeConfig> parse_node_config(const std::string& json, const std::string& what);
std::string to_json(const NodeConfig& config);

}  // namespace braid::proxy
