// The costs of a simulated machine in cycles of a compute node: one number for each stage of a message and for
// each operation of the page protocol, with its source. Read from a YAML file of configs/models.
//
// A proxy may be faster or slower than a compute node: `proxy_speed` divides the costs of its stages.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "settings/engine.h"
#include "settings/transport.h"

namespace braid::settings {

// cost_model.cpp explains each member.
struct Costs {
  // --- A compute node
  double unit = 1;
  double check = 0;
  double fault = 0;
  double call = 0;
  double lock = 0;
  double barrier = 0;
  double sync = 0;
  double protect = 0;
  double twin = 0;
  double diff = 0;
  double diff_byte = 0;
  double page_byte = 0;
  double handler = 0;
  double hand_over = 0;
  double hand_over_byte = 0;

  // --- A proxy, for what it sends
  double window_send = 0;
  double ack_send = 0;
  double udp_send = 0;
  double checksum_byte = 0;
  double ip_send = 0;
  double ni_send = 0;
  double ni_byte = 0;
  // --- and receives
  double ni_receive = 0;
  double ip_receive = 0;
  double udp_receive = 0;
  double window_receive = 0;
  double ack_receive = 0;
  double deliver = 0;
  double deliver_byte = 0;
  double timer = 0;

  // --- The network between two NIs
  double latency = 0;
  double wire_byte = 0;

  // In settings of a run: the model's cost holds.
  static constexpr double kAuto = -1;
  static Costs automatic();  // all are
  // Changes those costs of `costs` that are not automatic here.
  void apply_to(Costs& costs) const;
};

struct CostModel : Costs {
  double cycles_per_second = 0;  // of a compute node
  std::string name;
  std::string source;

  // The cost of a unit in programs that were measured alone, by their names. On a superscalar processor no
  // single number fits all programs. For all others `unit` holds.
  std::map<std::string, double> units;
  double unit_of(const std::string& program) const {
    const auto found = units.find(program);
    return found == units.end() ? unit : found->second;
  }

  // The model's transport, and its constants of the page engine; settings of a run win.
  TransportConfig protocol = {.congestion = stack::CongestionControl::kNone};
  EngineSettings engine;

  // An error names the file, the key and what is missing or wrong. Every cost must be given with its source,
  // and unknown keys are refused (views/model_file.cpp).
  static Result<CostModel> load(const std::string& path);
  static Result<CostModel> parse(const std::string& yaml, const std::string& name_of_source);

  // At least a nanosecond, so that every event takes time.
  Duration time(double cycles) const {
    const double ns = cycles * 1e9 / cycles_per_second;
    return Duration::ns(ns < 1 ? 1 : static_cast<std::int64_t>(ns + 0.5));
  }
  double cycles(Duration time) const { return static_cast<double>(time.ns()) * cycles_per_second / 1e9; }
};

extern const Schema kCostModelSchema;
inline const Schema& schema_of(const CostModel*) {
  return kCostModelSchema;
}

// Of a Costs in which each may be automatic: costs of a run.
extern const Schema kRunCostSchema;

// The costs, in the order of a file.
std::span<const Setting> cost_settings();

}  // namespace braid::settings
