#include "tools/braid/study/mean_value.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tools/braid/study/figures.h"

namespace braid::cli {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr char kMode[] = "simulation.mode";

// What tells a row's machine and program from the others', whatever its mode.
std::vector<std::string> machine_of(const std::vector<std::string>& varied, const StudyPoint& point) {
  std::vector<std::string> cells = point_cells(varied, point);
  const std::vector<std::string> columns = point_columns(varied);
  const auto mode = std::find(columns.begin(), columns.end(), kMode);
  cells.erase(cells.begin() + (mode - columns.begin()));
  return cells;
}

}  // namespace

// Who arrives finds the queue that there is with one customer less.
MeanValues mean_values(unsigned customers, double delay, unsigned stations, double visits, double service) {
  MeanValues values;
  double queue = 0;  // the mean one of a station
  for (unsigned present = 1; present <= customers; ++present) {
    values.stay = visits * service * (1 + queue);
    values.rate = present / (delay + values.stay);
    queue = values.rate * values.stay / stations;
  }
  return values;
}

std::optional<Prediction> predicted(const StudyPoint& point, const OrderedJson& real,
                                    const OrderedJson& free) {
  const std::optional<double> network = number_at(real, "/messages/mean_network"),
                              waits = number_at(real, "/messages/mean_wait_for_link"),
                              messages = number_at(free, "/messages/count"),
                              idle = number_at(free, "/fixed_delay_cycles"),
                              time = number_at(free, "/parallel_cycles");
  if (!network || !waits || !messages || !idle || !time || *messages <= 0) return std::nullopt;
  const settings::RunConfig& machine = point.settings.unchecked();
  const unsigned nodes = machine.clusters * machine.compute, proxies = machine.clusters * machine.proxies;
  // On the link nothing depends on the load but the wait for it. A message is served once by each of two proxies.
  const double link = *network - *waits;
  const double service = (*idle - link) / 2;
  const double think = std::max(0.0, nodes * *time / *messages - *idle);
  if (service <= 0) return std::nullopt;
  const MeanValues values = mean_values(nodes, think + link, proxies, 2, service);
  return Prediction{.message_cycles = link + values.stay, .utilisation = values.rate * 2 * service / proxies};
}

std::string mva_csv(const std::vector<std::string>& varied, const std::vector<Row>& rows) {
  const auto is_in_mode = [](const Row& row, const char* mode) { return row.point->value_of(kMode) == mode; };
  std::map<std::vector<std::string>, const Row*> free;
  for (const Row& row : rows)
    if (is_in_mode(row, "no-contention")) free[machine_of(varied, *row.point)] = &row;
  std::vector<std::string> columns = point_columns(varied);
  for (const char* const column :
       {"message_cycles", "mva_message_cycles", "utilisation", "mva_utilisation", "point"})
    columns.emplace_back(column);
  std::string csv = csv_line(columns);
  for (const Row& row : rows) {
    const auto found = free.find(machine_of(varied, *row.point));
    if (!is_in_mode(row, "real") || found == free.end()) continue;
    const OrderedJson& report = row.result.report;
    const std::optional<Prediction> mva = predicted(*row.point, report, found->second->result.report);
    const std::optional<double> time = number_at(report, "/messages/mean_cycles"),
                                busy = number_at(report, "/mean_utilisation");
    if (!mva || !time || !busy) continue;
    std::vector<std::string> cells = point_cells(varied, *row.point);
    for (const double value : {*time, mva->message_cycles, *busy, mva->utilisation})
      cells.push_back(in_csv(Json(value)));
    cells.push_back(row.name);
    csv += csv_line(cells);
  }
  return csv;
}

}  // namespace braid::cli
