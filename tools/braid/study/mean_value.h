// What queueing theory predicts of messages, from a run without contention: exact mean value analysis of a closed network
// (Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", 1980). docs/STUDY.md says what it assumes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/braid/study/study_results.h"

namespace braid::cli {

struct MeanValues {
  double stay = 0;  // of a customer in the stations, in a cycle of its own
  double rate = 0;  // cycles of all customers in a unit of time
};
// Each of `customers` spends `delay` without queueing, and then makes `visits` visits, spread evenly over `stations` equal
// stations of one server, of the mean time `service`. At least one customer and one station.
MeanValues mean_values(unsigned customers, double delay, unsigned stations, double visits, double service);

struct Prediction {
  double message_cycles = 0;
  double utilisation = 0;  // of a proxy
};
// Of messages of the machine and program of `point`, from the report of its run without contention, `free`. Of the report in mode
// real only the time on the link is used, without the waits for it. Nothing: it sends no message, or a report lacks a figure.
std::optional<Prediction> predicted(const StudyPoint& point, const nlohmann::ordered_json& real,
                                    const nlohmann::ordered_json& free);

// A line for each row in mode real that has a row without contention, with the same settings otherwise: columns as in points.csv
// up to the settings, then message_cycles, mva_message_cycles, utilisation, mva_utilisation and point.
std::string mva_csv(const std::vector<std::string>& varied, const std::vector<Row>& rows);

}  // namespace braid::cli
