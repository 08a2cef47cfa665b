#include "proxy/daemon/node_config.h"

#include <nlohmann/json.hpp>

#include "settings/limits.h"
#include "settings/views/json.h"
#include "stack/stack.h"

namespace braid::proxy {

static_assert(settings::kMaxIntroductionPort == stack::first_steered_port(0) - 1);

stack::SubConnectionConfig sub_connection_config(const TransportConfig& transport) {
  stack::SubConnectionConfig sub;
  sub.window_packets = transport.window_packets;
  sub.min_rto = Duration::us(transport.min_rto_us);
  sub.max_rto = Duration::us(transport.max_rto_us);
  sub.path_death = Duration::ms(transport.path_death_ms);
  sub.peer_death = Duration::ms(transport.peer_death_ms);
  sub.ack_every = transport.ack_every;
  sub.ack_delay = Duration::us(transport.ack_delay_us);
  sub.congestion.enabled = transport.congestion == stack::CongestionControl::kDelay;
  return sub;
}

Result<NodeConfig> parse_node_config(const std::string& json, const std::string& what) {
  Result<NodeConfig> config = settings::from_json<NodeConfig>(json, what);
  // Not a relation of the settings: nodes whose wires are within a process have nobody to fear.
  if (config && settings::lets_anybody_in(*config))
    return error(
        "{}: key 'machines.accept': every machine that reaches UDP port {} could connect to this node's listeners, because "
        "security.mode is off; set it to auto and name the machines' common secret in security.secret_file",
        what, config->machines.udp_port);
  return config;
}

std::string to_json(const NodeConfig& config) {
  return settings::to_json(settings::kNodeSchema, &config).dump(2);
}

}  // namespace braid::proxy
