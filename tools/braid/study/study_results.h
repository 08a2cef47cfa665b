// What is kept of a study's points, and what is made of all of them.
//
// A finished point is a file points/<name>.json in the study's folder, named by a hash of everything that its
// result follows from: all settings that simulations have, the application's arguments, and what the model's
// file, the application and the command itself consist of. So nothing that could come out otherwise is taken
// for finished, and nothing that is finished is done again. The file says what its name was made of; one that
// says something else (or is cut short) does not count.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/braid/study/study.h"

namespace braid::cli {

// The files that a study's results follow from.
class StudyPrograms {
 public:
  // `engine` is the file that runs the points; `models` is the folder of the models that have names.
  StudyPrograms(std::string engine, std::string models);

  // What the result of a point follows from. Every file is read once.
  Result<nlohmann::json> origin(const StudyPoint& point);

 private:
  Result<std::string> contents_hash(const std::string& path);

  const std::string engine_;
  const std::string models_;
  std::map<std::string, std::string> hashes_;  // by path
};

// The name of a point's files.
std::string name_of(const nlohmann::json& origin);

// In Mode::kNoContention without a message's length: the origin of the same run in Mode::kReal, whose
// messages tell it.
std::optional<nlohmann::json> real_twin(const nlohmann::json& origin);

struct PointResult {
  double seconds = 0;             // that the run took
  nlohmann::ordered_json report;  // of `braid sim`
};

// If it is there and is of this origin.
std::optional<PointResult> load_result(const std::string& path, const nlohmann::json& origin);
Result<void> store_result(const std::string& path, const nlohmann::json& origin, const PointResult& result);

// Whole or not at all, whatever happens meanwhile.
Result<void> write_file(const std::string& path, const std::string& text);

// One row of points.csv.
struct Row {
  const StudyPoint* point = nullptr;
  std::string name;
  PointResult result;
};

// Tidy: a line of names, then one line for each row. First what was set: application, arguments, clusters,
// compute, proxies, simulation.mode and the other varied keys; then the figures. A figure that a report does
// not have stays empty.
std::string points_csv(const std::vector<std::string>& varied, const std::vector<Row>& rows);

// Tidy, too: a row for each interval of each proxy's queue, of every name once: point, cluster, proxy,
// from_cycles and to_cycles (of the time in parallel()), mean and most. Nothing of a report that has none.
std::string queues_csv(const std::vector<Row>& rows);

// The settings of a point that were given, as a configuration file for `braid sim`; `message_bytes`, unless
// 0, is that setting.
std::string settings_yaml(const StudyPoint& point, std::uint32_t message_bytes);
nlohmann::ordered_json given_settings(const StudyPoint& point);

}  // namespace braid::cli
