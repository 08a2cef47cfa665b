// Figures of simulations by name, and what many of them say: medians and intervals.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace braid::cli {

inline constexpr char kFigureNames[] =
    "message_cycles, idle_cycles, waiting_cycles, utilisation, queue, queue_of_messages, messages, rate, "
    "parallel_cycles";

// The number at this place of a report (RFC 6901, "/messages/count"); nullopt: there is none.
std::optional<double> number_at(const nlohmann::ordered_json& report, const char* pointer);

// idle_cycles: the mean message's without its waits; waiting_cycles: its waits; rate: messages a million cycles.
bool is_figure(const std::string& name);
// Of a report of `braid sim`; 0 where it has none.
double figure_of(const nlohmann::ordered_json& report, const std::string& name);

struct Spread {
  double median = 0;
  // Between them the median lies with a probability of 95 % or more, whatever the distribution: two of the samples, or
  // the smallest and the largest where there are fewer than six.
  double low = 0;
  double high = 0;
};
// There must be a sample.
Spread spread_of(std::vector<double> samples);

}  // namespace braid::cli
