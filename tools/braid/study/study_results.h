// The stored results of a study's points, and the tables of all of them.
//
// A finished point is a file points/<name>.json in the study's folder, named by a hash of everything
// that determines its result: all settings of simulations, the application's arguments, and the
// contents of the model's file, of the application and of the command itself. So a stored result is
// used only if a run would repeat it, and no finished run is repeated. The file also contains what
// its name was computed from; if that differs (or the file is cut short), the file is not used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "settings/cost_model.h"
#include "tools/braid/study/study.h"

namespace braid::cli {

// Where live runs take place.
struct LiveHost {
  std::string name;
  unsigned processors = 1;  // that this process can use (usable_cores())
};

// The files that determine a study's results.
class StudyPrograms {
 public:
  // `engine` is the file that runs the points; `models` is the folder of the named models.
  StudyPrograms(std::string engine, std::string models);

  // Everything that determines the result of a point. Each file is read once.
  Result<nlohmann::json> origin(const StudyPoint& point);
  // The same for a live run of it, but for its repetition: the host and what it can use belong to it. `folder`: of the
  // applications for live runs and of the daemon.
  Result<nlohmann::json> live_origin(const StudyPoint& point, const LiveHost& host,
                                     const std::string& folder);
  // Error: the model cannot be read, or the point's settings contradict one another or the model's.
  Result<void> check(const StudyPoint& point);

 private:
  Result<std::string> contents_hash(const std::string& path);
  Result<const settings::CostModel*> model(const std::string& path);

  const std::string engine_;
  const std::string models_;
  std::map<std::string, std::string> hashes_;               // by path
  std::map<std::string, settings::CostModel> cost_models_;  // by path
};

// The part of it that is the point's settings: those of its simulation, or of its live runs.
nlohmann::json settings_of(const StudyPoint& point);
nlohmann::json live_settings_of(const StudyPoint& point);

// The name of a point's files.
std::string name_of(const nlohmann::json& origin);

// In Mode::kNoContention without a message's length: the origin
// of the same run in Mode::kReal, which provides the length. Live runs have none.
std::optional<nlohmann::json> real_twin(const nlohmann::json& origin);

struct PointResult {
  double seconds = 0;  // duration of the run
  nlohmann::ordered_json
      report;  // of `braid sim`, or of `braid run` with "verified": true, false, or null: not said
};

// Returns the stored result if it exists and has this origin.
std::optional<PointResult> load_result(const std::string& path, const nlohmann::json& origin);
Result<void> store_result(const std::string& path, const nlohmann::json& origin, const PointResult& result);

// Writes the file atomically.
Result<void> write_file(const std::string& path, const std::string& text);

// Cells of comma-separated values, quoted where RFC 4180 says so; null is an empty one.
std::string in_csv(const nlohmann::json& value);
std::string csv_line(const std::vector<std::string>& cells);
// The columns and the cells that begin the rows of points: application, arguments, and settings.
std::vector<std::string> point_columns(const std::vector<std::string>& varied);
std::vector<std::string> point_cells(const std::vector<std::string>& varied, const StudyPoint& point);

// One row of points.csv.
struct Row {
  const StudyPoint* point = nullptr;
  std::string name;
  PointResult result;
};

// A line of names, then one line per row. First the settings: application,
// arguments, clusters, compute, proxies, simulation.mode and the other varied
// keys; then the figures. A figure that a report does not have is empty.
std::string points_csv(const std::vector<std::string>& varied, const std::vector<Row>& rows);

// A row for each interval of each proxy's queue, once for every name: point, cluster, proxy, from_cycles
// and to_cycles (of the time in parallel()), mean and most. No rows for a report without them.
std::string queues_csv(const std::vector<Row>& rows);

// The settings of a point that were given, as a configuration
// file for `braid sim`; `message_bytes` is added unless it is 0.
std::string settings_yaml(const StudyPoint& point, std::uint32_t message_bytes);
// The same for `braid run`: those that shape its live runs.
std::string live_settings_yaml(const StudyPoint& point);
// `given`: values by keys such as "simulation.mode".
std::string settings_yaml(const nlohmann::ordered_json& given);
nlohmann::ordered_json given_settings(const StudyPoint& point);

}  // namespace braid::cli
