#include "proxy/nic/ethdev_steering.h"

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#include <algorithm>

namespace braid::proxy {
namespace {

constexpr std::size_t kUsualKeyBytes = 40;
using Groups = std::vector<rte_eth_rss_reta_entry64>;

Groups groups(std::uint16_t entries) {
  Groups all((entries + RTE_ETH_RETA_GROUP_SIZE - 1u) / RTE_ETH_RETA_GROUP_SIZE);
  for (rte_eth_rss_reta_entry64& group : all) group.mask = ~std::uint64_t{0};
  return all;
}
std::uint16_t& entry(Groups& groups, unsigned i) {
  return groups[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
}

}  // namespace

bool hashes_udp(std::uint64_t hash_functions) {
  return (hash_functions & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0;
}

Result<void> EthdevSteering::add_flow_rule(std::uint16_t udp_port, unsigned queue) {
  rte_flow_attr attributes{};
  attributes.ingress = 1;
  rte_flow_item_udp to{};
  to.hdr.dst_port = rte_cpu_to_be_16(udp_port);
  rte_flow_item_udp mask{};
  mask.hdr.dst_port = 0xffff;
  rte_flow_item pattern[4] = {};
  pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
  pattern[1].type = RTE_FLOW_ITEM_TYPE_IPV4;
  pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
  pattern[2].spec = &to;
  pattern[2].mask = &mask;
  pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
  const rte_flow_action_queue queue_index{.index = static_cast<std::uint16_t>(queue)};
  rte_flow_action actions[2] = {};
  actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
  actions[0].conf = &queue_index;
  actions[1].type = RTE_FLOW_ACTION_TYPE_END;
  rte_flow_error failure{};
  rte_flow* const rule = rte_flow_create(port_, &attributes, pattern, actions, &failure);
  if (rule == nullptr) {
    const char* const why = failure.message != nullptr ? failure.message : rte_strerror(rte_errno);
    return error("the port takes no rule that brings UDP port {} to queue {}: {}", udp_port, queue, why);
  }
  rules_.push_back(rule);
  return {};
}

void EthdevSteering::remove_flow_rules() {
  for (rte_flow* const rule : rules_) {
    rte_flow_error ignored{};  // a rule that stays brings packets where they belong
    (void)rte_flow_destroy(port_, rule, &ignored);
  }
  rules_.clear();
}

Result<RssHash> EthdevSteering::rss_hash() {
  rte_eth_dev_info info{};
  if (const int done = rte_eth_dev_info_get(port_, &info); done != 0)
    return error("the port does not tell its capabilities: {}", rte_strerror(-done));
  RssHash hash;
  hash.key.resize(info.hash_key_size != 0 ? info.hash_key_size : kUsualKeyBytes);
  rte_eth_rss_conf conf{};
  conf.rss_key = hash.key.data();
  conf.rss_key_len = static_cast<std::uint8_t>(hash.key.size());
  if (const int done = rte_eth_dev_rss_hash_conf_get(port_, &conf); done != 0)
    return error("the port does not tell its hash key: {}", rte_strerror(-done));
  if (!hashes_udp(conf.rss_hf)) return error("the port does not hash UDP ports");
  if (info.reta_size == 0) return error("the port has no redirection table that can be read");
  Result<std::vector<std::uint16_t>> table = read_table(info.reta_size);
  if (table && !names_every_queue(*table)) {
    if (Result<void> spread = spread_table(info.reta_size); !spread) return spread.error();
    table = read_table(info.reta_size);
  }
  if (!table) return table.error();
  if (!names_every_queue(*table)) return error("the port's redirection table leaves queues out");
  hash.table = std::move(table).value();
  return hash;
}

Result<std::vector<std::uint16_t>> EthdevSteering::read_table(std::uint16_t entries) const {
  Groups all = groups(entries);
  if (const int done = rte_eth_dev_rss_reta_query(port_, all.data(), entries); done != 0)
    return error("the port's redirection table cannot be read: {}", rte_strerror(-done));
  std::vector<std::uint16_t> table;
  for (unsigned i = 0; i < entries; ++i) table.push_back(entry(all, i));
  return table;
}
Result<void> EthdevSteering::spread_table(std::uint16_t entries) const {
  Groups all = groups(entries);
  for (unsigned i = 0; i < entries; ++i) entry(all, i) = static_cast<std::uint16_t>(i % queues_);
  if (const int done = rte_eth_dev_rss_reta_update(port_, all.data(), entries); done != 0)
    return error("the port's redirection table leaves queues out, and cannot be written: {}",
                 rte_strerror(-done));
  return {};
}

bool EthdevSteering::names_every_queue(const std::vector<std::uint16_t>& table) const {
  for (unsigned q = 0; q < queues_; ++q)
    if (std::find(table.begin(), table.end(), q) == table.end()) return false;
  return true;
}

}  // namespace braid::proxy
