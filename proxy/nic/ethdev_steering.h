// Steers packets to their queues by the features of a started DPDK port: flow rules, and the RSS hash.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "proxy/nic/steering.h"

struct rte_flow;

namespace braid::proxy {

// Whether these RTE_ETH_RSS_* functions include UDP's ports.
bool hashes_udp(std::uint64_t hash_functions);

// The rules that it makes stay with the port, and go with it.
class EthdevSteering final : public SteerablePort {
 public:
  EthdevSteering(std::uint16_t port, unsigned queues) : port_(port), queues_(queues) {}

  Result<void> add_flow_rule(std::uint16_t udp_port, unsigned queue) override;
  void remove_flow_rules() override;
  Result<RssHash> rss_hash() override;

 private:
  Result<std::vector<std::uint16_t>> read_table(std::uint16_t entries) const;
  Result<void> spread_table(std::uint16_t entries) const;
  bool names_every_queue(const std::vector<std::uint16_t>& table) const;

  const std::uint16_t port_;
  const unsigned queues_;
  std::vector<rte_flow*> rules_;
};

}  // namespace braid::proxy
