#include "sim/cost_model.h"

#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

namespace braid::sim {

namespace {

using M = CostModel;
constexpr CostKey kKeys[] = {
    {"unit", &M::unit, "a unit of what the compiler's charges count: more than 0"},
    {"fault", &M::fault, "from an access that is forbidden until the page protocol has it"},
    {"call", &M::call, "from a call until the page protocol has it"},
    {"lock", &M::lock, "a lock inside the cluster, taken or given back"},
    {"barrier", &M::barrier, "coming to a barrier"},
    {"sync", &M::sync, "a word, flag, semaphore or condition; an allocation"},
    {"protect", &M::protect, "a change of the protection of a run of pages"},
    {"twin", &M::twin, "a copy of a page before it is written"},
    {"diff", &M::diff, "comparing a page with its twin"},
    {"diff_byte", &M::diff_byte, "a byte of a diff, found or applied"},
    {"page_byte", &M::page_byte, "a byte of a page, copied out or in"},
    {"handler", &M::handler, "a message that has arrived, beside what it does"},
    {"hand_over", &M::hand_over, "a message, from a compute node to a proxy"},
    {"hand_over_byte", &M::hand_over_byte, "a byte of it"},
    {"window_send", &M::window_send, "a packet with records, through the sliding window"},
    {"ack_send", &M::ack_send, "a packet without records"},
    {"udp_send", &M::udp_send, "a datagram, beside its checksum"},
    {"checksum_byte", &M::checksum_byte, "a byte of a datagram, sent or received"},
    {"ip_send", &M::ip_send, "a fragment, or a datagram that needs none"},
    {"ni_send", &M::ni_send, "a frame"},
    {"ni_byte", &M::ni_byte, "a byte of a frame, sent or received"},
    {"ni_receive", &M::ni_receive, "a frame"},
    {"ip_receive", &M::ip_receive, "a frame"},
    {"udp_receive", &M::udp_receive, "a datagram, beside its checksum"},
    {"window_receive", &M::window_receive, "a packet with records"},
    {"ack_receive", &M::ack_receive, "a packet without records"},
    {"deliver", &M::deliver, "a record, to where its connection has it"},
    {"deliver_byte", &M::deliver_byte, "a byte of it"},
    {"timer", &M::timer, "looking after timers when one has run out"},
    {"latency", &M::latency, "from the last bit sent to the last bit received"},
    {"wire_byte", &M::wire_byte, "a byte on the wire"},
};

const CostKey* find(const std::string& key) {
  for (const CostKey& k : kKeys)
    if (key == k.key) return &k;
  return nullptr;
}

std::string place(const std::string& file, const YAML::Node& node) {
  return fmt::format("{}:{}:{}", file, node.Mark().line + 1, node.Mark().column + 1);
}

Result<void> read_protocol(const YAML::Node& node, const std::string& file, CostModel::Protocol& p) {
  if (!node.IsMap()) return error("{}: protocol: a section is expected", place(file, node));
  struct Number {
    const char* key;
    std::uint32_t* value;
    std::uint32_t least, most;
  };
  const Number numbers[] = {{"mtu_bytes", &p.mtu_bytes, 576, 9000},
                            {"ack_every", &p.ack_every, 1, 256},
                            {"ack_delay_us", &p.ack_delay_us, 0, 1'000'000},
                            {"min_rto_us", &p.min_rto_us, 1, 10'000'000},
                            {"max_rto_us", &p.max_rto_us, 1, 60'000'000}};
  for (const auto& entry : node) {
    const std::string key = entry.first.as<std::string>();
    const std::string text = entry.second.IsScalar() ? entry.second.Scalar() : "";
    if (key == "fragmentation" && (text == "ip" || text == "transport")) {
      p.fragmentation = text == "ip" ? stack::Fragmentation::kIp : stack::Fragmentation::kTransport;
      continue;
    }
    if (key == "congestion" && (text == "none" || text == "delay")) {
      p.congestion = text == "none" ? stack::CongestionControl::kNone : stack::CongestionControl::kDelay;
      continue;
    }
    const Number* known = nullptr;
    for (const Number& n : numbers)
      if (key == n.key) known = &n;
    std::uint32_t value = 0;
    if (known == nullptr || !YAML::convert<std::uint32_t>::decode(entry.second, value) ||
        value < known->least || value > known->most)
      return error(
          "{}: protocol: '{}: {}' is not known: mtu_bytes, fragmentation (ip, transport), congestion (none, "
          "delay), ack_every, ack_delay_us, min_rto_us and max_rto_us are, in their bounds",
          place(file, entry.first), key, text);
    *known->value = value;
  }
  if (p.max_rto_us < p.min_rto_us)
    return error("{}: protocol: max_rto_us is less than min_rto_us", place(file, node));
  return {};
}

// {value: 100, source: "where it is from"}
Result<double> read_cost(const YAML::Node& node, const std::string& file, const YAML::Node& key_node) {
  const std::string key = key_node.as<std::string>();
  const YAML::Node value = node.IsMap() ? node["value"] : YAML::Node(YAML::NodeType::Undefined);
  const YAML::Node source = node.IsMap() ? node["source"] : YAML::Node(YAML::NodeType::Undefined);
  if (!value || !source || !source.IsScalar() || source.as<std::string>().empty())
    return error("{}: cost '{}' needs a value and its source: {{value: 100, source: \"where it is from\"}}",
                 place(file, key_node), key);
  double number = 0;
  if (!YAML::convert<double>::decode(value, number) || !(number >= 0) || number > 1e9)
    return error("{}: cost '{}': cycles between 0 and 1e9 are expected", place(file, value), key);
  return number;
}

Result<void> read_units(const YAML::Node& node, const std::string& file,
                        std::map<std::string, double>& units) {
  if (!node.IsMap())
    return error("{}: units: names of programs are expected, and what a unit is in each", place(file, node));
  for (const auto& entry : node) {
    const Result<double> unit = read_cost(entry.second, file, entry.first);
    if (!unit) return unit.error();
    if (!(*unit > 0))
      return error("{}: units: '{}': more than 0 is expected", place(file, entry.first),
                   entry.first.as<std::string>());
    units[entry.first.as<std::string>()] = *unit;
  }
  return {};
}

}  // namespace

std::span<const CostKey> cost_keys() {
  return kKeys;
}

Result<CostModel> CostModel::parse(const std::string& yaml, const std::string& file) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& e) {
    return error("{}:{}:{}: {}", file, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
  if (!root.IsMap())
    return error("{}: not a cost model: 'name', 'clock_mhz' and 'cycles' are expected", file);
  CostModel model;
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const std::string key = entry.first.as<std::string>();
    if (key == "name" && entry.second.IsScalar()) {
      model.name = entry.second.as<std::string>();
    } else if (key == "clock_mhz") {
      double mhz = 0;
      if (!YAML::convert<double>::decode(entry.second, mhz) || !(mhz > 0) || mhz > 1e6)
        return error("{}: clock_mhz: a number above 0 is expected", place(file, entry.second));
      model.cycles_per_second = std::round(mhz * 1e6);
    } else if (key == "protocol") {
      if (const Result<void> read = read_protocol(entry.second, file, model.protocol); !read)
        return read.error();
    } else if (key == "units") {
      if (const Result<void> read = read_units(entry.second, file, model.units); !read) return read.error();
    } else if (key != "cycles" && key != "source") {
      return error("{}: unknown key '{}': a model has name, clock_mhz, source, protocol, cycles and units",
                   place(file, entry.first), key);
    }
  }
  const YAML::Node cycles = root["cycles"];
  if (!cycles || !cycles.IsMap()) return error("{}: 'cycles' is missing: the list of what things cost", file);
  for (const auto& entry : cycles) {
    const std::string key = entry.first.as<std::string>();
    const CostKey* const known = find(key);
    if (known == nullptr) return error("{}: unknown cost '{}'", place(file, entry.first), key);
    const Result<double> read = read_cost(entry.second, file, entry.first);
    if (!read) return read.error();
    if (known->value == &M::unit && !(*read > 0))
      return error("{}: cost 'unit': more than 0 is expected", place(file, entry.second));
    model.*known->value = *read;
    seen.insert(key);
  }
  if (model.name.empty()) return error("{}: 'name' is missing", file);
  if (model.cycles_per_second == 0) return error("{}: 'clock_mhz' is missing", file);
  for (const CostKey& k : kKeys)
    if (!seen.count(k.key)) return error("{}: cost '{}' is missing: {}", file, k.key, k.meaning);
  return model;
}

Result<CostModel> CostModel::load(const std::string& path) {
  std::ifstream in(path);
  if (!in) return error("cannot read the cost model '{}': {}", path, std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  return parse(text.str(), path);
}

}  // namespace braid::sim
